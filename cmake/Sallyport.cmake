# SPDX-License-Identifier: Apache-2.0
# Compiler flags, found libraries, and the four ways to declare a target: library, test, fuzz target, bench.

find_program(SALLYPORT_CCACHE ccache)
if(SALLYPORT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SALLYPORT_CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion -fno-omit-frame-pointer
                    -fstack-protector-strong -fvisibility=hidden -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
add_compile_definitions(_GLIBCXX_ASSERTIONS)
if(SALLYPORT_WERROR)
  add_compile_options(-Werror)
endif()
if(SALLYPORT_SANITIZE)
  add_compile_options(-fsanitize=${SALLYPORT_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SALLYPORT_SANITIZE})
endif()
if(SALLYPORT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
add_link_options(-fuse-ld=lld -Wl,-z,relro,-z,now)

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(OpenSSL REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(PkgConfig REQUIRED)
foreach(module libnghttp2 re2 libidn2 libunbound ldns libnftables libnl-3.0 libnl-route-3.0 libseccomp sqlite3)
  string(REGEX REPLACE "^lib|-3.0$" "" short ${module})
  pkg_check_modules(${short} REQUIRED IMPORTED_TARGET ${module})
endforeach()
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)

# sallyport_library(NAME SOURCES a.cc b.cc DEPS base PUBLIC_LIBS fmt::fmt PRIVATE_LIBS ...)
# Makes the static library sallyport_NAME. DEPS are folders of src/ and must agree with the table in ARCHITECTURE.md.
function(sallyport_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PUBLIC_LIBS;PRIVATE_LIBS" ${ARGN})
  add_library(sallyport_${name} STATIC ${arg_SOURCES})
  target_include_directories(sallyport_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM arg_DEPS PREPEND sallyport_)
  target_link_libraries(sallyport_${name} PUBLIC ${arg_DEPS} ${arg_PUBLIC_LIBS} PRIVATE ${arg_PRIVATE_LIBS})
endfunction()

# Folders whose code meets bytes of guests, agents and the internet: what `check` runs with sanitizers (label `untrusted`).
set(SALLYPORT_UNTRUSTED base policy dns tls postgres net firewall guest driver)

# sallyport_test(NAME SOURCES x_test.cc DEPS policy [LABELS root]): one GoogleTest binary, one CTest entry.
function(sallyport_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  list(TRANSFORM arg_DEPS PREPEND sallyport_)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE SALLYPORT_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             SALLYPORT_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ${arg_LIBS} GTest::gmock_main)
  add_test(NAME ${name} COMMAND ${name})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(folder IN_LIST SALLYPORT_UNTRUSTED)
    list(APPEND arg_LABELS untrusted)
    set_property(GLOBAL APPEND PROPERTY SALLYPORT_UNTRUSTED_TARGETS ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "unit;${arg_LABELS}" TIMEOUT 600)
endfunction()

# sallyport_fuzz(client_hello DEPS tls): fuzz/client_hello_fuzz.cc. With the fuzz preset it is a libFuzzer binary;
# otherwise the same file is linked with replay_main.cc and CTest runs it over fuzz/corpus/client_hello.
function(sallyport_fuzz name)
  cmake_parse_arguments(arg "" "" "DEPS;LIBS" ${ARGN})
  list(TRANSFORM arg_DEPS PREPEND sallyport_)
  add_executable(${name}_fuzz ${name}_fuzz.cc)
  target_link_libraries(${name}_fuzz PRIVATE ${arg_DEPS} ${arg_LIBS})
  if(SALLYPORT_FUZZ)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name}_fuzz PRIVATE replay_main.cc)
    add_test(NAME ${name}_corpus COMMAND ${name}_fuzz ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(${name}_corpus PROPERTIES LABELS "corpus")
    set_property(GLOBAL APPEND PROPERTY SALLYPORT_UNTRUSTED_TARGETS ${name}_fuzz)
  endif()
endfunction()

# sallyport_bench(policy DEPS policy LIBS benchmark::benchmark): bench/policy.cc, never run by CTest.
function(sallyport_bench name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  list(TRANSFORM arg_DEPS PREPEND sallyport_)
  add_executable(bench-${name} ${arg_SOURCES})
  target_link_libraries(bench-${name} PRIVATE ${arg_DEPS} ${arg_LIBS})
endfunction()
