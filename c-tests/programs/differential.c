// runs: ggml-0.26
//
// Random graphs planned by lastuse and by upstream in one process: equal return values, no buffer larger than
// upstream's, and plans that plan_check() accepts.
//
//   differential <case> [first seed] [number of seeds]

#include "cases.h"
#include "random_graph.h"
#include "side_by_side.h"

// Plans one graph with both, and returns the outcome of lastuse.
static struct outcome compare(struct bench * ours, struct bench * theirs, uint64_t seed,
                              struct random_graph_options options) {
    struct random_graph g = random_graph_new(seed, options);
    struct random_graph h = random_graph_new(seed, options);
    struct outcome      a = bench_plan(ours, &g);
    struct outcome      b = bench_plan(theirs, &h);
    check_outcomes(seed, ours, &a, theirs, &b);
    CHECK(a.reserved && a.allocated, "seed %llu was not allocated", (unsigned long long) seed);
    bench_check_plan(theirs, &h);
    bench_check_plan(ours, &g);
    random_graph_free(&g);
    random_graph_free(&h);
    return a;
}

// New allocators for each graph, so that nothing of one graph can help or harm the next.
static void compare_many(struct case_args args, struct random_graph_options options) {
    struct seeds seeds = seeds_from(args, 1000);
    FOR_SEEDS(seed, seeds) {
        struct bench   ours;
        struct bench   theirs;
        both_init(&ours, &theirs, options.n_buffers > 1 ? options.n_buffers : 1, 0);
        struct outcome a = compare(&ours, &theirs, seed, options);
        for (int i = 0; i < N_TYPES; i++) {
            // The last id repeats a type: the size is reported for the first.
            CHECK(a.held[i] == ours.types[i].live_bytes, "seed %llu: buffer %d", (unsigned long long) seed, i);
        }
        both_free(&ours, &theirs);
    }
}

CASE(single_buffer) {
    compare_many(args, (struct random_graph_options){ .max_elements = 1 << 14 });
}

CASE(several_buffer_types) {
    compare_many(args, (struct random_graph_options){ .n_buffers = MAX_BUFFERS });
}

CASE(markers) {
    struct random_graph_options options = { .markers = true };
    compare_many(args, options);
    options.split_copies = true;
    options.n_buffers    = MAX_BUFFERS;
    compare_many(args, options);
}

CASE(alternatives) {
    struct random_graph_options options = { .alternatives = true };
    compare_many(args, options);
    options.markers   = true;
    options.n_buffers = MAX_BUFFERS;
    compare_many(args, options);
}

CASE(unlisted_leafs) {
    struct random_graph_options options = { .unlisted_leafs = true };
    compare_many(args, options);
    options.n_buffers = MAX_BUFFERS;
    compare_many(args, options);
}

// Markers in front of what they name, as well as behind it: upstream can allocate memory twice then,
// so only lastuse is tested.
CASE(early_markers) {
    struct random_graph_options options = { .early_markers = true, .markers = true };
    struct seeds seeds = seeds_from(args, 1000);
    FOR_SEEDS(seed, seeds) {
        struct bench        ours;
        struct random_graph g = random_graph_new(seed, options);
        bench_prepare(&ours, &lastuse_api, 1, 0);
        bench_open(&ours);
        struct outcome a = bench_plan(&ours, &g);
        CHECK(a.reserved && a.allocated, "seed %llu was not allocated", (unsigned long long) seed);
        bench_check_plan(&ours, &g);
        bench_free(&ours);
        random_graph_free(&g);
    }
}

// ---------------------------------------------------------------------------------------------------
// Chunks
// ---------------------------------------------------------------------------------------------------

CASE(chunk_limits) {
    static const size_t limits[] = { 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 17 };

    struct seeds seeds = seeds_from(args, 1000);
    size_t   chunks = 0;
    FOR_SEEDS(seed, seeds) {
        struct random_graph_options options = { .n_steps = 40 };
        struct random_graph         g       = random_graph_new(seed, options);
        struct random_graph         h       = random_graph_new(seed, options);
        struct bench                ours;
        struct bench                theirs;
        both_init(&ours, &theirs, 1, limits[seed % (sizeof(limits) / sizeof(limits[0]))]);
        struct outcome a = bench_plan(&ours, &g);
        struct outcome b = bench_plan(&theirs, &h);
        check_outcomes(seed, &ours, &a, &theirs, &b);
        bench_check_plan(&theirs, &h);
        bench_check_chunks(&theirs, &h);
        bench_check_plan(&ours, &g);
        bench_check_chunks(&ours, &g);
        chunks += theirs.types[0].live_buffers;
        both_free(&ours, &theirs);
        random_graph_free(&g);
        random_graph_free(&h);
    }
    CHECK((long long) chunks > seeds.count * 2 || seeds.count < 10, "the limits are too large: %zu chunks", chunks);
}

// ---------------------------------------------------------------------------------------------------
// Use over time
// ---------------------------------------------------------------------------------------------------

// How many buffers an allocator has requested, and the bytes that it holds.
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
        bool   fits     = outcome->measured[i] <= before->bytes[i];
        size_t requests = bench->types[i].counts.alloc_buffer - before->requests[i];
        CHECK(requests == (fits ? 0 : 1), "seed %llu: buffer %d: measured %zu, held %zu, and %zu requests",
              (unsigned long long) seed, i, outcome->measured[i], before->bytes[i], requests);
        CHECK(bench->types[i].live_bytes >= outcome->measured[i], "seed %llu: buffer %d: holds %zu of %zu",
              (unsigned long long) seed, i, bench->types[i].live_bytes, outcome->measured[i]);
    }
}

// Lastuse allocates a graph that was not reserved, and upstream reserves it, so that both have planned the same graphs.
static void plan_unreserved(struct bench * ours, struct bench * theirs, uint64_t seed,
                            struct random_graph_options options) {
    struct random_graph g = random_graph_new(seed, options);
    CHECK(theirs->api->reserve(theirs->galloc, g.graph), "seed %llu", (unsigned long long) seed);
    CHECK(ours->api->alloc_graph(ours->galloc, g.graph), "seed %llu", (unsigned long long) seed);
    bench_check_plan(ours, &g);
    random_graph_free(&g);
}

// Each allocator gets many graphs. Buffers only grow, so the largest plan so far decides; this
// holds for buffers without limit, which are one chunk each.
static void grow_and_shrink(struct case_args args, int n_buffers) {
    static const int steps[] = { 5, 20, 60, 40, 10, 3, 80, 15 };

    struct seeds seeds = seeds_from(args, 300);
    struct bench ours;
    struct bench theirs;
    both_init(&ours, &theirs, n_buffers, 0);
    FOR_SEEDS(seed, seeds) {
        struct random_graph_options options = { .n_steps   = steps[seed % (sizeof(steps) / sizeof(steps[0]))],
                                                .n_buffers = n_buffers };
        struct held                 before  = held_by(&ours);
        struct outcome              outcome = compare(&ours, &theirs, seed, options);
        check_kept(seed, &ours, &before, &outcome);
        if (n_buffers == 1) {
            plan_unreserved(&ours, &theirs, seed + seeds.count, options);
        }
    }
    both_free(&ours, &theirs);
}

CASE(growing_and_shrinking) {
    grow_and_shrink(args, 1);
    grow_and_shrink(args, MAX_BUFFERS);
}
