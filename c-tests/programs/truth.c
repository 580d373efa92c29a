// runs: ggml-0.26
//
// Random graphs computed on the CPU, once in memory that lastuse planned and once with every tensor in
// its own memory. The results must be equal to the last bit.
//
//   truth <case> [first seed] [number of seeds]

#include "cases.h"
#include "computing.h"
#include "ggml-cpu.h"
#include "lastuse.h"
#include "own_memory.h"
#include "plan_check.h"
#include "random_graph.h"
#include "transformer.h"
#include "upstream.h"

static void check_finite(const struct ggml_tensor * t) {
    if (t->type != GGML_TYPE_F32 || !ggml_is_contiguous(t)) {
        return;
    }
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        float value = ((const float *) t->data)[i];
        CHECK(value - value == 0.0f, "%s[%lld] is %f: the random graph is unsuitable", t->name, (long long) i,
              (double) value);
    }
}

static void check_same_outputs(const struct random_graph * g, const struct random_graph * truth) {
    for (int i = 0; i < truth->outputs.count; i++) {
        check_finite(truth->outputs.items[i]);
    }
    check_same_lists(g->outputs, truth->outputs, g->seed);
}

// Both graphs are made from the same seed and options; the allocator has already placed the first.
static void check_truth(ggml_backend_t cpu, struct random_graph * g, struct random_graph * truth) {
    CHECK_PLAN(g->graph, "seed %llu", (unsigned long long) g->seed);
    compute_graph(cpu, g);
    ggml_backend_buffer_t buffer = compute_in_own_memory(cpu, truth);
    check_same_outputs(g, truth);
    ggml_backend_buffer_free(buffer);
    random_graph_free(g);
    random_graph_free(truth);
}

static ggml_gallocr_t new_allocator(void) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(galloc != NULL, "no allocator");
    return galloc;
}

static void allocate_and_check(ggml_backend_t cpu, ggml_gallocr_t galloc, uint64_t seed,
                               struct random_graph_options options) {
    struct random_graph g     = random_graph_new(seed, options);
    struct random_graph truth = random_graph_new(seed, options);
    CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "seed %llu was not allocated", (unsigned long long) seed);
    check_truth(cpu, &g, &truth);
}

// One allocator for each graph.
static void run_fresh(struct seeds seeds, int n_threads, struct random_graph_options options) {
    ggml_backend_t cpu = new_cpu(n_threads);
    FOR_SEEDS(seed, seeds) {
        ggml_gallocr_t galloc = new_allocator();
        allocate_and_check(cpu, galloc, (uint64_t) seed, options);
        ggml_gallocr_free(galloc);
    }
    ggml_backend_free(cpu);
}

CASE_OF(one_thread, run_fresh(seeds_from(args, 500), 1, (struct random_graph_options){ 0 }))

// Fewer graphs: the threads spend most of their time waiting for one another.
CASE_OF(two_threads, run_fresh(seeds_from(args, 150), 2, (struct random_graph_options){ 0 }))

// As the scheduler gives graphs to the allocator.
CASE_OF(markers, run_fresh(seeds_from(args, 300), 1, (struct random_graph_options){ .markers = true }))

// Some results are not selected: no backend computes them.
CASE_OF(alternatives, run_fresh(seeds_from(args, 400), 1, (struct random_graph_options){ .alternatives = true }))
CASE_OF(alternatives_two_threads,
        run_fresh(seeds_from(args, 60), 2, (struct random_graph_options){ .alternatives = true, .markers = true }))

// Everything at once that a scheduler may add, and sources in no list: such graphs can be planned, not computed.
CASE(oddities_are_planned) {
    struct random_graph_options options = {
        .markers = true, .early_markers = true, .split_copies = true, .unlisted_leafs = true, .alternatives = true,
    };
    struct seeds seeds = seeds_from(args, 300);
    FOR_SEEDS(seed, seeds) {
        struct random_graph g      = random_graph_new((uint64_t) seed, options);
        ggml_gallocr_t      galloc = new_allocator();
        CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "seed %lld was not allocated", seed);
        CHECK_PLAN(g.graph, "seed %lld", seed);
        ggml_gallocr_free(galloc);
        random_graph_free(&g);
    }
}

// Upstream fails here: it can free the memory under an output that is a view.
CASE_OF(output_views, run_fresh(seeds_from(args, 300), 1, (struct random_graph_options){ .output_views = true }))

// One allocator for all graphs: most need a new plan, some a larger buffer. Every graph is allocated
// and computed twice.
CASE(one_allocator) {
    struct seeds   seeds  = seeds_from(args, 200);
    ggml_backend_t cpu    = new_cpu(1);
    ggml_gallocr_t galloc = new_allocator();
    for (long long i = 0; i < seeds.count * 2; i++) {
        allocate_and_check(cpu, galloc, (uint64_t) (seeds.first + i / 2), (struct random_graph_options){ 0 });
    }
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
}

static bool reserve_for(ggml_gallocr_t galloc, uint64_t seed, struct random_graph_options options) {
    struct random_graph g  = random_graph_new(seed, options);
    bool                ok = ggml_gallocr_reserve(galloc, g.graph);
    random_graph_free(&g);
    return ok;
}

