#include "side_by_side.h"

#include <stdlib.h>
#include <string.h>

#include "graph_fields.h"
#include "plan_check.h"

void bench_prepare(struct bench * bench, const struct allocator_api * api, int n_buffers, size_t max_size) {
    static const size_t alignments[N_TYPES] = { 32, 128, 64 };
    static const char * names[N_TYPES]      = { "first", "second", "third" };

    bench->api       = api;
    bench->n_buffers = n_buffers;
    for (int i = 0; i < N_TYPES; i++) {
        dummy_buft_init(&bench->types[i], names[i], alignments[i], max_size);
        bench->types[i].imaginary = true;
    }
    bench->types[1].extra_bytes = dummy_row_padding;
    for (int i = 0; i < n_buffers; i++) {
        bench->bufts[i] = dummy_buft_type(&bench->types[i < N_TYPES ? i : 1]);
    }
}

void bench_open(struct bench * bench) {
    const struct allocator_api * api = bench->api;
    bench->galloc = bench->n_buffers == 1 ? api->new(bench->bufts[0]) : api->new_n(bench->bufts, bench->n_buffers);
    CHECK(bench->galloc != NULL, "%s: no allocator", api->name);
}

void bench_free(struct bench * bench) {
    bench->api->free(bench->galloc);
    for (int i = 0; i < N_TYPES; i++) {
        CHECK(bench->types[i].live_buffers == 0, "%s leaks %zu buffers", bench->api->name,
              bench->types[i].live_buffers);
    }
}

void both_init(struct bench * ours, struct bench * theirs, int n_buffers, size_t max_size) {
    bench_prepare(ours, &lastuse_api, n_buffers, max_size);
    bench_prepare(theirs, &upstream_api, n_buffers, max_size);
    bench_open(ours);
    bench_open(theirs);
}

void both_free(struct bench * ours, struct bench * theirs) {
    bench_free(ours);
    bench_free(theirs);
}

// Sizes for a graph by their own allocator: upstream has no plan left after reserve_n_size, and
// crashes when it is asked to allocate.
static void measure(struct bench * bench, struct random_graph * g, size_t * sizes) {
    ggml_gallocr_t galloc = bench->api->new_n(bench->bufts, bench->n_buffers);
    bench->api->reserve_n_size(galloc, g->graph, g->node_buffer_ids, g->leaf_buffer_ids, sizes);
    bench->api->free(galloc);
}

static bool is_same_tensor(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    return a->buffer == b->buffer && a->data == b->data && a->view_src == b->view_src &&
           a->view_offs == b->view_offs && a->flags == b->flags && a->op == b->op && a->extra == b->extra &&
           memcmp(a->src, b->src, sizeof(a->src)) == 0 && ggml_are_same_layout(a, b);
}

// All nodes, then all leafs, as they are now.
static struct ggml_tensor * copy_tensors(const struct ggml_cgraph * graph) {
    struct ggml_tensor * copies = malloc((size_t) (graph->n_nodes + graph->n_leafs + 1) * sizeof(*copies));
    CHECK(copies != NULL, "out of memory");
    for (int i = 0; i < graph->n_nodes; i++) {
        copies[i] = *graph->nodes[i];
    }
    for (int i = 0; i < graph->n_leafs; i++) {
        copies[graph->n_nodes + i] = *graph->leafs[i];
    }
    return copies;
}

// Reserves, and holds the allocator to its word that this does not modify the graph.
static bool reserve(struct bench * bench, struct random_graph * g) {
    const struct ggml_cgraph * graph  = g->graph;
    struct ggml_tensor *       before = copy_tensors(graph);

    bool reserved = g->node_buffer_ids == NULL
                        ? bench->api->reserve(bench->galloc, g->graph)
                        : bench->api->reserve_n(bench->galloc, g->graph, g->node_buffer_ids, g->leaf_buffer_ids);
    for (int i = 0; i < graph->n_nodes + graph->n_leafs; i++) {
        const struct ggml_tensor * t = i < graph->n_nodes ? graph->nodes[i] : graph->leafs[i - graph->n_nodes];
        CHECK(is_same_tensor(t, &before[i]), "seed %llu: %s: reserve modified %s", (unsigned long long) g->seed,
              bench->api->name, t->name);
    }
    free(before);
    return reserved;
}

