// Random graphs planned by lastuse and by upstream in one process: the same answers, no buffer larger
// than upstream's, and plans that a judge of its own finds right.
//
//   differential <case> [first seed] [number of seeds]

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "dummy_buffer.h"
#include "graph_fields.h"
#include "plan_check.h"
#include "random_graph.h"
#include "upstream.h"

#define MAX_BUFFERS 4
#define N_TYPES     3
#define MAX_CHUNKS  16

// ---------------------------------------------------------------------------------------------------
// One allocator at work
// ---------------------------------------------------------------------------------------------------

struct bench {
    const struct allocator_api * api;
    struct dummy_buft            types[N_TYPES];
    ggml_backend_buffer_type_t   bufts[MAX_BUFFERS]; // the last shares its type with the second
    int                          n_buffers;
    ggml_gallocr_t               galloc;
    struct log_capture           log;
};

struct outcome {
    bool   reserved;
    bool   allocated;
    size_t wanted[MAX_BUFFERS]; // by reserve_n_size
    size_t held[MAX_BUFFERS];   // by get_buffer_size
};

// As backends do that pad quantized matrices. Not for in-place operations: there ggml forbids it.
static size_t extra_bytes(const struct ggml_tensor * tensor) {
    bool pads = tensor->op == GGML_OP_MUL_MAT || tensor->op == GGML_OP_NONE;
    return pads && tensor->ne[0] % 4 != 0 ? 96 : 0;
}

// `max_size` 0: buffers of any size.
static void bench_init(struct bench * bench, const struct allocator_api * api, int n_buffers, size_t max_size) {
    static const size_t alignments[N_TYPES] = { 32, 128, 64 };
    static const char * names[N_TYPES]      = { "first", "second", "third" };

    bench->api       = api;
    bench->n_buffers = n_buffers;
    for (int i = 0; i < N_TYPES; i++) {
        dummy_buft_init(&bench->types[i], names[i], alignments[i], max_size);
        bench->types[i].imaginary = true;
    }
    bench->types[1].extra_bytes = extra_bytes;
    for (int i = 0; i < n_buffers; i++) {
        bench->bufts[i] = dummy_buft_type(&bench->types[i < N_TYPES ? i : 1]);
    }
    bench->galloc = n_buffers == 1 ? api->new(bench->bufts[0]) : api->new_n(bench->bufts, n_buffers);
    CHECK(bench->galloc != NULL, "%s: no allocator", api->name);
}

static void bench_free(struct bench * bench) {
    bench->api->free(bench->galloc);
    for (int i = 0; i < N_TYPES; i++) {
        CHECK(bench->types[i].live_buffers == 0, "%s leaks %zu buffers", bench->api->name,
              bench->types[i].live_buffers);
    }
}

static void both_init(struct bench * ours, struct bench * theirs, int n_buffers, size_t max_size) {
    bench_init(ours, &lastuse_api, n_buffers, max_size);
    bench_init(theirs, &upstream_api, n_buffers, max_size);
}

static void both_free(struct bench * ours, struct bench * theirs) {
    bench_free(ours);
    bench_free(theirs);
}

