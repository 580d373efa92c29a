// Two backends that compute on the CPU but cannot read each other's memory, like a CPU and a GPU.
#pragma once

#include "dummy_buffer.h"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"

#define BACKENDS 2

struct separate_backends {
    ggml_backend_t             cpu[BACKENDS];
    struct dummy_buft          dummies[BACKENDS];
    struct ggml_backend_device devices[BACKENDS];
    struct ggml_backend        structs[BACKENDS];
    // The arguments of a scheduler.
    ggml_backend_t             backends[BACKENDS];
    ggml_backend_buffer_type_t types[BACKENDS];
};

// `separate` must not be moved until it is freed.
void separate_backends_init(struct separate_backends * separate, int n_threads);
void separate_backends_free(struct separate_backends * separate);
