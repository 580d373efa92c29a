# Builds and installs the tool, the libraries that it preloads, its man pages and completions.

# The library has another feature for the tool, and a file of the same name: so its folder is another one.
lastuse_cargo_build(lastuse_programs release "${LASTUSE_TARGET_DIR}/tool" "lastuse;liblastuse_guard.so;liblastuse_measure.so"
    build --no-default-features --package lastuse-tool --package lastuse-guard --package lastuse-measure)
set(tool "${CMAKE_CURRENT_BINARY_DIR}/tool")
set(completions "${tool}/share/bash-completion/completions" "${tool}/share/fish/vendor_completions.d"
    "${tool}/share/zsh/site-functions")
list(GET completions 0 bash)
list(GET completions 1 fish)
list(GET completions 2 zsh)
# A processor that this machine lacks is emulated.
set(run ${CMAKE_CROSSCOMPILING_EMULATOR} "${tool}/lastuse")
add_custom_command(OUTPUT "${tool}/lastuse" "${tool}/liblastuse_guard.so" "${tool}/liblastuse_measure.so" "${tool}/share"
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${tool}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${tool}" ${completions}
    COMMAND "${CMAKE_STRIP}" --strip-unneeded -o "${tool}/lastuse" "${lastuse_programs}/lastuse"
    COMMAND "${CMAKE_STRIP}" --strip-unneeded -o "${tool}/liblastuse_guard.so" "${lastuse_programs}/liblastuse_guard.so"
    COMMAND "${CMAKE_STRIP}" --strip-unneeded -o "${tool}/liblastuse_measure.so" "${lastuse_programs}/liblastuse_measure.so"
    COMMAND ${run} man -o "${tool}/share/man/man1"
    COMMAND ${run} completions bash > "${bash}/lastuse"
    COMMAND ${run} completions fish > "${fish}/lastuse.fish"
    COMMAND ${run} completions zsh > "${zsh}/_lastuse"
    DEPENDS "${lastuse_programs}/lastuse" "${lastuse_programs}/liblastuse_guard.so" "${lastuse_programs}/liblastuse_measure.so"
    VERBATIM)
add_custom_target(lastuse_tool ALL DEPENDS "${tool}/lastuse")

# The tool, which is in bin, looks for libraries in ../lib and in ../lib/lastuse.
set(private lib/lastuse)
install(PROGRAMS "${tool}/lastuse" DESTINATION bin)
install(FILES "${tool}/liblastuse_guard.so" "${tool}/liblastuse_measure.so" DESTINATION ${private})
if(NOT LASTUSE_SHARED OR NOT CMAKE_INSTALL_LIBDIR STREQUAL lib)
    install(FILES "${lastuse_lib}/liblastuse.so" DESTINATION ${private})
endif()
install(DIRECTORY "${tool}/share/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(DIRECTORY "${tool}/share/bash-completion" "${tool}/share/fish" "${tool}/share/zsh"
    DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}")
