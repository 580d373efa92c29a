#include "completing.h"

#include <stdlib.h>

#include "check.h"
#include "ggml-alloc.h"
#include "graph_fields.h"
#include "leafs.h"
#include "overwriting.h"
#include "random.h"
#include "scheduler.h"

int count_readers(const struct ggml_cgraph * graph, const struct ggml_tensor * tensor) {
    int count = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        for (int j = 0; j < GGML_MAX_SRC && graph->nodes[i] != tensor; j++) {
            count += graph->nodes[i]->src[j] == tensor;
        }
    }
    return count;
}

static bool has_reader_among_values(const struct builder * b, const struct ggml_tensor * tensor) {
    for (int i = 0; i < b->values.count; i++) {
        for (int j = 0; j < GGML_MAX_SRC && b->values.items[i] != tensor; j++) {
            if (b->values.items[i]->src[j] == tensor) {
                return true;
            }
        }
    }
    return false;
}

// As ggml_build_forward_select() leaves the alternatives that it does not select, which old versions do not have.
static void unselect(struct ggml_cgraph * graph, int first_node) {
    for (int i = first_node; i < graph->n_nodes; i++) {
        graph->nodes[i]->flags &= ~FLAG_COMPUTE;
    }
}

// Expands the graph by most of what nothing reads, in random order: results, and tensors that a program
// has placed without using them. The rest never enters the graph.
static void expand_results(struct builder * b) {
    struct tensor_list ends = { 0 };
    for (int i = 0; i < b->values.count; i++) {
        struct ggml_tensor * t    = b->values.items[i];
        bool                 last = i == b->values.count - 1;
        if (!has_reader_among_values(b, t) && !is_in_graph(b, t) && (last || random_chance(&b->random, 70))) {
            list_add(&ends, t);
        }
    }
    while (ends.count > 0) {
        int                  i = (int) random_below(&b->random, ends.count);
        struct ggml_tensor * t = ends.items[i];
        ends.items[i]          = ends.items[--ends.count];
        int n_nodes            = b->g->graph->n_nodes;
        ggml_build_forward_expand(b->g->graph, t);
        // Backends compute every node of a graph in which none is selected.
        if (b->options.alternatives && n_nodes > 0 && ends.count > 0 && random_chance(&b->random, 40)) {
            unselect(b->g->graph, n_nodes);
        }
    }
    free(ends.items);
}

static void expand_unused_leafs(struct builder * b) {
    int n = (int) random_below(&b->random, 4) - 1;
    for (int i = 0; i < n; i++) {
        ggml_build_forward_expand(b->g->graph, new_random_leaf(b));
    }
}

bool is_cast(const struct ggml_tensor * tensor) {
    return tensor->op == GGML_OP_CPY && tensor->src[1] == tensor;
}

// A cast counts as its own reader in ggml-alloc, so one that nothing else reads is not kept unless it is
// flagged.
static void flag_outputs(struct builder * b) {
    struct ggml_cgraph * graph = b->g->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_tensor * t    = graph->nodes[i];
        bool                 lost = is_cast(t) && count_readers(graph, t) == 0;
        bool                 may  = t->view_src == NULL || b->options.output_views;
        if (lost || (may && random_chance(&b->random, 12))) {
            // not by ggml_set_output(): recent versions of it flag the root of a view as well
            t->flags |= GGML_TENSOR_FLAG_OUTPUT;
        }
    }
    for (int i = 0; i < b->g->inputs.count; i++) {
        if (random_chance(&b->random, 5)) {
            ggml_set_output(b->g->inputs.items[i]);
        }
    }
}

void collect_outputs(struct random_graph * g) {
    const struct ggml_cgraph * graph = g->graph;
    g->outputs.count                 = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_tensor * t     = graph->nodes[i];
        bool                 wants = (t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 || count_readers(graph, t) == 0;
        if (wants && t->op != GGML_OP_NONE && is_computed(graph, t)) {
            list_add(&g->outputs, t);
        }
    }
    for (int i = 0; i < graph->n_leafs; i++) {
        struct ggml_tensor * t      = graph->leafs[i];
        bool                 unread = (t->flags & GGML_TENSOR_FLAG_INPUT) == 0 && count_readers(graph, t) == 0;
        if (unread || (t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
            list_add(&g->outputs, t);
        }
    }
}

// Neighbours usually share a buffer, as the parts of a graph do that one backend computes.
static int * new_buffer_ids(struct builder * b, int n) {
    int * ids = malloc((size_t) (n > 0 ? n : 1) * sizeof(*ids));
    CHECK(ids != NULL, "out of memory");
    int id = 0;
    for (int i = 0; i < n; i++) {
        if (random_chance(&b->random, 20)) {
            id = (int) random_below(&b->random, b->options.n_buffers);
        }
        ids[i] = id;
    }
    return ids;
}

void complete(struct builder * b) {
    struct random_graph * g = b->g;
    expand_results(b);
    expand_unused_leafs(b);
    flag_outputs(b);
    ggml_backend_buffer_t late =
        ggml_backend_alloc_ctx_tensors_from_buft(b->d->late_ctx, ggml_backend_cpu_buffer_type());
    if (late != NULL) {
        add_buffer(b->d, late);
    }
    if (b->options.split_copies) {
        insert_split_copies(b);
    }
    if (b->options.markers) {
        insert_markers(b);
    }
    if (b->options.unlisted_leafs) {
        unlist_leafs(b);
    }
    collect_outputs(g);
    if (b->options.n_buffers > 1) {
        g->node_buffer_ids = new_buffer_ids(b, g->graph->n_nodes);
        g->leaf_buffer_ids = new_buffer_ids(b, g->graph->n_leafs);
    }
}