// Sizes for a graph by an allocator of their own: upstream has no plan left after reserve_n_size, and
// crashes when it is asked to allocate.
static void want_sizes(struct bench * bench, struct random_graph * g, size_t * sizes) {
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

static struct outcome plan(struct bench * bench, struct random_graph * g) {
    struct outcome outcome = { 0 };
    log_capture_start(&bench->log);
    want_sizes(bench, g, outcome.wanted);
    outcome.reserved  = reserve(bench, g);
    outcome.allocated = bench->api->alloc_graph(bench->galloc, g->graph);
    log_capture_stop();
    for (int i = 0; i < bench->n_buffers; i++) {
        outcome.held[i] = bench->api->get_buffer_size(bench->galloc, i);
    }
    return outcome;
}

static void check_plan(struct bench * bench, struct random_graph * g) {
    const char * reason = plan_check(g->graph);
    CHECK(reason == NULL, "seed %llu: %s: %s", (unsigned long long) g->seed, bench->api->name, reason);
    reason = plan_check_buffer_types(g->graph, bench->bufts, g->node_buffer_ids, g->leaf_buffer_ids);
    CHECK(reason == NULL, "seed %llu: %s: %s", (unsigned long long) g->seed, bench->api->name, reason);
}

// ---------------------------------------------------------------------------------------------------
// Both allocators
// ---------------------------------------------------------------------------------------------------

static void check_answers(uint64_t seed, const struct bench * ours, const struct outcome * a,
                          const struct bench * theirs, const struct outcome * b) {
    unsigned long long number = seed;
    CHECK(a->reserved == b->reserved, "seed %llu: reserve gives %d, not %d", number, a->reserved, b->reserved);
    CHECK(a->allocated == b->allocated, "seed %llu: alloc gives %d, not %d", number, a->allocated, b->allocated);
    CHECK(log_capture_same(&ours->log, &theirs->log), "seed %llu: %d and %d log lines: %s", number, ours->log.count,
          theirs->log.count, ours->log.count > 0 ? ours->log.lines[0] : "");
    for (int i = 0; i < ours->n_buffers; i++) {
        CHECK(a->wanted[i] <= b->wanted[i], "seed %llu: buffer %d: wants %zu, upstream %zu", number, i, a->wanted[i],
              b->wanted[i]);
        CHECK(a->held[i] <= b->held[i], "seed %llu: buffer %d: holds %zu, upstream %zu", number, i, a->held[i],
              b->held[i]);
    }
}

// Plans one graph with both, and gives back what lastuse said.
static struct outcome compare(struct bench * ours, struct bench * theirs, uint64_t seed,
                              struct random_graph_options options) {
    struct random_graph g = random_graph_new(seed, options);
    struct random_graph h = random_graph_new(seed, options);
    struct outcome      a = plan(ours, &g);
    struct outcome      b = plan(theirs, &h);
    check_answers(seed, ours, &a, theirs, &b);
    CHECK(a.reserved && a.allocated, "seed %llu was not allocated", (unsigned long long) seed);
    check_plan(theirs, &h);
    check_plan(ours, &g);
    random_graph_free(&g);
    random_graph_free(&h);
    return a;
}

// New allocators for each graph, so that nothing of one graph can help or harm the next.
static void compare_many(struct case_args args, struct random_graph_options options) {
    uint64_t first = (uint64_t) case_number(args, 0, 1);
    uint64_t count = (uint64_t) case_number(args, 1, 1000);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct bench   ours;
        struct bench   theirs;
        both_init(&ours, &theirs, options.n_buffers > 1 ? options.n_buffers : 1, 0);
        struct outcome a = compare(&ours, &theirs, seed, options);
        for (int i = 0; i < N_TYPES; i++) {
            // the last id repeats a type: the size is told for the first
            CHECK(a.held[i] == ours.types[i].live_bytes, "seed %llu: buffer %d", (unsigned long long) seed, i);
        }
        both_free(&ours, &theirs);
    }
}

static void single_buffer(struct case_args args) {
    compare_many(args, (struct random_graph_options){ .max_elements = 1 << 14 });
}

static void several_buffer_types(struct case_args args) {
    compare_many(args, (struct random_graph_options){ .n_buffers = MAX_BUFFERS });
}

static void markers(struct case_args args) {
    struct random_graph_options options = { .markers = true };
    compare_many(args, options);
    options.split_copies = true;
    options.n_buffers    = MAX_BUFFERS;
    compare_many(args, options);
}

static void alternatives(struct case_args args) {
    struct random_graph_options options = { .alternatives = true };
    compare_many(args, options);
    options.markers   = true;
    options.n_buffers = MAX_BUFFERS;
    compare_many(args, options);
}

static void unlisted_leafs(struct case_args args) {
    struct random_graph_options options = { .unlisted_leafs = true };
    compare_many(args, options);
    options.n_buffers = MAX_BUFFERS;
    compare_many(args, options);
}

// Markers in front of what they name, as well as behind it: upstream can hand out memory twice then,
// so only lastuse is asked.
static void early_markers(struct case_args args) {
    struct random_graph_options options = { .early_markers = true, .markers = true };
    uint64_t                    first   = (uint64_t) case_number(args, 0, 1);
    uint64_t                    count   = (uint64_t) case_number(args, 1, 1000);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct bench        ours;
        struct random_graph g = random_graph_new(seed, options);
        bench_init(&ours, &lastuse_api, 1, 0);
        struct outcome a = plan(&ours, &g);
        CHECK(a.reserved && a.allocated, "seed %llu was not allocated", (unsigned long long) seed);
        check_plan(&ours, &g);
        bench_free(&ours);
        random_graph_free(&g);
    }
}

// ---------------------------------------------------------------------------------------------------
// Chunks
// ---------------------------------------------------------------------------------------------------

// The largest tensor in a buffer, with its padding.
static size_t largest_in(const struct random_graph * g, ggml_backend_buffer_t buffer) {
    size_t alignment = ggml_backend_buffer_get_alignment(buffer);
    size_t largest   = 0;
    for (int i = 0; i < g->graph->n_nodes + g->graph->n_leafs; i++) {
        const struct ggml_tensor * t =
            i < g->graph->n_nodes ? g->graph->nodes[i] : g->graph->leafs[i - g->graph->n_nodes];
        if (t->buffer == buffer && t->view_src == NULL) {
            size_t size = GGML_PAD(ggml_backend_buffer_get_alloc_size(buffer, t), alignment);
            largest     = size > largest ? size : largest;
        }
    }
    return largest;
}

