// Two backends that compute as the CPU does and cannot read each other's memory, as a CPU and a GPU.
#pragma once

#include "dummy_buffer.h"
#include "ggml-backend-impl.h"
#include "ggml-backend.h"

#define APART 2

struct apart {
    ggml_backend_t             cpu[APART];
    struct dummy_buft          dummies[APART];
    struct ggml_backend_device devices[APART];
    struct ggml_backend        structs[APART];
    // What a scheduler takes.
    ggml_backend_t             backends[APART];
    ggml_backend_buffer_type_t types[APART];
};

// `apart` stays where it is until it is freed.
void apart_init(struct apart * apart, int n_threads);
void apart_free(struct apart * apart);
