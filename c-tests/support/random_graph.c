#include "random_graph.h"

#include <stdlib.h>

#include "check.h"
#include "random_graph/builder.h"
#include "random_graph/completing.h"
#include "random_graph/growing.h"
#include "random_graph/random.h"

// Graphs stay far smaller than this; the size of a graph's hash table depends on its capacity.
#define GRAPH_CAPACITY 2048

static struct ggml_context * new_context(size_t n_tensors, bool with_graph) {
    size_t graph = with_graph ? ggml_graph_overhead_custom(GRAPH_CAPACITY, false) : 0;
    return no_alloc_context(n_tensors * ggml_tensor_overhead() + graph);
}

struct random_graph random_graph_new(uint64_t seed, struct random_graph_options options) {
    struct random_graph g = { .seed = seed, .ctx = new_context(GRAPH_CAPACITY, true) };
    g.detail              = calloc(1, sizeof(*g.detail));
    CHECK(g.detail != NULL, "out of memory");
    g.detail->early_ctx = new_context(GRAPH_CAPACITY, false);
    g.detail->late_ctx  = new_context(GRAPH_CAPACITY, false);
    g.graph             = ggml_new_graph_custom(g.ctx, GRAPH_CAPACITY, false);

    struct builder b = { .g = &g, .options = options, .d = g.detail, .ctx = g.ctx, .random = seed };
    if (b.options.n_steps == 0) {
        b.options.n_steps = (int) random_between(&b.random, 3, 60);
    }
    if (b.options.max_elements == 0) {
        b.options.max_elements = 4096;
    }
    grow(&b);
    complete(&b);
    free(b.values.items);
    free(b.bounds);
    return g;
}

void random_graph_free(struct random_graph * g) {
    struct random_graph_detail * d = g->detail;
    for (int i = 0; i < d->n_buffers; i++) {
        ggml_backend_buffer_free(d->buffers[i]);
    }
    ggml_free(d->early_ctx);
    ggml_free(d->late_ctx);
    ggml_free(g->ctx);
    free(d->buffers);
    free(d->leafs);
    free(d->rewirings);
    free(d->overwritten.items);
    free(g->inputs.items);
    free(g->weights.items);
    free(g->outputs.items);
    free(g->node_buffer_ids);
    free(g->leaf_buffer_ids);
    free(d);
}
