# What is installed, below the prefix: header, libraries, the files for pkg-config and CMake.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(lastuse_cmake "${CMAKE_INSTALL_LIBDIR}/cmake/lastuse")
# Paths in the files are relative to them, so that the prefix can be moved, except where a folder is given as an absolute one.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(LASTUSE_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
    file(RELATIVE_PATH to_prefix "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /p)
    set(LASTUSE_PC_PREFIX "\${pcfiledir}/${to_prefix}")
endif()
foreach(folder IN ITEMS LIBDIR INCLUDEDIR)
    set(LASTUSE_PC_${folder} "${CMAKE_INSTALL_${folder}}")
    if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
        string(PREPEND LASTUSE_PC_${folder} "\${prefix}/")
    endif()
endforeach()
set(LASTUSE_PC_NEEDS "-ldl -lm -lpthread")
# A program may reach the allocator through ggml's scheduler alone, and linkers drop a library that it does not call itself.
set(LASTUSE_PC_LIBS "-Wl,--push-state,--no-as-needed -llastuse -Wl,--pop-state")
if(NOT LASTUSE_SHARED)
    set(LASTUSE_PC_LIBS "-Wl,-u,ggml_gallocr_new_n -llastuse ${LASTUSE_PC_NEEDS}")
endif()
configure_file("${lastuse_tools}/lastuse.pc.in" lastuse.pc @ONLY)
configure_package_config_file("${lastuse_tools}/lastuse-config.cmake.in" "${CMAKE_CURRENT_BINARY_DIR}/lastuse-config.cmake"
    INSTALL_DESTINATION "${lastuse_cmake}" PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR
    NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/lastuse-config-version.cmake"
    VERSION "${LASTUSE_VERSION}" COMPATIBILITY SameMajorVersion)

install(FILES "${lastuse_sources}/include/lastuse.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${lastuse_lib}/liblastuse.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(LASTUSE_SHARED)
    install(PROGRAMS "${lastuse_lib}/liblastuse.so" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/lastuse.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES
    "${CMAKE_CURRENT_BINARY_DIR}/lastuse-config.cmake"
    "${CMAKE_CURRENT_BINARY_DIR}/lastuse-config-version.cmake"
    "${lastuse_tools}/lastuse-targets.cmake"
    DESTINATION "${lastuse_cmake}")
if(LASTUSE_INJECT)
    configure_file("${lastuse_tools}/lastuse-inject.cmake.in" lastuse-inject.cmake @ONLY)
    install(FILES
        "${CMAKE_CURRENT_BINARY_DIR}/lastuse-inject.cmake"
        "${lastuse_tools}/original-names.h"
        "${lastuse_lib}/lastuse-in-ggml.o"
        DESTINATION "${lastuse_cmake}")
endif()
