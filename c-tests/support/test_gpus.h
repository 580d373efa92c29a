// Devices that a program takes for GPUs, registered through ggml's public interface of backends. Their memory is not the
// host's for ggml, so weights are moved there and values are copied between them; the kernels of the CPU compute.

#ifndef TEST_GPUS_H
#define TEST_GPUS_H

#include <stdbool.h>
#include <stddef.h>

// Registers `count` devices, "GPU0", "GPU1" and so on, whose tensors start at multiples of `alignment` bytes and whose
// buffers have at most `max_buffer` bytes. With `pipelines` they have events, so that llama.cpp computes batches in
// pipelines. Call it once. False when there are more than it can have.
bool test_gpus_register(int count, size_t alignment, size_t max_buffer, bool pipelines);

#endif
