// Two allocators in one process: ggml's own, which llama.cpp is linked with, and that of a library that is loaded in
// addition.

#pragma once

#include "ggml-alloc.h"
#include "ggml-backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct allocator_functions {
    ggml_gallocr_t (*new_n)(ggml_backend_buffer_type_t * bufts, int n_bufs);
    void (*free)(ggml_gallocr_t galloc);
    bool (*reserve_n)(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_ids, const int * leaf_ids);
    void (*reserve_n_size)(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_ids,
                           const int * leaf_ids, size_t * sizes);
    bool (*alloc_graph)(ggml_gallocr_t galloc, struct ggml_cgraph * graph);
};

enum { GGML, LASTUSE, BOTH };

static void * required_function(void * library, const char * name) {
    void * function = dlsym(library, name);
    if (function == NULL) {
        fprintf(stderr, PROGRAM ": there is no %s: %s\n", name, dlerror());
        exit(EXIT_FAILURE);
    }
    return function;
}

static struct allocator_functions allocator_functions_of(void * library) {
    return (struct allocator_functions) {
        .new_n          = required_function(library, "ggml_gallocr_new_n"),
        .free           = required_function(library, "ggml_gallocr_free"),
        .reserve_n      = required_function(library, "ggml_gallocr_reserve_n"),
        .reserve_n_size = required_function(library, "ggml_gallocr_reserve_n_size"),
        .alloc_graph    = required_function(library, "ggml_gallocr_alloc_graph"),
    };
}

// The allocator of the library at `path`. It is loaded for this program alone: llama.cpp keeps ggml's.
static struct allocator_functions load_allocator(const char * path) {
    void * library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, PROGRAM ": %s\n", dlerror());
        exit(EXIT_FAILURE);
    }
    return allocator_functions_of(library);
}
