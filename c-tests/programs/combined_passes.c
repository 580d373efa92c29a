// runs: ggml-0.26
//
// Passes over random graphs, alone and in any order, with budgets between the smallest and the plan: the results that
// the program reads have the bits that the untouched graph gives, in its own memory.
//
//   combined_passes <case> [first seed] [number of seeds]

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "mixed_graph.h"
#include "passes.h"
#include "plan_check.h"
#include "reports.h"
#include "splitmix.h"
#include "upstream.h"

#define DEDICATED (1 << 20)

// A graph, and the same one with every tensor in its own memory.
struct pair {
    struct mixed_graph    g;
    struct mixed_graph    truth;
    ggml_backend_buffer_t memory;
};

static struct pair pair_new(uint64_t seed) {
    struct pair pair = { .g = mixed_graph_new(seed), .truth = mixed_graph_new(seed) };
    pair.memory      = ggml_backend_alloc_ctx_tensors_from_buft(pair.truth.ctx, ggml_backend_cpu_buffer_type());
    CHECK(pair.memory != NULL, "no memory");
    return pair;
}

static void pair_free(struct pair * pair) {
    ggml_backend_buffer_free(pair->memory);
    mixed_graph_free(&pair->g);
    mixed_graph_free(&pair->truth);
}

static bool split(struct mixed_graph * g, size_t budget, struct lastuse_tiling_report * report) {
    struct lastuse_tiling_params params = {
        .struct_size = sizeof(params), .budget = budget, .buft = ggml_backend_cpu_buffer_type(), .n_threads = 1
    };
    *report = (struct lastuse_tiling_report){ .struct_size = sizeof(*report) };
    return lastuse_graph_tile(g->ctx, g->graph, &params, report);
}

// The smallest budget that can be met, and the bytes of the plan.
static void find_limits(uint64_t seed, size_t limits[2]) {
    struct mixed_graph          g = mixed_graph_new(seed);
    struct lastuse_tiling_report report;
    limits[1] = planned_size(g.graph);
    CHECK(!split(&g, 1, &report), "seed %llu: a byte cannot be enough for %zu", (unsigned long long) seed, limits[1]);
    limits[0] = report.size_after;
    mixed_graph_free(&g);
}

struct trial {
    struct pair           pair;
    ggml_gallocr_t        galloc;
    ggml_backend_buffer_t buffer;
    struct ggml_tallocr   talloc; // of buffer
    size_t                limits[2];
    struct kept           kept;
    uint64_t              random;
    int                   cuts;
};

static void retain_some(struct trial * trial) {
    struct mixed_graph * g = &trial->pair.g;
    for (int i = 0; i < 2 && trial->kept.count < MOST_KEPT; i++) {
        int at = (int) (splitmix64(&trial->random) % (uint64_t) g->n_values);
        if (mixed_graph_lists(trial->pair.truth.graph, trial->pair.truth.values[at]) &&
            lastuse_tensor_retain(trial->galloc, g->values[at], NULL)) {
            keep(&trial->kept, g->values[at], trial->pair.truth.values[at], "retained");
        }
    }
}

// For those that the program asks for first: a copy that it computes, or the tensor itself.
static void dedicate_one(struct trial * trial) {
    struct mixed_graph * g  = &trial->pair.g;
    int                  at = (int) (splitmix64(&trial->random) % (uint64_t) g->n_values);
    if (!mixed_graph_lists(trial->pair.truth.graph, trial->pair.truth.values[at]) || trial->kept.count == MOST_KEPT) {
        return;
    }
    struct ggml_tensor * t = lastuse_tensor_dedicate(g->ctx, g->values[at], &trial->talloc);
    if (t != NULL) {
        if (t != g->values[at]) {
            struct ggml_tensor * last = g->graph->nodes[g->graph->n_nodes - 1];
            ggml_build_forward_expand(g->graph, t);
            CHECK(ggml_graph_node(g->graph, -1) != last, "the copy is not listed");
        }
        keep(&trial->kept, t, trial->pair.truth.values[at], t == g->values[at] ? "dedicated" : "the copy of");
    }
}

static void tile(struct trial * trial) {
    struct lastuse_tiling_report report;
    if (split(&trial->pair.g, random_budget(trial->limits, &trial->random), &report)) {
        trial->cuts += report.n_tilings;
    }
}

static void apply(struct trial * trial, int pass) {
    switch (pass) {
        case 0:  tile(trial); break;
        case 1:  is_reordered(trial->pair.g.graph, ggml_backend_cpu_buffer_type(), 2000, NULL); break;
        case 2:  retain_some(trial); break;
        default: dedicate_one(trial); break;
    }
}

static int try_passes(ggml_backend_t cpu, uint64_t seed) {
    struct trial trial = { .pair = pair_new(seed), .galloc = new_allocator(), .random = seed ^ 0x5eed };
    trial.buffer       = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), DEDICATED);
    trial.talloc       = ggml_tallocr_new(trial.buffer);
    find_limits(seed, trial.limits);
    mixed_graph_run(&trial.pair.truth, trial.pair.truth.graph, cpu);
    tile(&trial);
    for (int i = 1 + (int) (splitmix64(&trial.random) % 5); i > 0; i--) {
        apply(&trial, (int) (splitmix64(&trial.random) % 4));
    }
    for (int run = 0; run < 2; run++) {
        CHECK(ggml_gallocr_alloc_graph(trial.galloc, trial.pair.g.graph), "seed %llu: not allocated", (unsigned long long) seed);
        CHECK_PLAN(trial.pair.g.graph, "seed %llu", (unsigned long long) seed);
        mixed_graph_run(&trial.pair.g, trial.pair.g.graph, cpu);
        check_same(trial.pair.g.results[0], trial.pair.truth.results[0], seed, "the result");
        for (int i = 0; i < trial.kept.count; i++) {
            check_same(trial.kept.tensors[i], trial.kept.truths[i], seed, trial.kept.how[i]);
        }
    }
    ggml_gallocr_free(trial.galloc);
    ggml_backend_buffer_free(trial.buffer);
    pair_free(&trial.pair);
    return trial.cuts;
}

