// Backends that compute on the CPU but cannot read each other's memory, like a CPU and a GPU: two, or another number.
#pragma once

#include "dummy_buffer.h"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"

#define BACKENDS      2
#define MOST_BACKENDS 3

struct separate_backends {
    int                        count;
    ggml_backend_t             cpu[MOST_BACKENDS];
    struct dummy_buft          dummies[MOST_BACKENDS];
    struct ggml_backend_device devices[MOST_BACKENDS];
    struct ggml_backend        structs[MOST_BACKENDS];
    // The arguments of a scheduler.
    ggml_backend_t             backends[MOST_BACKENDS];
    ggml_backend_buffer_type_t types[MOST_BACKENDS];
};

// `separate` must not be moved until it is freed.
void separate_backends_init(struct separate_backends * separate, int n_threads);
void separate_backends_init_n(struct separate_backends * separate, int count, int n_threads);
void separate_backends_free(struct separate_backends * separate);
