// Writes the data of the tensors that a GGUF file describes: seeded random numbers, of a size that keeps activations near
// unit size from layer to layer.

#pragma once

#include "splitmix.h"

#include "ggml.h"
#include "gguf.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// A weight is `middle` plus up to `amplitude`, both ways.
struct weight_range {
    float middle;
    float amplitude;
};

static struct weight_range weight_range_of(const struct gguf_context * gguf, int64_t id) {
    const char *    name = gguf_get_tensor_name(gguf, id);
    const int64_t * ne   = gguf_get_tensor_ne(gguf, id);
    if (strstr(name, "ssm_a") != NULL) {
        // Minus the rate at which a state fades: with a positive one it grows without limit.
        return (struct weight_range) { -1.0f, 0.5f };
    }
    if (strstr(name, ".bias") != NULL || strstr(name, "sinks") != NULL) {
        return (struct weight_range) { 0.0f, 0.1f };
    }
    if (strstr(name, "norm") != NULL || ne[1] == 1) {
        return (struct weight_range) { 1.0f, 0.1f };
    }
    return (struct weight_range) { 0.0f, sqrtf(3.0f / (float) ne[0]) };
}

// Uniform in [-1, 1).
static float random_weight(uint64_t * state) {
    return (float) (splitmix64(state) >> 40) * 0x1p-23f - 1.0f;
}

static bool write_random_tensor(FILE * file, enum ggml_type type, int64_t count, struct weight_range range, uint64_t state) {
    enum { CHUNK = 1 << 14 };
    static float       weights[CHUNK];
    static ggml_fp16_t halves[CHUNK];

    while (count > 0) {
        const int64_t n = count < CHUNK ? count : CHUNK;
        for (int64_t i = 0; i < n; i++) {
            weights[i] = range.middle + range.amplitude * random_weight(&state);
        }
        const bool   is_half = type == GGML_TYPE_F16;
        const size_t size    = is_half ? sizeof(halves[0]) : sizeof(weights[0]);
        if (is_half) {
            ggml_fp32_to_fp16_row(weights, halves, n);
        }
        if (fwrite(is_half ? (void *) halves : (void *) weights, size, (size_t) n, file) != (size_t) n) {
            return false;
        }
        count -= n;
    }
    return true;
}

static bool write_padding(FILE * file, size_t size, size_t alignment) {
    for (size_t i = size; i % alignment != 0; i++) {
        if (fputc(0, file) == EOF) {
            return false;
        }
    }
    return true;
}

// Zeros that take no room on disk, where the file system has sparse files.
static bool write_zeros(FILE * file, size_t size) {
    return size == 0 || (fseek(file, (long) size - 1, SEEK_CUR) == 0 && fputc(0, file) != EOF);
}

// Writes behind the description, which `file` ends with, the data of all tensors: random numbers in F16 or F32, zeros in other
// types. False when the file cannot be written.
static bool write_random_weights(FILE * file, const struct gguf_context * gguf, uint64_t seed) {
    const size_t alignment = gguf_get_alignment(gguf);

    for (int64_t id = 0; id < gguf_get_n_tensors(gguf); id++) {
        const int64_t * ne   = gguf_get_tensor_ne(gguf, id);
        const enum ggml_type type = gguf_get_tensor_type(gguf, id);
        // One generator per tensor, seeded through a hash so that the streams do not overlap.
        uint64_t stream = seed + (uint64_t) id * UINT64_C(0xd1342543de82ef95);
        const uint64_t state = splitmix64(&stream);
        const size_t   size  = gguf_get_tensor_size(gguf, id);
        const bool     is_random = type == GGML_TYPE_F16 || type == GGML_TYPE_F32;
        const bool     written   = is_random
            ? write_random_tensor(file, type, ne[0] * ne[1] * ne[2] * ne[3], weight_range_of(gguf, id), state)
            : write_zeros(file, size);
        if (!written || !write_padding(file, size, alignment)) {
            return false;
        }
    }
    return true;
}
