# Builds the libraries: cargo makes them, and one-object.cmake the form in which they are linked into C.
if(NOT CMAKE_SYSTEM_NAME STREQUAL Linux OR NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
    message(FATAL_ERROR "lastuse is for 64-bit Linux")
endif()

set(lastuse_sources "${CMAKE_CURRENT_SOURCE_DIR}")
set(lastuse_tools "${lastuse_sources}/packaging/cmake")
set(lastuse_lib "${CMAKE_CURRENT_BINARY_DIR}/lib")
file(MAKE_DIRECTORY "${lastuse_lib}")

# Other linkers do not make all kinds of object that are needed. A compiler for another system has its own.
find_program(LASTUSE_LD NAMES "${CMAKE_LINKER}.bfd" ld.bfd ld REQUIRED)

# The target `name` has a command of cargo (the arguments after the named ones) build `files` with a profile, below
# `target_dir`, in the folder that the variable `name` is set to. Cargo knows what has changed.
function(lastuse_cargo_build name profile target_dir files)
    # Cargo leaves the version of glibc out, which cargo-zigbuild takes after the name of a target.
    string(REGEX REPLACE "\\..*" "" built "${LASTUSE_TARGET}")
    string(JOIN / built "${target_dir}" ${built} "${profile}")
    set(target ${LASTUSE_TARGET})
    list(TRANSFORM target PREPEND --target=)
    list(TRANSFORM files PREPEND "${built}/")
    add_custom_target("${name}"
        COMMAND "${LASTUSE_CARGO}" ${ARGN} --quiet --profile "${profile}" --locked
            --manifest-path "${lastuse_sources}/Cargo.toml" --target-dir "${target_dir}" ${target}
        BYPRODUCTS ${files} COMMENT "lastuse: cargo builds ${name}" VERBATIM)
    set(${name} "${built}" PARENT_SCOPE)
endfunction()

# Makes `name`.o of the static library in a folder, with these arguments of one-object.cmake, and more outputs.
function(lastuse_one_object name built outputs)
    add_custom_command(OUTPUT "${lastuse_lib}/${name}.o" ${outputs}
        COMMAND "${CMAKE_COMMAND}" "-DARCHIVE=${built}/liblastuse.a" "-DSHARED=${lastuse_release}/liblastuse.so"
            "-DOUTPUT=${lastuse_lib}/${name}.o" "-DNM=${CMAKE_NM}" "-DLD=${LASTUSE_LD}" "-DOBJCOPY=${CMAKE_OBJCOPY}"
            "-DAR=${CMAKE_AR}" ${ARGN} -P "${lastuse_tools}/one-object.cmake"
        DEPENDS "${built}/liblastuse.a" "${lastuse_release}/liblastuse.so" "${lastuse_tools}/one-object.cmake" VERBATIM)
endfunction()

lastuse_cargo_build(lastuse_release release "${LASTUSE_TARGET_DIR}" "liblastuse.a;liblastuse.so"
    rustc --lib --package lastuse)
lastuse_one_object(lastuse "${lastuse_release}" "${lastuse_lib}/liblastuse.a" "-DLIBRARY=${lastuse_lib}/liblastuse.a")
add_custom_command(OUTPUT "${lastuse_lib}/liblastuse.so"
    COMMAND "${CMAKE_STRIP}" --strip-unneeded -o "${lastuse_lib}/liblastuse.so" "${lastuse_release}/liblastuse.so"
    DEPENDS "${lastuse_release}/liblastuse.so" VERBATIM)
add_custom_target(lastuse_libraries ALL DEPENDS "${lastuse_lib}/liblastuse.a" "${lastuse_lib}/liblastuse.so")

if(LASTUSE_INJECT)
    lastuse_cargo_build(lastuse_small small "${LASTUSE_TARGET_DIR}" liblastuse.a
        rustc --lib --package lastuse --crate-type staticlib)
    add_library(lastuse_needs_original OBJECT "${lastuse_tools}/needs-original.c")
    set_target_properties(lastuse_needs_original PROPERTIES
        POSITION_INDEPENDENT_CODE ON INTERPROCEDURAL_OPTIMIZATION OFF)
    # The functions of ggml-alloc.h (ggml_dependency is lastuse's own), and those that tell which allocator serves. Programs
    # that call the others are linked with lastuse, which then comes first.
    lastuse_one_object(lastuse-in-ggml "${lastuse_small}" ""
        "-DKEEP=^ggml_[^d]|^lastuse_(version|enabled|last_error|set|stats_report)$"
        "-DMORE=$<TARGET_OBJECTS:lastuse_needs_original>")
    add_custom_target(lastuse_inject ALL DEPENDS "${lastuse_lib}/lastuse-in-ggml.o" lastuse_needs_original)
endif()

# The targets of programs, as find_package makes them of what is installed.
include(packaging/cmake/lastuse-targets.cmake)
lastuse_add_targets("${lastuse_lib}" "${lastuse_sources}/include" ON)
add_dependencies(lastuse::static lastuse_libraries)
add_dependencies(lastuse::shared lastuse_libraries)
