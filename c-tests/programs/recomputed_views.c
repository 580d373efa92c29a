// runs: ggml-0.26
//
// Random training graphs that compute results again, to fit a budget: losses, gradients and views that are retained have the
// bits of the untouched graph, in its own memory.
//
//   recomputed_views <case> [first seed] [number of seeds]

#include "cases.h"
#include "computing.h"
#include "lastuse.h"
#include "mixed_training.h"
#include "passes.h"
#include "plan_check.h"
#include "reports.h"

static bool recompute(struct mixed_training * t, size_t budget, struct ggml_tensor ** retained, int count,
                      struct lastuse_recompute_report * report) {
    struct lastuse_recompute_params params = {
        .struct_size = sizeof(params), .budget = budget, .buft = ggml_backend_cpu_buffer_type(), .effort = 100000
    };
    params.retained   = retained;
    params.n_retained = count;
    *report           = (struct lastuse_recompute_report){ .struct_size = sizeof(*report) };
    return lastuse_graph_recompute(t->ctx, t->graph, &params, report);
}

static void find_limits_of_training(uint64_t seed, size_t limits[2]) {
    struct mixed_training           t = mixed_training_new(seed);
    struct lastuse_recompute_report report;
    limits[1] = planned_size(t.graph);
    CHECK(!recompute(&t, 1, NULL, 0, &report), "a byte cannot be enough");
    limits[0] = report.size_after;
    mixed_training_free(&t);
}

// Views are retained before or after, by the allocator or as parameters. Some nodes are put in order too.
static int try_training(ggml_backend_t cpu, uint64_t seed) {
    struct mixed_training           t = mixed_training_new(seed), truth = mixed_training_new(seed);
    struct lastuse_recompute_report report;
    size_t                          limits[2];
    uint64_t                        random = seed ^ 0x7ea;
    ggml_gallocr_t                  galloc = new_allocator();
    ggml_backend_buffer_t           memory = ggml_backend_alloc_ctx_tensors_from_buft(truth.ctx, ggml_backend_cpu_buffer_type());
    struct kept                     kept   = { .count = 0 };
    find_limits_of_training(seed, limits);
    bool before = splitmix64(&random) % 2 == 0, named = splitmix64(&random) % 4 == 0;
    for (int i = 0; i < t.n_views && kept.count < MOST_KEPT; i++) {
        if (splitmix64(&random) % 2 == 0) {
            keep(&kept, t.views[i], truth.views[i], "the view");
            CHECK(!before || lastuse_tensor_retain(galloc, t.views[i], NULL), "%s", lastuse_last_error());
        }
    }
    bool met = recompute(&t, random_budget(limits, &random), kept.tensors, named ? kept.count : 0, &report);
    CHECK(met || named, "seed %llu: %s", (unsigned long long) seed, lastuse_last_error());
    if (splitmix64(&random) % 3 == 0) {
        is_reordered(t.graph, ggml_backend_cpu_buffer_type(), 2000, NULL);
    }
    for (int i = 0; i < kept.count && !before; i++) {
        CHECK(lastuse_tensor_retain(galloc, kept.tensors[i], NULL), "%s", lastuse_last_error());
    }
    CHECK(ggml_gallocr_alloc_graph(galloc, t.graph), "seed %llu: not allocated", (unsigned long long) seed);
    CHECK_PLAN(t.graph, "seed %llu", (unsigned long long) seed);
    mixed_training_run(&truth, cpu);
    mixed_training_run(&t, cpu);
    check_same(t.loss, truth.loss, seed, "the loss");
    for (int i = 0; i < t.n_weights; i++) {
        check_same(t.sums[i], truth.sums[i], seed, "a gradient");
    }
    for (int i = 0; i < kept.count; i++) {
        check_same(kept.tensors[i], kept.truths[i], seed, kept.how[i]);
    }
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(memory);
    mixed_training_free(&t);
    mixed_training_free(&truth);
    return met ? report.nodes_again : 0;
}

CASE(recomputed_graphs_keep_retained_views) {
    ggml_backend_t cpu   = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 60);
    int            again = 0;
    FOR_SEEDS(seed, seeds) {
        again += try_training(cpu, (uint64_t) seed);
    }
    CHECK(again > seeds.count, "only %d nodes of %lld graphs run again", again, seeds.count);
    ggml_backend_free(cpu);
}
