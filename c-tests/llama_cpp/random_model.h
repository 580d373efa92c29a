// Describes the tensors of a GGUF model, and writes it with seeded random weights.

#pragma once

#include "random_weights.h"

#include <errno.h>
#include <stdlib.h>

static void add_tensor(struct gguf_context * gguf, struct ggml_tensor * tensor, const char * name) {
    ggml_set_name(tensor, name);
    gguf_add_tensor(gguf, tensor);
}

// Of the matrices that are described from now on.
static enum ggml_type matrix_type = GGML_TYPE_F16;

static void add_matrix(struct gguf_context * gguf, struct ggml_context * ctx, const char * name,
                       int64_t inputs, int64_t outputs) {
    add_tensor(gguf, ggml_new_tensor_2d(ctx, matrix_type, inputs, outputs), name);
}

static void add_vector(struct gguf_context * gguf, struct ggml_context * ctx, const char * name, int64_t width) {
    add_tensor(gguf, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, width), name);
}

// A context for the descriptions of tensors, of which gguf keeps copies; their data is streamed to the file. NULL, with a
// message, if no memory is left.
static struct ggml_context * new_descriptions(size_t tensors) {
    const struct ggml_init_params params = { .mem_size = tensors * ggml_tensor_overhead(), .no_alloc = true };
    struct ggml_context * ctx = ggml_init(params);
    if (ctx == NULL) {
        fprintf(stderr, "out of memory\n");
    }
    return ctx;
}

static bool write_model_to(const char * path, const struct gguf_context * gguf, uint64_t seed) {
    FILE * file = fopen(path, "wb");
    if (file == NULL) {
        fprintf(stderr, "cannot create %s: %s\n", path, strerror(errno));
        return false;
    }
    errno = 0;
    bool written = gguf_write_to_file_ptr(gguf, file, /*only_meta =*/ true) && write_random_weights(file, gguf, seed);
    written = fclose(file) == 0 && written;
    if (!written) {
        fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
        remove(path);
    }
    return written;
}

// The model appears under its own name only when it is complete. False, with a message, if it cannot be written.
static bool write_model(const char * path, const struct gguf_context * gguf, uint64_t seed) {
    const size_t size = strlen(path) + sizeof(".tmp");
    char * partial = malloc(size);
    if (partial == NULL) {
        fprintf(stderr, "out of memory\n");
        return false;
    }
    snprintf(partial, size, "%s.tmp", path);

    bool written = write_model_to(partial, gguf, seed);
    if (written && rename(partial, path) != 0) {
        fprintf(stderr, "cannot rename %s to %s: %s\n", partial, path, strerror(errno));
        remove(partial);
        written = false;
    }
    free(partial);
    return written;
}
