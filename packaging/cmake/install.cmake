# What is installed, below the prefix: header, libraries, the files for pkg-config and CMake.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(lastuse_cmake "${CMAKE_INSTALL_LIBDIR}/cmake/lastuse")
# Paths in the files that are relative to them, so that the prefix can be moved.
file(RELATIVE_PATH LASTUSE_PC_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /p)
configure_file("${lastuse_tools}/lastuse.pc.in" lastuse.pc @ONLY)
configure_package_config_file("${lastuse_tools}/lastuse-config.cmake.in" "${CMAKE_CURRENT_BINARY_DIR}/lastuse-config.cmake"
    INSTALL_DESTINATION "${lastuse_cmake}" PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR
    NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/lastuse-config-version.cmake"
    VERSION "${LASTUSE_VERSION}" COMPATIBILITY SameMajorVersion)

install(FILES "${lastuse_sources}/include/lastuse.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${lastuse_lib}/liblastuse.a" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(PROGRAMS "${lastuse_lib}/liblastuse.so" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
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
