// The memory of the tensors that a graph refers to: noted before an allocator gives them some, and put back after.

#pragma once

#include "ggml.h"

#include "graph_fields.h"

#include <stdlib.h>

struct tensor_memory {
    struct ggml_tensor * tensor;
    struct ggml_backend_buffer * buffer;
    void * data;
};

struct graph_memory {
    struct tensor_memory * tensors;
    size_t                 count;
    size_t                 capacity;
};

static void note_tensor(struct graph_memory * memory, struct ggml_tensor * tensor) {
    if (tensor == NULL) {
        return;
    }
    if (memory->count == memory->capacity) {
        memory->capacity = memory->capacity == 0 ? 1024 : 2 * memory->capacity;
        memory->tensors  = realloc(memory->tensors, memory->capacity * sizeof(*memory->tensors));
        if (memory->tensors == NULL) {
            abort();
        }
    }
    memory->tensors[memory->count++] = (struct tensor_memory) { tensor, tensor->buffer, tensor->data };
}

static void note_references(struct graph_memory * memory, const struct ggml_tensor * tensor) {
    note_tensor(memory, tensor->view_src);
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        note_tensor(memory, tensor->src[i]);
    }
}

// Those that are noted more than once have the same memory each time.
static void note_memory(struct graph_memory * memory, const struct ggml_cgraph * graph) {
    memory->count = 0;
    for (int i = 0; i < graph->n_leafs; i++) {
        note_tensor(memory, graph->leafs[i]);
        note_references(memory, graph->leafs[i]);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        note_tensor(memory, graph->nodes[i]);
        note_references(memory, graph->nodes[i]);
    }
}

static void put_back_memory(const struct graph_memory * memory) {
    for (size_t i = 0; i < memory->count; i++) {
        memory->tensors[i].tensor->buffer = memory->tensors[i].buffer;
        memory->tensors[i].tensor->data   = memory->tensors[i].data;
    }
}

// llama.cpp has only pretended to allocate weights and caches: they have a buffer and no address. They get one that
// nothing is read from or written to, as ggml requires an address before it creates a view.
static void pretend_addresses(struct graph_memory * memory, const struct ggml_cgraph * graph) {
    static char nothing[64] __attribute__((aligned(64)));
    note_memory(memory, graph);
    for (size_t i = 0; i < memory->count; i++) {
        struct ggml_tensor * tensor = memory->tensors[i].tensor;
        if (tensor->buffer != NULL && tensor->data == NULL && tensor->view_src == NULL) {
            tensor->data = nothing;
        }
    }
}
