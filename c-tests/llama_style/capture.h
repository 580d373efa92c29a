// Capture: the prompt graph in a file, of a model that may be larger than memory.
#pragma once

#include "errors.h"
#include "ggml.h"
#include "ggml-backend.h"
#include "graph.h"
#include "graph_file.h"
#include "graph_memory.h"
#include "model.h"
#include "weak_lastuse.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// Tensors that the graph allocator treats as allocated; they are never read or written.
static void pretend_memory(struct ggml_context * ctx) {
    static char memory[1];
    struct ggml_tensor * tensor = ggml_get_first_tensor(ctx);
    for (; tensor != NULL; tensor = ggml_get_next_tensor(ctx, tensor)) {
        tensor->data = memory;
    }
}

// The bytes of ggml's own allocator; 0, for unknown, where lastuse replaces it.
static size_t ggml_alloc_size(ggml_backend_t backend, struct graph * graph) {
    if (lastuse_is_allocating()) {
        return 0;
    }
    struct graph_memory memory = graph_memory_new(ALLOCATOR_GALLOCR, backend, 0);
    graph_memory_reserve(&memory, graph);
    const size_t size = graph_memory_size(&memory);
    graph_memory_free(&memory);
    return size;
}

static void capture(const struct options * opt, ggml_backend_t backend) {
    struct model model = model_without_memory(opt);
    pretend_memory(model.weights_ctx);
    pretend_memory(model.cache_ctx);
    struct arena arena = arena_new(opt);
    const struct batch batch = { .n_tokens = opt->prompt, .n_kv = pad_kv_length(opt->prompt) };
    struct graph graph = graph_new(&model, &arena, &batch);

    char label[256];
    snprintf(label, sizeof(label), "llama style: %d layers, width %d, %s attention, %d tokens", opt->layers, opt->width,
            opt->attention == ATTENTION_FLASH ? "flash" : "softmax", opt->prompt);
    const size_t size = ggml_alloc_size(backend, &graph);
    if (!write_graph_file(opt->capture, graph.cgraph, label, ggml_backend_get_default_buffer_type(backend), size)) {
        die("cannot write %s", opt->capture);
    }
    graph_free(&arena, &graph);
    arena_free(&arena);
    model_free(&model);
}