CASE(passes_in_any_order_keep_values) {
    ggml_backend_t cpu   = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 60);
    int            cuts  = 0;
    FOR_SEEDS(seed, seeds) {
        cuts += try_passes(cpu, (uint64_t) seed);
    }
    CHECK(cuts * 2 > seeds.count, "only %d cuts of %lld graphs", cuts, seeds.count);
    ggml_backend_free(cpu);
}

// The values that others read, the size that is reported, and the budget.
static int try_budget(ggml_backend_t cpu, uint64_t seed) {
    struct pair                 pair   = pair_new(seed);
    uint64_t                    random = seed ^ 0xb0d6e7;
    size_t                      limits[2];
    struct lastuse_tiling_report report;
    find_limits(seed, limits);
    size_t budget = random_budget(limits, &random);
    CHECK(split(&pair.g, budget, &report), "seed %llu, %zu bytes: %s", (unsigned long long) seed, budget, lastuse_last_error());
    CHECK(report.size_before == limits[1] && report.size_after <= budget, "seed %llu: %zu, then %zu bytes for %zu",
          (unsigned long long) seed, report.size_before, report.size_after, budget);
    ggml_gallocr_t galloc = new_allocator();
    CHECK(ggml_gallocr_alloc_graph(galloc, pair.g.graph), "seed %llu: not allocated", (unsigned long long) seed);
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == report.size_after, "seed %llu: the plan has %zu bytes, not %zu",
          (unsigned long long) seed, ggml_gallocr_get_buffer_size(galloc, 0), report.size_after);
    CHECK_PLAN(pair.g.graph, "seed %llu", (unsigned long long) seed);
    mixed_graph_run(&pair.truth, pair.truth.graph, cpu);
    mixed_graph_run(&pair.g, pair.g.graph, cpu);
    check_same(pair.g.results[0], pair.truth.results[0], seed, "the result");
    ggml_gallocr_free(galloc);
    pair_free(&pair);
    return report.n_tilings;
}

CASE(tiled_graphs_keep_values_and_budgets) {
    ggml_backend_t cpu   = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 100);
    int            cuts  = 0;
    FOR_SEEDS(seed, seeds) {
        cuts += try_budget(cpu, (uint64_t) seed);
    }
    CHECK(cuts * 4 > seeds.count, "only %d cuts of %lld graphs", cuts, seeds.count);
    ggml_backend_free(cpu);
}

static size_t size_by_ggml(struct ggml_cgraph * graph) {
    ggml_gallocr_t galloc = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(upstream_ggml_gallocr_reserve(galloc, graph), "not reserved");
    size_t size = upstream_ggml_gallocr_get_buffer_size(galloc, 0);
    upstream_ggml_gallocr_free(galloc);
    return size;
}

// Two graphs of the same tensors, allocated in turns in one or two allocators under LASTUSE_BUDGET.
static void try_turns(uint64_t seed) {
    ggml_backend_t       cpu       = new_cpu(1);
    uint64_t             random    = seed ^ 0x7u;
    struct pair          pair      = pair_new(seed);
    struct ggml_cgraph * graphs[2] = { pair.g.graph, pair.g.second };
    struct ggml_cgraph * truths[2] = { pair.truth.graph, pair.truth.second };
    char                 budget[32];
    snprintf(budget, sizeof(budget), "%zu", size_by_ggml(graphs[seed % 2]) * (20 + (size_t) (splitmix64(&random) % 80)) / 100);
    setenv("LASTUSE_BUDGET", budget, 1);
    ggml_gallocr_t gallocs[2] = { new_allocator(), new_allocator() };
    for (int i = 0; i < 2 && splitmix64(&random) % 2 == 0; i++) {
        CHECK(ggml_gallocr_reserve(gallocs[i], graphs[i]), "seed %llu: not reserved", (unsigned long long) seed);
    }
    for (int turn = 0; turn < 5; turn++) {
        int            which  = (int) (splitmix64(&random) % 2);
        ggml_gallocr_t galloc = gallocs[seed % 3 == 0 ? 0 : which];
        mixed_graph_drop_memory(&pair.g);
        CHECK(ggml_gallocr_alloc_graph(galloc, graphs[which]), "seed %llu: turn %d is not allocated", (unsigned long long) seed, turn);
        CHECK_PLAN(graphs[which], "seed %llu, turn %d", (unsigned long long) seed, turn);
        mixed_graph_run(&pair.truth, truths[which], cpu);
        mixed_graph_run(&pair.g, graphs[which], cpu);
        check_same(pair.g.results[which], pair.truth.results[which], seed, "the result");
    }
    ggml_gallocr_free(gallocs[0]);
    ggml_gallocr_free(gallocs[1]);
    pair_free(&pair);
    ggml_backend_free(cpu);
}

// A process reads the variable once, so each seed has one.
CASE(graphs_of_the_same_tensors_keep_values_in_turns) {
    struct seeds seeds = seeds_from(args, 60);
    FOR_SEEDS(seed, seeds) {
        fflush(stdout);
        pid_t child = fork();
        CHECK(child >= 0, "no process");
        if (child == 0) {
            try_turns((uint64_t) seed);
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "seed %lld: status %d",
              seed, status);
    }
}
