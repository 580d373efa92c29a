# Makes of a static library of Rust one object whose only visible symbols are functions of lastuse: libraries of C that it is
# linked into export no symbol of Rust's, and programs may have another library of Rust's.
#   cmake -DARCHIVE=liblastuse.a -DSHARED=liblastuse.so -DOUTPUT=FILE.o [-DLIBRARY=FILE.a] [-DKEEP=PATTERN] [-DMORE=OBJECT]
#         -DNM=nm -DLD=ld -DOBJCOPY=objcopy -DAR=ar -P one-object.cmake
# KEEP says which of the functions that SHARED exports, and what they need; all by default. MORE is linked to them. LIBRARY is
# the object as a static library.
cmake_minimum_required(VERSION 3.19)

function(run)
    execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
    if(NOT status EQUAL 0)
        list(JOIN ARGV " " command)
        message(FATAL_ERROR "${command}: ${status}\n${errors}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

run("${NM}" -D --defined-only "${SHARED}")
string(REGEX MATCHALL "[^ \n]+\n" exported "${output}")
string(REPLACE "\n" "" exported "${exported}")
if(KEEP)
    list(FILTER exported INCLUDE REGEX "${KEEP}")
endif()
if(NOT "ggml_gallocr_new_n" IN_LIST exported)
    message(FATAL_ERROR "${SHARED} is not liblastuse.so: it does not export ggml_gallocr_new_n")
endif()

list(TRANSFORM exported PREPEND "--undefined=" OUTPUT_VARIABLE roots)
if(MORE)
    list(APPEND roots --undefined=lastuse_needs_original "${MORE}")
endif()
# Parts that linkers choose by name from several objects are no such parts any more: their names are not visible.
run("${LD}" -r --gc-sections --force-group-allocation ${roots} "${ARCHIVE}" -o "${OUTPUT}")
list(TRANSFORM exported PREPEND "--keep-global-symbol=")
# Rust's standard library has its code in LLVM's form, too, where other tools look for it and find parts of several.
run("${OBJCOPY}" --strip-unneeded --remove-section=.llvmbc --remove-section=.llvmcmd ${exported} "${OUTPUT}")
if(LIBRARY)
    file(REMOVE "${LIBRARY}")
    run("${AR}" rcs "${LIBRARY}" "${OUTPUT}")
endif()
