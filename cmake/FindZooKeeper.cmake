# Finds the threaded C client of Apache ZooKeeper: Debian's package has neither a pkg-config file nor a CMake package.
#   ZooKeeper::zookeeper_mt, ZooKeeper_INCLUDE_DIR, ZooKeeper_LIBRARY, ZooKeeper_VERSION
# It is libzookeeper_mt (autotools, distributions), or the static libzookeeper of its own CMake files, as vcpkg and Conan
# package it: there its libhashtable stands beside it, and it may want OpenSSL and Cyrus SASL.
find_path(ZooKeeper_INCLUDE_DIR zookeeper/zookeeper.h)
find_library(ZooKeeper_LIBRARY NAMES zookeeper_mt zookeeper)
if(ZooKeeper_INCLUDE_DIR AND EXISTS "${ZooKeeper_INCLUDE_DIR}/zookeeper/zookeeper_version.h")
  file(STRINGS "${ZooKeeper_INCLUDE_DIR}/zookeeper/zookeeper_version.h" zookeeper_version_line REGEX "ZOO_VERSION \"")
  string(REGEX REPLACE ".*\"([0-9.]+)\".*" "\\1" ZooKeeper_VERSION "${zookeeper_version_line}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZooKeeper REQUIRED_VARS ZooKeeper_LIBRARY ZooKeeper_INCLUDE_DIR VERSION_VAR ZooKeeper_VERSION
  REASON_FAILURE_MESSAGE "On Debian: apt-get install libzookeeper-mt-dev")
if(ZooKeeper_FOUND AND NOT TARGET ZooKeeper::zookeeper_mt)
  add_library(ZooKeeper::zookeeper_mt UNKNOWN IMPORTED)
  set_target_properties(ZooKeeper::zookeeper_mt PROPERTIES IMPORTED_LOCATION "${ZooKeeper_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ZooKeeper_INCLUDE_DIR}" INTERFACE_COMPILE_DEFINITIONS THREADED)
  # Only an archive does not say itself what it needs: whether TLS and SASL are in it, its undefined symbols do.
  if(ZooKeeper_LIBRARY MATCHES "\\.a$")
    get_filename_component(zookeeper_folder "${ZooKeeper_LIBRARY}" DIRECTORY)
    set(zookeeper_needs "")
    if(EXISTS "${zookeeper_folder}/libhashtable.a")
      list(APPEND zookeeper_needs "${zookeeper_folder}/libhashtable.a")
    endif()
    file(STRINGS "${ZooKeeper_LIBRARY}" zookeeper_tls REGEX "SSL_CTX_new" LIMIT_COUNT 1)
    file(STRINGS "${ZooKeeper_LIBRARY}" zookeeper_sasl REGEX "sasl_client_new" LIMIT_COUNT 1)
    if(zookeeper_tls)
      find_package(OpenSSL REQUIRED)
      list(APPEND zookeeper_needs OpenSSL::SSL OpenSSL::Crypto)
    endif()
    if(zookeeper_sasl)
      list(APPEND zookeeper_needs sasl2)
    endif()
    list(APPEND zookeeper_needs m)
    set_target_properties(ZooKeeper::zookeeper_mt PROPERTIES INTERFACE_LINK_LIBRARIES "${zookeeper_needs}")
  endif()
endif()
mark_as_advanced(ZooKeeper_INCLUDE_DIR ZooKeeper_LIBRARY)
