// Random graphs with intermediates that can be computed in tiles: attention, convolutions, gated products, and chains. The
// seed determines the graph, so a test can build it several times.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#define LARGE_GRAPH_NODES   8192
#define LARGE_GRAPH_LEAFS   32
#define LARGE_GRAPH_RESULTS 5

// A graph with everything in the compute buffer.
struct large_graph {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  leafs[LARGE_GRAPH_LEAFS];
    int                   n_leafs;
    struct ggml_tensor *  results[LARGE_GRAPH_RESULTS]; // outputs, the last node, and results that no node reads
    int                   n_results;
};

struct large_graph large_graph_new(uint64_t seed);

// With room for this number of nodes.
struct large_graph large_graph_with_room(uint64_t seed, size_t nodes);

// The tensors of the graph are no more.
void large_graph_free(struct large_graph graph);

// An input in the compute buffer.
struct ggml_tensor * large_graph_leaf(struct large_graph * g, enum ggml_type type, int64_t x, int64_t y, int64_t z, int64_t w);

// Sets the inputs, which depend on their numbers alone.
void large_graph_set(struct large_graph * g);

// Checks that kernels of a GPU could compute the graph: each writes and reads memory without gaps between rows, except to copy, and at
// multiples of `alignment` bytes.
void large_graph_expect_packed(const struct large_graph * g, size_t alignment);

// Sets the inputs, and computes the graph.
void large_graph_run(struct large_graph * g, ggml_backend_t backend);
