// Random graphs of everything that passes change, in shapes that programs use: batches and broadcasts, attention with and
// without masks, slopes and sinks, views of all kinds, in-place operations, and results that several nodes read. The seed
// determines the graph, so a test can build it several times.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#define MIXED_GRAPH_NODES  8192
#define MIXED_GRAPH_VALUES 256

// A graph whose inputs are in the compute buffer, or have their own memory.
struct mixed_graph {
    struct ggml_context * ctx;
    struct ggml_context * keeping;                    // the inputs; the same as `ctx` if they are in the compute buffer
    ggml_backend_buffer_t buffer;                     // of the inputs
    struct ggml_cgraph *  graph;
    struct ggml_cgraph *  second;                     // of some of the values too, and of two more nodes
    struct ggml_tensor *  leafs[MIXED_GRAPH_VALUES];
    int                   n_leafs;
    struct ggml_tensor *  values[MIXED_GRAPH_VALUES]; // that nodes of both graphs compute, and no later node writes over
    int                   n_values;
    struct ggml_tensor *  results[2];                 // the last nodes of the graphs
    uint64_t              state;
};

struct mixed_graph mixed_graph_new(uint64_t seed);

// The tensors of the graph are no more.
void mixed_graph_free(struct mixed_graph * g);

// Whether the graph has the tensor among its nodes.
bool mixed_graph_lists(const struct ggml_cgraph * graph, const struct ggml_tensor * t);

// Takes the memory of all tensors away, as programs do that allocate a graph again.
void mixed_graph_drop_memory(struct mixed_graph * g);

// Sets the inputs, which depend on their numbers alone, and computes a graph.
void mixed_graph_run(struct mixed_graph * g, struct ggml_cgraph * graph, ggml_backend_t cpu);