// Only a tensor that is itself too large, and the last chunk that there can be, may be above the limit.
static void check_chunks(const struct bench * bench, const struct random_graph * g) {
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

static void chunk_limits(struct case_args args) {
    static const size_t limits[] = { 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 17 };

    uint64_t first  = (uint64_t) case_number(args, 0, 1);
    uint64_t count  = (uint64_t) case_number(args, 1, 1000);
    size_t   chunks = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct random_graph_options options = { .n_steps = 40 };
        struct random_graph         g       = random_graph_new(seed, options);
        struct random_graph         h       = random_graph_new(seed, options);
        struct bench                ours;
        struct bench                theirs;
        both_init(&ours, &theirs, 1, limits[seed % (sizeof(limits) / sizeof(limits[0]))]);
        struct outcome a = plan(&ours, &g);
        struct outcome b = plan(&theirs, &h);
        check_answers(seed, &ours, &a, &theirs, &b);
        check_plan(&theirs, &h);
        check_chunks(&theirs, &h);
        check_plan(&ours, &g);
        check_chunks(&ours, &g);
        chunks += theirs.types[0].live_buffers;
        both_free(&ours, &theirs);
        random_graph_free(&g);
        random_graph_free(&h);
    }
    CHECK(chunks > count * 2 || count < 10, "the limits are too large: %zu chunks", chunks);
}

// ---------------------------------------------------------------------------------------------------
// Use over time
// ---------------------------------------------------------------------------------------------------

// How many buffers an allocator has asked for, and how large those are that it has.
struct held {
    size_t requests[N_TYPES];
    size_t bytes[N_TYPES];
};

static struct held held_by(const struct bench * bench) {
    struct held held;
    for (int i = 0; i < N_TYPES; i++) {
        held.requests[i] = bench->types[i].counts.alloc_buffer;
        held.bytes[i]    = bench->types[i].live_bytes;
    }
    return held;
}

// A buffer that is large enough stays; one that is not gives way to one that is.
static void check_kept(uint64_t seed, const struct bench * bench, const struct held * before,
                       const struct outcome * outcome) {
    for (int i = 0; i < N_TYPES && i < bench->n_buffers; i++) {
        bool   fits     = outcome->wanted[i] <= before->bytes[i];
        size_t requests = bench->types[i].counts.alloc_buffer - before->requests[i];
        CHECK(requests == (fits ? 0 : 1), "seed %llu: buffer %d: wants %zu, held %zu, and %zu requests",
              (unsigned long long) seed, i, outcome->wanted[i], before->bytes[i], requests);
        CHECK(bench->types[i].live_bytes >= outcome->wanted[i], "seed %llu: buffer %d: holds %zu of %zu",
              (unsigned long long) seed, i, bench->types[i].live_bytes, outcome->wanted[i]);
    }
}

// Asks lastuse for a graph that nothing was reserved for, and upstream to reserve for the same, so that
// both have seen the same graphs.
static void plan_unreserved(struct bench * ours, struct bench * theirs, uint64_t seed,
                            struct random_graph_options options) {
    struct random_graph g = random_graph_new(seed, options);
    CHECK(theirs->api->reserve(theirs->galloc, g.graph), "seed %llu", (unsigned long long) seed);
    CHECK(ours->api->alloc_graph(ours->galloc, g.graph), "seed %llu", (unsigned long long) seed);
    check_plan(ours, &g);
    random_graph_free(&g);
}

// The same allocators for many graphs. Buffers only grow, so the largest plan so far decides; this
// holds for buffers without limit, which are one chunk each.
static void grow_and_shrink(struct case_args args, int n_buffers) {
    static const int steps[] = { 5, 20, 60, 40, 10, 3, 80, 15 };

    uint64_t     first = (uint64_t) case_number(args, 0, 1);
    uint64_t     count = (uint64_t) case_number(args, 1, 300);
    struct bench ours;
    struct bench theirs;
    both_init(&ours, &theirs, n_buffers, 0);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct random_graph_options options = { .n_steps   = steps[seed % (sizeof(steps) / sizeof(steps[0]))],
                                                .n_buffers = n_buffers };
        struct held                 before  = held_by(&ours);
        struct outcome              outcome = compare(&ours, &theirs, seed, options);
        check_kept(seed, &ours, &before, &outcome);
        if (n_buffers == 1) {
            plan_unreserved(&ours, &theirs, seed + count, options);
        }
    }
    both_free(&ours, &theirs);
}

static void growing_and_shrinking(struct case_args args) {
    grow_and_shrink(args, 1);
    grow_and_shrink(args, MAX_BUFFERS);
}

static const struct test_case CASES[] = {
    { "single_buffer", single_buffer },
    { "several_buffer_types", several_buffer_types },
    { "chunk_limits", chunk_limits },
    { "markers", markers },
    { "alternatives", alternatives },
    { "early_markers", early_markers },
    { "unlisted_leafs", unlisted_leafs },
    { "growing_and_shrinking", growing_and_shrinking },
};

TEST_MAIN(CASES)
