// A GGUF file with the names and shapes of weights, and a hole where their data would be: as large as a real model, and
// almost nothing on disk.

#pragma once

#include "ggml-backend.h"
#include "ggml.h"
#include "gguf.h"

#include "graph_fields.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct hollow_gguf {
    struct gguf_context * gguf;
    const char *          without; // parts of the names of weights to leave out, with spaces between
    bool                  halves;  // whether large matrices are F16, as in the files that converters write
};

static struct hollow_gguf hollow_gguf_new(const struct gguf_context * metadata, const char * without) {
    struct hollow_gguf hollow = { .gguf = gguf_init_empty(), .without = without };
    gguf_set_kv(hollow.gguf, metadata);
    return hollow;
}

static void hollow_gguf_free(struct hollow_gguf * hollow) {
    gguf_free(hollow->gguf);
}

static bool hollow_gguf_lacks(const struct hollow_gguf * hollow, const char * name) {
    char parts[256];
    snprintf(parts, sizeof(parts), "%s", hollow->without);
    for (char * part = strtok(parts, " "); part != NULL; part = strtok(NULL, " ")) {
        if (strstr(name, part) != NULL) {
            return true;
        }
    }
    return false;
}

static bool is_weight(const struct ggml_tensor * tensor) {
    return tensor->buffer != NULL && ggml_backend_buffer_get_usage(tensor->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

// Matrices whose kernels take F16; those of, for example, convolutions and routers stay as they are.
static bool may_be_half(const struct ggml_tensor * tensor) {
    static const char * const parts[] = { "token_embd.", "output.weight", "attn_q", "attn_k", "attn_v", "attn_output.",
                                          "ffn_gate.", "ffn_up", "ffn_down", "_exps.", "ssm_in.", "ssm_out." };
    const char * name = tensor->name;
    if (tensor->ne[1] == 1 || strstr(name, "norm") != NULL || strstr(name, ".bias") != NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strstr(name, parts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void hollow_gguf_add(struct hollow_gguf * hollow, const struct ggml_tensor * tensor) {
    if (is_weight(tensor) && !hollow_gguf_lacks(hollow, tensor->name) && gguf_find_tensor(hollow->gguf, tensor->name) < 0) {
        gguf_add_tensor(hollow->gguf, tensor);
        if (hollow->halves && may_be_half(tensor)) {
            gguf_set_tensor_type(hollow->gguf, tensor->name, GGML_TYPE_F16);
        }
    }
}

// Adds all weights that a graph of llama.cpp reads, with the metadata that is there already.
static void hollow_gguf_add_weights(struct hollow_gguf * hollow, const struct ggml_cgraph * graph) {
    for (int i = 0; i < graph->n_leafs; i++) {
        hollow_gguf_add(hollow, graph->leafs[i]);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        // A weight of which only views are read is not a leaf.
        if (graph->nodes[i]->view_src != NULL) {
            hollow_gguf_add(hollow, graph->nodes[i]->view_src);
        }
    }
}

// Writes it to `file`, which is at its start; false when it cannot be written.
static bool hollow_gguf_write_to(const struct hollow_gguf * hollow, FILE * file) {
    const int64_t last = gguf_get_n_tensors(hollow->gguf) - 1;
    if (!gguf_write_to_file_ptr(hollow->gguf, file, /*only_meta =*/ true) || fflush(file) != 0) {
        return false;
    }
    const size_t data = last < 0 ? 0
        : gguf_get_tensor_offset(hollow->gguf, last) + gguf_get_tensor_size(hollow->gguf, last);
    const long start = ftell(file);
    return start >= 0 && ftruncate(fileno(file), start + (off_t) data) == 0;
}

// A file without a name, at its start; NULL when it cannot be written.
static FILE * hollow_gguf_write(const struct hollow_gguf * hollow) {
    FILE * file = tmpfile();
    if (file == NULL) {
        return NULL;
    }
    if (!hollow_gguf_write_to(hollow, file)) {
        fclose(file);
        return NULL;
    }
    rewind(file);
    return file;
}
