# The Debian packages, as Debian would split them: the library, what a developer needs, the command; the first two of
# libzklock_st, too, where it is built. scripts/package makes them.
set(CPACK_PACKAGE_NAME zklock)
set(CPACK_PACKAGE_VENDOR "zklock")
set(CPACK_PACKAGE_CONTACT "zklock maintainers <maintainers@zklock.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/cmake/compress_manual.cmake)
set(CPACK_VERBATIM_VARIABLES ON)

set(library_package libzklock${ZKLOCK_ABI})
set(CPACK_COMPONENTS_ALL library dev tools)
set(st_package libzklock-st${ZKLOCK_ABI})
if(ZKLOCK_ST)
  list(APPEND CPACK_COMPONENTS_ALL st stdev)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1) # of the packaging: -1, as ours is no software that exists in Debian alone
set(package_version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libzklock-dev)
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME zklock)
set(CPACK_DEBIAN_ST_PACKAGE_NAME ${st_package})
set(CPACK_DEBIAN_STDEV_PACKAGE_NAME libzklock-st-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_ST_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_STDEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_DEV_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_TOOLS_PACKAGE_MULTIARCH foreign)
set(CPACK_DEBIAN_ST_PACKAGE_MULTIARCH same)
set(CPACK_DEBIAN_STDEV_PACKAGE_MULTIARCH same)

# What programs need of others, dpkg-shlibdeps finds out; what they need of our own library, it cannot: that is not installed yet.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ST_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_CURRENT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# CPack would call ldconfig in scripts of the maintainer's; Debian has a trigger for it.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/triggers)
set(CPACK_DEBIAN_ST_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/triggers)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library_package} (= ${package_version}), libzookeeper-mt-dev")
# Nor what the command loads when it is wanted.
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "${library_package} (= ${package_version})")
execute_process(COMMAND dpkg-query --search "*/${ZKLOCK_HTTP_LIBRARY}" OUTPUT_VARIABLE http_package ERROR_QUIET)
if(http_package)
  string(REGEX REPLACE ":.*" "" http_package ${http_package})
  string(APPEND CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS ", ${http_package}")
endif()
# Headers and the CMake package are libzklock-dev's. Not libzookeeper-st-dev, which excludes the -mt-dev that libzklock-dev
# needs: whoever links libzklock_st needs no file of it.
set(CPACK_DEBIAN_STDEV_PACKAGE_DEPENDS "${st_package} (= ${package_version}), libzklock-dev (= ${package_version})")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "libzookeeper-java, default-jre-headless, zookeeperd") # the first two: zklock sandbox

# The same as RPM packages, by the names that Fedora and openSUSE use for such. rpm finds out by itself what they need of others.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0")
set(CPACK_RPM_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_RPM_DEV_PACKAGE_NAME zklock-devel)
set(CPACK_RPM_TOOLS_PACKAGE_NAME zklock)
set(CPACK_RPM_ST_PACKAGE_NAME ${st_package})
set(CPACK_RPM_STDEV_PACKAGE_NAME zklock-st-devel)
set(CPACK_RPM_DEV_PACKAGE_REQUIRES "${library_package} = ${PROJECT_VERSION}")
set(CPACK_RPM_TOOLS_PACKAGE_REQUIRES "${library_package} = ${PROJECT_VERSION}, ${ZKLOCK_HTTP_LIBRARY}()(64bit)")
set(CPACK_RPM_STDEV_PACKAGE_REQUIRES "${st_package} = ${PROJECT_VERSION}, zklock-devel = ${PROJECT_VERSION}")
foreach(component LIBRARY DEV TOOLS ST STDEV)
  set(CPACK_RPM_${component}_PACKAGE_SUMMARY "Locks and other recipes on Apache ZooKeeper")
endforeach()

set(words "A contender is one ephemeral sequential znode that watches the one before
it: no polling, no TTL, a queue that Curator and go-zookeeper stand in, too.
A holder knows that it has lost before anybody else can be granted, and has
a fencing token.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "locks and other recipes on Apache ZooKeeper - library
${words}

This is the shared library.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "locks and other recipes on Apache ZooKeeper - development files
${words}

Headers for C and C++, the static library, files for CMake and pkg-config.")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "locks and other recipes on Apache ZooKeeper - command
${words}

The command zklock runs a job on one host of many, in turn, and shows who
holds and who waits.")
set(CPACK_COMPONENT_ST_DESCRIPTION "locks and other recipes on Apache ZooKeeper - library without threads
${words}

This is the shared library that starts no thread: the caller's loop drives it.")
set(CPACK_COMPONENT_STDEV_DESCRIPTION "locks and other recipes on Apache ZooKeeper - development, without threads
${words}

Files for CMake and pkg-config, to link the library that starts no thread.
The headers are those of libzklock-dev.")

# Debian wants a copyright file and two compressed changelogs in every package: the project's and the packaging's.
find_program(GZIP gzip)
if(GZIP)
  execute_process(COMMAND ${GZIP} -9nc ${CMAKE_CURRENT_SOURCE_DIR}/CHANGELOG.md OUTPUT_FILE ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz)
  configure_file(cmake/changelog.Debian.in ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian @ONLY)
  execute_process(COMMAND ${GZIP} -9nc ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian
                  OUTPUT_FILE ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian.gz)
endif()
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  install(FILES cmake/copyright ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian.gz
    EXCLUDE_FROM_ALL COMPONENT ${component} OPTIONAL
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
endforeach()
include(CPack)