struct outcome bench_plan(struct bench * bench, struct random_graph * g) {
    struct outcome outcome = { 0 };
    log_capture_start(&bench->log);
    measure(bench, g, outcome.measured);
    outcome.reserved  = reserve(bench, g);
    outcome.allocated = bench->api->alloc_graph(bench->galloc, g->graph);
    log_capture_stop();
    for (int i = 0; i < bench->n_buffers; i++) {
        outcome.held[i] = bench->api->get_buffer_size(bench->galloc, i);
    }
    return outcome;
}

void bench_check_plan(const struct bench * bench, struct random_graph * g) {
    CHECK_PLAN(g->graph, "seed %llu: %s", (unsigned long long) g->seed, bench->api->name);
    const char * reason = plan_check_buffer_types(g->graph, bench->bufts, g->node_buffer_ids, g->leaf_buffer_ids);
    CHECK(reason == NULL, "seed %llu: %s: %s", (unsigned long long) g->seed, bench->api->name, reason);
}

void check_outcomes(uint64_t seed, const struct bench * ours, const struct outcome * a, const struct bench * theirs,
                   const struct outcome * b) {
    unsigned long long number = seed;
    CHECK(a->reserved == b->reserved, "seed %llu: reserve gives %d, not %d", number, a->reserved, b->reserved);
    CHECK(a->allocated == b->allocated, "seed %llu: alloc gives %d, not %d", number, a->allocated, b->allocated);
    CHECK(log_capture_same(&ours->log, &theirs->log), "seed %llu: %d and %d log lines: %s", number, ours->log.count,
          theirs->log.count, ours->log.count > 0 ? ours->log.lines[0] : "");
    for (int i = 0; i < ours->n_buffers; i++) {
        CHECK(a->measured[i] <= b->measured[i], "seed %llu: buffer %d: measured %zu, upstream %zu", number, i, a->measured[i],
              b->measured[i]);
        CHECK(a->held[i] <= b->held[i], "seed %llu: buffer %d: holds %zu, upstream %zu", number, i, a->held[i],
              b->held[i]);
    }
}

// The size of a tensor with its padding, where it is not a view and is in the buffer.
static size_t size_in(ggml_backend_buffer_t buffer, const struct ggml_tensor * t) {
    if (t == NULL || t->buffer != buffer || t->view_src != NULL) {
        return 0;
    }
    return GGML_PAD(ggml_backend_buffer_get_alloc_size(buffer, t), ggml_backend_buffer_get_alignment(buffer));
}

// The largest tensor in a buffer. Some sources are in no list of the graph.
static size_t largest_in(const struct random_graph * g, ggml_backend_buffer_t buffer) {
    size_t largest = 0;
    for (int i = 0; i < g->graph->n_nodes + g->graph->n_leafs; i++) {
        const struct ggml_tensor * t =
            i < g->graph->n_nodes ? g->graph->nodes[i] : g->graph->leafs[i - g->graph->n_nodes];
        largest = MAX(largest, size_in(buffer, t));
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            largest = MAX(largest, size_in(buffer, t->src[s]));
        }
    }
    return largest;
}

// Only a tensor that is itself too large, and the last chunk that there can be, may be above the limit.
void bench_check_chunks(const struct bench * bench, const struct random_graph * g) {
    const struct dummy_buft * type = &bench->types[0];
    CHECK(type->live_buffers <= MAX_CHUNKS, "seed %llu: %s: %zu chunks", (unsigned long long) g->seed,
          bench->api->name, type->live_buffers);
    for (size_t i = 0; i < type->live_buffers && i < MAX_CHUNKS - 1; i++) {
        ggml_backend_buffer_t buffer = dummy_buft_live(type, i);
        size_t                size   = ggml_backend_buffer_get_size(buffer);
        CHECK(size <= type->max_size || size <= largest_in(g, buffer), "seed %llu: %s: chunk %zu has %zu bytes",
              (unsigned long long) g->seed, bench->api->name, i, size);
    }
}

