#include "scheduler.h"

#include <string.h>

#include "check.h"
#include "completing.h"
#include "graph_fields.h"
#include "random.h"

static void insert_node(struct ggml_cgraph * graph, int at, struct ggml_tensor * node) {
    CHECK(graph->n_nodes < graph->size, "the graph is full");
    memmove(&graph->nodes[at + 1], &graph->nodes[at], (size_t) (graph->n_nodes - at) * sizeof(*graph->nodes));
    graph->nodes[at] = node;
    graph->n_nodes++;
}

// The marker that the scheduler inserts so that memory is kept until a certain node: a view of one of the kept
// tensors, without operation, that has all of them as sources.
static struct ggml_tensor * new_marker(struct builder * b, struct ggml_tensor ** kept, int n_kept) {
    struct ggml_tensor * marker = ggml_view_tensor(b->ctx, kept[0]);
    for (int i = 0; i < n_kept; i++) {
        marker->src[i] = kept[i];
    }
    return marker;
}

void insert_markers(struct builder * b) {
    struct ggml_cgraph * graph     = b->g->graph;
    int                  n_markers = (int) random_between(&b->random, 1, 5);
    for (int m = 0; m < n_markers && graph->n_nodes > 1; m++) {
        int                  at   = (int) random_between(&b->random, 1, graph->n_nodes);
        int                  n    = (int) random_between(&b->random, 1, 3);
        int                  from = b->options.early_markers ? graph->n_nodes : at;
        struct ggml_tensor * kept[3];
        int                  n_kept = 0;
        for (int i = 0; i < n; i++) {
            struct ggml_tensor * t = graph->nodes[random_below(&b->random, from)];
            if (random_chance(&b->random, 20) && graph->n_leafs > 0) {
                t = graph->leafs[random_below(&b->random, graph->n_leafs)];
            }
            if (t->op != GGML_OP_NONE || t->view_src == NULL) {
                kept[n_kept++] = t;
            }
        }
        if (n_kept > 0) {
            insert_node(graph, at, new_marker(b, kept, n_kept));
        }
    }
}

// Lets the nodes from `start` on read `copy` in place of `original`. Nodes that make views keep the
// original, since a view's memory is that of its root.
static int redirect(struct ggml_cgraph * graph, int start, struct ggml_tensor * original, struct ggml_tensor * copy) {
    int count = 0;
    for (int i = start; i < graph->n_nodes; i++) {
        for (int j = 0; j < GGML_MAX_SRC && graph->nodes[i]->view_src == NULL; j++) {
            if (graph->nodes[i]->src[j] == original && graph->nodes[i] != original) {
                graph->nodes[i]->src[j] = copy;
                count++;
            }
        }
    }
    return count;
}

// With several copies of each input, for pipelines, the scheduler flags them and lists them as leafs too.
static void flag_copy(struct builder * b, struct ggml_tensor * copy) {
    struct ggml_cgraph * graph = b->g->graph;
    if (random_chance(&b->random, 30)) {
        ggml_set_input(copy);
    }
    if (random_chance(&b->random, 20)) {
        ggml_set_output(copy);
        graph->leafs[graph->n_leafs++] = copy;
    }
}

void insert_split_copies(struct builder * b) {
    struct ggml_cgraph * graph    = b->g->graph;
    int                  n_copies = (int) random_between(&b->random, 1, 4);
    for (int c = 0; c < n_copies && graph->n_nodes > 1; c++) {
        int                  start    = (int) random_between(&b->random, 1, graph->n_nodes - 1);
        struct ggml_tensor * original = graph->nodes[random_below(&b->random, start)];
        // a copy without bytes, alone in its buffer, has no address, and upstream asserts when it sees it twice
        if (!is_plain(original) || ggml_is_empty(original) || list_has(&b->d->overwritten, root_of(original))) {
            continue;
        }
        struct ggml_tensor * copy = ggml_dup_tensor(b->ctx, original);
        if (redirect(graph, start, original, copy) == 0) {
            continue;
        }
        ggml_format_name(copy, "%s copy", original->name);
        flag_copy(b, copy);
        insert_node(graph, start, copy);
        insert_node(graph, start, new_marker(b, &original, 1));
    }
}

void unlist_leafs(struct builder * b) {
    struct ggml_cgraph * graph     = b->g->graph;
    int                  n_tensors = graph->n_nodes + graph->n_leafs;
    int                  n_listed  = 0;
    int                  n_left    = n_tensors / 5;
    for (int i = 0; i < graph->n_leafs; i++) {
        bool is_read = count_readers(graph, graph->leafs[i]) > 0;
        if (is_read && n_left > 0 && random_chance(&b->random, 50)) {
            n_left--;
        } else {
            graph->leafs[n_listed++] = graph->leafs[i];
        }
    }
    graph->n_leafs = n_listed;
}
