// A graph planned by lastuse and by upstream in one process.

#include "graph_fields.h"
#include "lastuse.h"
#include "plan_check.h"
#include "reports.h"
#include "ways.h"

static void check_bounds(const struct bench * ours, const struct outcome * outcome, uint64_t seed) {
    for (int i = 0; i < ours->n_buffers; i++) {
        size_t bound = lower_bound_of(ours->galloc, i);
        CHECK(bound <= outcome->held[i] || outcome->held[i] == 0, "seed %llu: buffer %d: holds %zu, and the bound is %zu",
              (unsigned long long) seed, i, outcome->held[i], bound);
    }
}

// Upstream gives no address to a result without bytes that is alone in its buffer, and aborts when it is given it
// again.
static bool may_abort_upstream(const struct ggml_cgraph * graph) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (ggml_is_empty(graph->nodes[i]) && graph->nodes[i]->view_src == NULL) {
            return true;
        }
    }
    return false;
}

static void plan_with_upstream(const struct bench * ours, const struct outcome * a, struct bench * theirs,
                               uint64_t seed, struct random_graph_options options) {
    struct random_graph h = random_graph_new(seed, options);
    struct outcome      b = bench_plan(theirs, &h);
    // An invalid plan of upstream may be smaller.
    if (plan_check(h.graph) == NULL) {
        check_outcomes(seed, ours, a, theirs, &b);
    }
    random_graph_free(&h);
}

// Upstream's plan is undefined where a marker comes before its source, and can be wrong with outputs that are views.
static bool is_comparable(const struct random_graph_options * options) {
    return !options->early_markers && !options->output_views;
}

void fuzz_planned(uint64_t seed, uint64_t * random) {
    struct random_graph_options options = draw_options(random);
    options.n_buffers                   = draw_n_buffers(random);
    options.output_views                = random_chance(random, 10);
    draw_scheduler_parts(random, &options);
    size_t       max_size = draw_max_size(random);
    struct bench ours;
    struct bench theirs;
    bench_prepare(&ours, &lastuse_api, options.n_buffers, max_size);
    bench_prepare(&theirs, &upstream_api, options.n_buffers, max_size);
    if (random_chance(random, 50)) {
        put_on_cpu(&ours);
        put_on_cpu(&theirs);
    }
    bench_open(&ours);
    bench_open(&theirs);
    struct random_graph g = random_graph_new(seed, options);
    struct outcome      a = bench_plan(&ours, &g);
    CHECK(a.reserved && a.allocated, "seed %llu was not allocated", (unsigned long long) seed);
    bench_check_plan(&ours, &g);
    bench_check_chunks(&ours, &g);
    check_bounds(&ours, &a, seed);
    if (is_comparable(&options) && !may_abort_upstream(g.graph)) {
        plan_with_upstream(&ours, &a, &theirs, seed, options);
    }
    random_graph_free(&g);
    both_free(&ours, &theirs);
}
