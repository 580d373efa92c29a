// Random graphs of real ggml operations. Seed and options determine the graph, so a test can build it
// several times: once for each allocator, once for the reference.
//
// Graphs are valid under node order: a tensor that an explicit in-place node or a copy overwrites is overwritten at the
// same place in every order of evaluation that ggml allows for, and no node reads its own destination, unless ggml
// documents that it may. All values stay finite.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml-backend.h"
#include "ggml.h"

struct random_graph_options {
    int     n_steps;      // how many constructions; 0: drawn from the seed, 3 to 60
    int64_t max_elements; // of tensors that are not computed from others; 0: 4096
    int     n_buffers;    // more than 1: node_buffer_ids and leaf_buffer_ids are filled

    // Upstream can free the memory under such a view, so graphs for both allocators go without.
    bool output_views; // views may be flagged as outputs

    // Some results are alternatives that are not selected: they and what only they need lack the flag to be computed.
    bool alternatives;

    bool copies; // many results are computed for a copy alone, into memory that others use too

    // Nodes that the backend scheduler adds to its copy of a graph:
    bool markers;       // control dependencies, which keep their sources live
    bool early_markers; // markers also before the tensors that they name (upstream: undefined)
    bool split_copies;  // tensors without operation in the node list, read by later nodes

    // Some sources without operation are in no list of the graph.
    bool unlisted_leafs;
    // A graph with split copies or unlisted leafs can be planned, not computed: nothing fills the former,
    // and the latter need no memory before their first reader.
};

struct tensor_list {
    struct ggml_tensor ** items;
    int                   count;
    int                   capacity;
};

struct random_graph {
    uint64_t              seed;
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;

    // Tensors without operation that the allocator places, some flagged as inputs, some unread.
    struct tensor_list inputs;
    // Tensors in their own memory. Graphs also write to them, as programs do to a cache.
    struct tensor_list weights;
    // The tensors that must hold their values after the graph was computed: tensors flagged as outputs and computed
    // tensors that nothing reads. In the order of the node list, then the leafs.
    struct tensor_list outputs;

    int * node_buffer_ids; // one for each node, or NULL
    int * leaf_buffer_ids; // one for each leaf, or NULL

    struct random_graph_detail * detail;
};

struct random_graph random_graph_new(uint64_t seed, struct random_graph_options options);
void                random_graph_free(struct random_graph * graph);

// Fills all inputs and weights that have memory with values that depend on the seed alone.
void random_graph_set_data(const struct random_graph * graph);

// Replaces a source of some nodes by another of equal layout. Counts and sizes do not change, live ranges do. To be
// called before the graph is planned; returns the number of changes.
int random_graph_rewire(struct random_graph * graph);

// Changes one thing of one tensor: a parameter, a stride, the element type, the operation, a flag, a source, the offset
// of a view, or whether it has its own memory. The graph can be planned then, not computed, and its tensors have
// the same addresses. Returns what was changed. To be called while the graph has no planned memory.
const char * random_graph_change(struct random_graph * graph, uint64_t * random);

// Clears the addresses that an allocator has assigned to the graph.
void random_graph_drop_memory(struct random_graph * graph);
