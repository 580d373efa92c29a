// One allocator for a graph that changes from call to call: a plan is reused only where it is valid.

#include "plan_check.h"
#include "ways.h"

// The number of changes.
#define ROUNDS 4

static void place(struct bench * bench, struct random_graph * g, bool reserve, const char * change) {
    unsigned long long number = g->seed;
    if (reserve) {
        bool reserved =
            bench->api->reserve_n(bench->galloc, g->graph, g->node_buffer_ids, g->leaf_buffer_ids);
        CHECK(reserved, "seed %llu: not reserved after a change of %s", number, change);
    }
    // With several buffer types the allocator may refuse a graph that was not reserved.
    bool allocated = bench->api->alloc_graph(bench->galloc, g->graph);
    CHECK(allocated || (!reserve && bench->n_buffers > 1), "seed %llu: not allocated after a change of %s", number,
          change);
    if (allocated) {
        CHECK_PLAN(g->graph, "seed %llu: after a change of %s", number, change);
    }
    if (allocated && reserve) {
        const char * reason =
            plan_check_buffer_types(g->graph, bench->bufts, g->node_buffer_ids, g->leaf_buffer_ids);
        CHECK(reason == NULL, "seed %llu: after a change of %s: %s", number, change, reason);
    }
}

void fuzz_replanned(uint64_t seed, uint64_t * random) {
    struct random_graph_options options = draw_options(random);
    options.n_buffers                   = draw_n_buffers(random);
    options.markers                     = random_chance(random, 30);
    struct bench bench;
    bench_prepare(&bench, &lastuse_api, options.n_buffers, draw_max_size(random));
    if (random_chance(random, 50)) {
        put_on_cpu(&bench);
    }
    bench_open(&bench);
    if (random_chance(random, 30)) {
        set_some_rules(bench.galloc, random);
    }
    struct random_graph g = random_graph_new(seed, options);
    place(&bench, &g, true, "nothing");
    for (int i = 0; i < ROUNDS; i++) {
        random_graph_drop_memory(&g);
        const char * change = random_graph_change(&g, random);
        place(&bench, &g, random_chance(random, 40), change);
    }
    random_graph_free(&g);
    bench_free(&bench);
}
