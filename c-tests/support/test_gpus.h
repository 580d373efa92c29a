// Devices that a program takes for GPUs. Their memory is not the host's for ggml, so weights are moved there and values are
// copied between them; the kernels of the CPU compute.

#ifndef TEST_GPUS_H
#define TEST_GPUS_H

#include "ggml-backend.h"

#include <stdbool.h>
#include <stddef.h>

// Makes `count` devices, "GPU0", "GPU1" and so on, whose tensors start at multiples of `alignment` bytes and whose
// buffers have at most `max_buffer` bytes. With `pipelines` they have events, so that llama.cpp computes batches in
// pipelines. Call it once. NULL when there are more than it can have.
ggml_backend_reg_t test_gpus_make(int count, size_t alignment, size_t max_buffer, bool pipelines);

// The same, and ggml's registry has them. False when there are more than it can have.
static inline bool test_gpus_register(int count, size_t alignment, size_t max_buffer, bool pipelines) {
    ggml_backend_reg_t made = test_gpus_make(count, alignment, max_buffer, pipelines);
    if (made != NULL) {
        ggml_backend_register(made);
    }
    return made != NULL;
}

#endif
