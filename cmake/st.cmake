# libzklock_st: the same rooms, but for what threads do. src/loop stands for src/thread, src/store_st for the files of the
# store that start a thread, or leave it to the client library's.
find_library(ZOOKEEPER_ST NAMES libzookeeper_st.so.2)
if(NOT ZOOKEEPER_ST)
  message(FATAL_ERROR "libzookeeper_st.so.2 not found, which ZKLOCK_ST wants. On Debian: apt-get install libzookeeper-st2")
endif()

file(GLOB zklock_st_store CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/store/*.c" "${CMAKE_CURRENT_SOURCE_DIR}/src/store_st/*.c")
list(FILTER zklock_st_store EXCLUDE REGEX "/src/store/zookeeper_threads\\.c$")
add_library(zklock_store_st OBJECT ${zklock_st_store})
target_include_directories(zklock_store_st PRIVATE include src/store src/protocol src/base src/loop src/thread)
target_include_directories(zklock_store_st SYSTEM PRIVATE ${ZooKeeper_INCLUDE_DIR})

file(GLOB zklock_st_loop CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/loop/*.c")
add_library(zklock_loop OBJECT ${zklock_st_loop} src/thread/thread.c src/thread/stop.c src/thread/callback.c)
target_include_directories(zklock_loop PRIVATE include src/loop src/thread src/base)

set(zklock_st_objects $<TARGET_OBJECTS:zklock_base> $<TARGET_OBJECTS:zklock_protocol> $<TARGET_OBJECTS:zklock_store_st>
                      $<TARGET_OBJECTS:zklock_loop> $<TARGET_OBJECTS:zklock_session> $<TARGET_OBJECTS:zklock_recipes>
                      $<TARGET_OBJECTS:zklock_testing>)
add_library(zklock_st_shared SHARED ${zklock_st_objects})
target_link_libraries(zklock_st_shared PRIVATE ${ZOOKEEPER_ST} Threads::Threads ${CMAKE_DL_LIBS})
target_include_directories(zklock_st_shared INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                                                      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(zklock_st_shared PRIVATE LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/zklock_st.map)
if(NOT ZKLOCK_SANITIZE)
  target_link_options(zklock_st_shared PRIVATE LINKER:--no-undefined)
endif()
set_target_properties(zklock_st_shared PROPERTIES OUTPUT_NAME zklock_st VERSION ${PROJECT_VERSION} SOVERSION ${ZKLOCK_ABI}
  EXPORT_NAME zklock_st LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cmake/zklock_st.map)
add_library(zklock::zklock_st ALIAS zklock_st_shared)

# For tests, which see inside. Not installed.
add_library(zklock_st_static STATIC EXCLUDE_FROM_ALL ${zklock_st_objects})
target_include_directories(zklock_st_static INTERFACE include)
target_link_libraries(zklock_st_static PUBLIC ${ZOOKEEPER_ST} Threads::Threads ${CMAKE_DL_LIBS})
