# Makes the targets of programs: lastuse::static, lastuse::shared where there is a shared library, and lastuse::lastuse, which
# is the first one.
#
# A linker takes the functions of ggml-alloc.h from the library that comes first. CMake writes libraries in an order that
# depends on all dependencies of a program, and options before them: so lastuse is an option.
function(lastuse_add_targets libraries headers has_shared)
    if(TARGET lastuse::lastuse)
        return()
    endif()
    add_library(lastuse::static INTERFACE IMPORTED GLOBAL)
    set_target_properties(lastuse::static PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${headers}"
        INTERFACE_LINK_OPTIONS "LINKER:-u,ggml_gallocr_new_n;${libraries}/liblastuse.a"
        INTERFACE_LINK_LIBRARIES "dl;m;pthread"
        INTERFACE_LINK_DEPENDS "${libraries}/liblastuse.a")

    if(has_shared)
        # CMake writes the run path for a library that it knows.
        add_library(lastuse::shared_file SHARED IMPORTED GLOBAL)
        set_target_properties(lastuse::shared_file PROPERTIES
            IMPORTED_LOCATION "${libraries}/liblastuse.so"
            IMPORTED_SONAME liblastuse.so)
        add_library(lastuse::shared INTERFACE IMPORTED GLOBAL)
        set_target_properties(lastuse::shared PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${headers}"
            INTERFACE_LINK_OPTIONS
                "LINKER:--push-state,--no-as-needed;${libraries}/liblastuse.so;LINKER:--pop-state"
            INTERFACE_LINK_LIBRARIES lastuse::shared_file
            INTERFACE_LINK_DEPENDS "${libraries}/liblastuse.so")
    endif()

    add_library(lastuse::lastuse INTERFACE IMPORTED GLOBAL)
    set_target_properties(lastuse::lastuse PROPERTIES INTERFACE_LINK_LIBRARIES lastuse::static)
endfunction()
