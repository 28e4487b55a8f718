# What is installed, and as a component of which package: library, dev, tools, st, stdev.
include(CMakePackageConfigHelpers)
set(zklock_cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/zklock)

# The library; its name for the linker is the developer's.
install(TARGETS zklock_shared EXPORT zklockTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev)
install(TARGETS zklock_static EXPORT zklockStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY include/zklock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

# find_package(zklock). Programs that link the static library need libzookeeper_mt too, hence the module and a file of its own.
install(EXPORT zklockTargets NAMESPACE zklock:: DESTINATION ${zklock_cmake_folder} COMPONENT dev)
install(EXPORT zklockStaticTargets NAMESPACE zklock:: DESTINATION ${zklock_cmake_folder} COMPONENT dev)
configure_package_config_file(cmake/zklockConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/zklockConfig.cmake
  INSTALL_DESTINATION ${zklock_cmake_folder} NO_SET_AND_CHECK_MACRO)
# Before 1.0 the interface may change from one minor version to the next.
set(compatible SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatible SameMinorVersion)
endif()
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/zklockConfigVersion.cmake COMPATIBILITY ${compatible})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/zklockConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/zklockConfigVersion.cmake
  cmake/FindZooKeeper.cmake DESTINATION ${zklock_cmake_folder} COMPONENT dev)

# pkg-config zklock: the prefix is where the file stands, so a tree may be moved.
file(RELATIVE_PATH zklock_pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" zklock_pc_prefix "${zklock_pc_prefix}")
foreach(folder LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    set(zklock_pc_${folder} "${CMAKE_INSTALL_${folder}}")
  else()
    set(zklock_pc_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
  endif()
endforeach()
configure_file(cmake/zklock.pc.in zklock.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/zklock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# Manual pages are made in man/ of the build tree: section 1 and 7 are the command's, 3 the developer's. None made: none installed.
foreach(section 1 3 7)
  set(component tools)
  if(section EQUAL 3)
    set(component dev)
  endif()
  install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component}
    OPTIONAL FILES_MATCHING PATTERN "*.${section}" PATTERN CMakeFiles EXCLUDE)
endforeach()

# libzklock_st: a part of its own, for it needs the other client library. find_package(zklock COMPONENTS st), pkg-config zklock-st.
if(ZKLOCK_ST)
  install(TARGETS zklock_st_shared EXPORT zklockStTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT st NAMELINK_COMPONENT stdev)
  install(EXPORT zklockStTargets NAMESPACE zklock:: DESTINATION ${zklock_cmake_folder} COMPONENT stdev)
  configure_file(cmake/zklock-st.pc.in zklock-st.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/zklock-st.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT stdev)
endif()