// Space is reserved for another graph, usually a larger one, before each graph.
CASE(reserve_for_another) {
    struct seeds                seeds  = seeds_from(args, 200);
    struct random_graph_options small  = { .n_steps = 20 };
    struct random_graph_options large  = { .n_steps = 60 };
    ggml_backend_t              cpu    = new_cpu(1);
    ggml_gallocr_t              galloc = new_allocator();
    FOR_SEEDS(seed, seeds) {
        CHECK(reserve_for(galloc, (uint64_t) seed + 1, large), "nothing reserved");
        allocate_and_check(cpu, galloc, (uint64_t) seed, small);
    }
    ggml_gallocr_free(galloc);
    ggml_backend_free(cpu);
}

// Space is reserved for a graph, and then allocated for one that has the same nodes, the same sizes and
// other sources (llama.cpp issue 28448). Upstream fails here: it uses the stale plan.
CASE(stale_plan) {
    struct seeds                seeds   = seeds_from(args, 300);
    struct random_graph_options options = { 0 };
    ggml_backend_t              cpu     = new_cpu(1);
    int                         rewired = 0;
    for (long long i = 0; i < seeds.count; i++) {
        uint64_t            seed   = (uint64_t) (seeds.first + i);
        struct random_graph g      = random_graph_new(seed, options);
        struct random_graph truth  = random_graph_new(seed, options);
        ggml_gallocr_t      galloc = new_allocator();
        CHECK(reserve_for(galloc, seed, options), "nothing reserved");
        rewired += random_graph_rewire(&g);
        random_graph_rewire(&truth);
        CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "seed %llu was not allocated", (unsigned long long) seed);
        check_truth(cpu, &g, &truth);
        ggml_gallocr_free(galloc);
    }
    CHECK(rewired > 0 || seeds.count < 20, "no graph could be changed");
    ggml_backend_free(cpu);
}

// Sharing rules

static struct shape random_shape(uint64_t seed) {
    return (struct shape){
        .layers = 1 + (int) (splitmix64(&seed) % 3),
        .tokens = 1 + (int) (splitmix64(&seed) % 12),
        .past   = (int) (splitmix64(&seed) % 20),
    };
}

// Normalizations that are the last reader of their source: their sources must outlive them where they are fused with
// the product after them, which is elsewhere.
static struct built normalized_chain_new(uint64_t seed) {
    struct built         b = built_new(64, 131072);
    struct ggml_tensor * x = new_input(b.ctx, WIDTH, 1 + (int64_t) (splitmix64(&seed) % 9));
    for (int i = 0; i < 6; i++) {
        x = project(b, x, 8 * (1 + (int64_t) (splitmix64(&seed) % 8)));
        x = normalize(b, x);
    }
    ggml_set_output(x);
    ggml_build_forward_expand(b.graph, x);
    return b;
}

static struct built model_new(uint64_t seed) {
    return seed % 2 == 0 ? transformer_new(random_shape(seed)) : normalized_chain_new(seed);
}

// Compares a graph in memory that lastuse planned with one that upstream's allocator planned.
static void check_model(ggml_backend_t cpu, ggml_gallocr_t galloc, uint64_t seed, const char * rules) {
    struct built   built    = model_new(seed);
    struct built   truth    = model_new(seed);
    ggml_gallocr_t upstream = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "seed %llu was not allocated", (unsigned long long) seed);
    CHECK(upstream_ggml_gallocr_alloc_graph(upstream, truth.graph), "upstream allocates it");
    CHECK_PLAN(built.graph, "seed %llu, %s", (unsigned long long) seed, rules);
    compute_with_values(cpu, built.graph, seed);
    compute_with_values(cpu, truth.graph, seed);
    check_same_outputs_of(built.graph, truth.graph, seed, rules);
    upstream_ggml_gallocr_free(upstream);
    built_free(built);
    built_free(truth);
}

// ggml fuses a normalization and the product after it, which must also be correct where none or only one of them is in
// place.
static void run_rules_on(int n_threads, struct seeds seeds, const char * rules) {
    ggml_backend_t cpu = new_cpu(n_threads);
    FOR_SEEDS(seed, seeds) {
        ggml_gallocr_t galloc = new_allocator();
        CHECK(lastuse_gallocr_set(galloc, "rules", rules), "%s is known", rules);
        allocate_and_check(cpu, galloc, (uint64_t) seed, (struct random_graph_options){ .markers = seed % 3 == 0 });
        check_model(cpu, galloc, (uint64_t) seed, rules);
        ggml_gallocr_free(galloc);
    }
    ggml_backend_free(cpu);
}

// All sets of rules that differ from "all" by one rule, and two more.
static const char * const RULES[] = {
    "none",
    "ggml",
    "all",
    "all,no-in-place",
    "all,no-views",
    "all,no-rows",
    "all,no-scans",
    "all,no-copies",
    "all,no-concat",
    "all,no-oldest-source",
    "all,no-unread-inputs",
    "all,no-inactive",
};

CASE(rules) {
    for (size_t i = 0; i < sizeof(RULES) / sizeof(RULES[0]); i++) {
        run_rules_on(1, seeds_from(args, 100), RULES[i]);
    }
}

// Few graphs, as above.
CASE(rules_in_threads) {
    for (size_t i = 0; i < sizeof(RULES) / sizeof(RULES[0]); i++) {
        run_rules_on(2, seeds_from(args, 2), RULES[i]);
    }
}
