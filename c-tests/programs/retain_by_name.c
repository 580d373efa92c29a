// runs: ggml-0.26 ggml-0.9.5
//
// Tensors that are retained by name, in every allocator, and random graphs in which any of them are retained.
//
//   retain_by_name <case> [first seed] [number of seeds]

#include "cases.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "own_memory.h"
#include "plan_check.h"
#include "reports.h"
#include "retained_chain.h"
#include "separate_backends.h"
#include "training.h"
#include "upstream.h"

#define WIDTH 1024

static const size_t ONE = WIDTH * sizeof(float);

static void set_retain(const char * names) {
    CHECK(lastuse_set("retain", names), "%s: %s", names, lastuse_last_error());
}

static size_t allocate_again(ggml_gallocr_t galloc, struct chain * chain) {
    ggml_reset(chain->ctx);
    chain_build(chain, WIDTH);
    CHECK(ggml_gallocr_alloc_graph(galloc, chain->graph), "not allocated");
    return bytes_in_use(chain->graph);
}

CASE(existing_and_later_allocators) {
    ggml_backend_t cpu    = new_cpu(1);
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t before = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(allocate_again(before, &chain) == ONE, "nothing is retained");
    set_retain("hidden-1, hidden-3");
    ggml_gallocr_t later = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(allocate_again(later, &chain) == 3 * ONE, "two are retained");
    CHECK(allocate_again(before, &chain) == 3 * ONE, "two are retained");
    chain_compute(cpu, &chain, 0, CHAIN);
    CHECK(chain_holds(&chain, 1) && chain_holds(&chain, 3), "the values are there");
    set_retain("");
    uint64_t plans = plans_made();
    CHECK(allocate_again(before, &chain) == ONE, "nothing is retained");
    CHECK(plans_made() == plans, "the first plan is remembered");
    ggml_gallocr_free(before);
    ggml_gallocr_free(later);
    chain_free(&chain);
    ggml_backend_free(cpu);
}

// A graph with the same tensors at the same addresses, of which others have the names.
CASE(names_that_change) {
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    set_retain("kept?");
    for (int i = 0; i < 2 * CHAIN; i++) {
        ggml_reset(chain.ctx);
        chain_build(&chain, WIDTH);
        ggml_set_name(chain.nodes[i % CHAIN], "kept7");
        CHECK(ggml_gallocr_alloc_graph(galloc, chain.graph), "not allocated");
        for (int later = i % CHAIN + 1; later < CHAIN; later++) {
            CHECK(chain.nodes[later]->data != chain.nodes[i % CHAIN]->data, "node %d over node %d", later, i % CHAIN);
        }
    }
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

CASE(patterns) {
    static const struct { const char * names; size_t values; } expected[] = {
        { "hidden-*", 6 }, { "*", 7 }, { "hidden-?", 6 }, { "hidden", 1 }, { "*-2,*-3", 3 }, { "HIDDEN-1", 1 },
        { "input", 2 },    { "", 1 },  { " hidden-0 ", 2 },
    };
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        set_retain(expected[i].names);
        size_t size = allocate_again(galloc, &chain);
        CHECK(size == expected[i].values * ONE, "\"%s\": %zu bytes", expected[i].names, size);
    }
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

CASE(invalid_patterns) {
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    set_retain("hidden-2");
    static const char * const invalid[][2] = {
        { ",", "pattern 1 of \",\" is empty" },
        { "hidden-*,,kq", "pattern 2 of \"hidden-*,,kq\" is empty" },
        { "\xff", "is not UTF-8" },
    };
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        CHECK(!lastuse_set("retain", invalid[i][0]), "%s is taken", invalid[i][0]);
        CHECK(strstr(lastuse_last_error(), invalid[i][1]) != NULL, "%s", lastuse_last_error());
        CHECK(allocate_again(galloc, &chain) == 2 * ONE, "the names have changed");
    }
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

// A registration counts more than the name.
CASE(registered_and_named) {
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    set_retain("hidden-1");
    CHECK(lastuse_tensor_retain(galloc, chain.nodes[1], chain.nodes[1]), "%s", lastuse_last_error());
    CHECK(allocate_again(galloc, &chain) == ONE, "until it has run");
    CHECK(lastuse_tensor_release(galloc, chain.nodes[1]), "%s", lastuse_last_error());
    CHECK(allocate_again(galloc, &chain) == 2 * ONE, "by name");
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

CASE(measured_and_explained) {
    struct chain               chain = chain_of(WIDTH);
    ggml_backend_buffer_type_t buft  = ggml_backend_cpu_buffer_type();
    set_retain("hidden-1");
    size_t size = 0;
    CHECK(lastuse_graph_measure(&chain.graph, 1, &buft, 1, NULL, NULL, &size, NULL), "%s", lastuse_last_error());
    CHECK(size == 2 * ONE, "measured %zu", size);
    ggml_gallocr_t galloc = ggml_gallocr_new(buft);
    set_retain("hidden-1,hidden-4");
    char * text = lastuse_gallocr_explain(galloc, chain.graph);
    CHECK(text != NULL, "%s", lastuse_last_error());
    CHECK(strstr(text, "hidden-1") != NULL && strstr(text, "retained to the end") != NULL, "%s", text);
    lastuse_string_free(text);
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

// By a scheduler with one backend, then with two whose copies of a tensor have their own names.
CASE(schedulers) {
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    set_retain("hidden-*");
    for (int n_backends = 1; n_backends <= BACKENDS; n_backends++) {
        ggml_backend_sched_t sched =
            ggml_backend_sched_new(separate.backends, separate.types, n_backends, 256, false, false);
        for (int round = 0; round < 3; round++) {
            struct chain chain = chain_of(round == 1 ? 2 * WIDTH : WIDTH);
            ggml_backend_sched_reset(sched);
            for (int i = 0; i < CHAIN; i++) {
                ggml_backend_sched_set_tensor_backend(sched, chain.nodes[i], separate.backends[i / 2 % n_backends]);
            }
            CHECK(ggml_backend_sched_alloc_graph(sched, chain.graph), "not allocated");
            set_values(chain.input, 7);
            CHECK(ggml_backend_sched_graph_compute(sched, chain.graph) == GGML_STATUS_SUCCESS, "not computed");
            for (int i = 0; i < CHAIN; i++) {
                CHECK(chain_holds(&chain, i), "%d backends, round %d: value %d", n_backends, round, i);
            }
            chain_free(&chain);
        }
        ggml_backend_sched_free(sched);
    }
    separate_backends_free(&separate);
}

// Guards fill free memory, but not that of retained tensors.
CASE(guarded) {
    ggml_backend_t cpu   = new_cpu(1);
    struct chain   chain = chain_of(WIDTH);
    CHECK(lastuse_set("verify", "memory"), "%s", lastuse_last_error());
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    set_retain("hidden-*");
    CHECK(allocate_again(galloc, &chain) == CHAIN * ONE, "all but the input");
    set_values(chain.input, 7);
    CHECK(lastuse_graph_compute_guarded(cpu, chain.graph) == GGML_STATUS_SUCCESS, "%s", lastuse_last_error());
    ggml_gallocr_free(galloc);

    struct lastuse_guard_params params = { .struct_size = sizeof(params) };
    struct lastuse_guard *      guard  = lastuse_guard_new(&params);
    ggml_backend_sched_t        sched  = ggml_backend_sched_new(&cpu, NULL, 1, 256, false, false);
    ggml_backend_sched_set_eval_callback(sched, lastuse_guard_eval, guard);
    ggml_reset(chain.ctx);
    chain_build(&chain, WIDTH);
    CHECK(ggml_backend_sched_alloc_graph(sched, chain.graph), "not allocated");
    set_values(chain.input, 7);
    CHECK(ggml_backend_sched_graph_compute(sched, chain.graph) == GGML_STATUS_SUCCESS, "not computed");
    for (int i = 0; i < CHAIN; i++) {
        CHECK(chain_holds(&chain, i), "value %d", i);
    }
    ggml_backend_sched_free(sched);
    lastuse_guard_free(guard);
    chain_free(&chain);
    ggml_backend_free(cpu);
}

// A retained producer of a copy keeps its memory: the copy stays.
CASE(copies_of_retained_tensors_stay) {
    for (int is_retained = 0; is_retained < 2; is_retained++) {
        struct ggml_context * ctx   = no_alloc_context(1 << 20);
        struct ggml_tensor *  input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 16);
        ggml_set_input(input);
        struct ggml_tensor * product = ggml_set_name(ggml_mul_mat(ctx, input, input), "product");
        struct ggml_tensor * copy    = ggml_cont(ctx, product);
        struct ggml_cgraph * graph   = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, ggml_sqr(ctx, copy));
        set_retain(is_retained ? "product" : "");
        struct lastuse_copies_report report = { .struct_size = sizeof(report) };
        int removed = copies_removed(graph, ggml_backend_cpu_buffer_type(), &report);
        CHECK(removed == 1 - is_retained, "%d copies are removed", removed);
        CHECK((copy->op == GGML_OP_CONT) == is_retained, "the copy is now %s", ggml_op_name(copy->op));
        ggml_free(ctx);
    }
}

// Forward results, which the backward pass and the steps of the optimizer overwrite otherwise. The reference is copied
// out node by node, right after each was computed, in its own memory.
CASE(forward_results_of_a_training_graph) {
    ggml_backend_t  cpu     = new_cpu(1);
    struct training given   = training_new();
    struct training kept    = training_new();
    ggml_gallocr_t  galloc  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    int             forward = 0; // nodes up to the loss
    while (given.graph->nodes[forward++] != given.loss) {}
    void ** values = calloc((size_t) forward, sizeof(*values));
    CHECK(values != NULL && forward > 10, "%d nodes", forward);
    ggml_backend_buffer_t memory = upstream_ggml_backend_alloc_ctx_tensors(given.ctx, cpu);
    training_set_data(&given);
    training_set_inputs(&given);
    for (int i = 0; i < given.graph->n_nodes; i++) {
        struct ggml_cgraph one = ggml_graph_view(given.graph, i, i + 1);
        CHECK(ggml_backend_graph_compute(cpu, &one) == GGML_STATUS_SUCCESS, "node %d", i);
        if (i < forward) {
            size_t size = ggml_nbytes(given.graph->nodes[i]);
            values[i]   = memcpy(malloc(size), given.graph->nodes[i]->data, size);
        }
    }
    set_retain("*");
    CHECK(ggml_gallocr_alloc_graph(galloc, kept.graph), "not allocated");
    training_set_data(&kept);
    training_run(&kept, cpu, 1);
    for (int i = 0; i < forward; i++) {
        struct ggml_tensor * t       = kept.graph->nodes[i];
        bool                 is_same = memcmp(t->data, values[i], ggml_nbytes(t)) == 0;
        // Weights are among the nodes, and have changed.
        CHECK(is_same || t->op == GGML_OP_NONE, "node %d, %s", i, ggml_op_name(t->op));
        free(values[i]);
    }
    check_same_bytes(kept.loss, given.loss, 0);
    for (int i = 0; i < TRAINING_WEIGHTS; i++) {
        check_same_bytes(kept.weights[i], given.weights[i], (uint64_t) i);
    }
    free(values);
    ggml_backend_buffer_free(memory);
    ggml_gallocr_free(galloc);
    training_free(&given);
    training_free(&kept);
    ggml_backend_free(cpu);
}

// Random graphs

// Whether the node writes its value: backends skip some nodes, and compute others together with the next.
static bool is_written(const struct ggml_cgraph * graph, int i) {
    const struct ggml_tensor * node = graph->nodes[i];
    bool is_fused = node->op == GGML_OP_RMS_NORM && i + 1 < graph->n_nodes && graph->nodes[i + 1]->op == GGML_OP_MUL;
    return node->op != GGML_OP_NONE && !is_fused && is_computed(graph, node);
}

static void check_values(const struct random_graph * g, const struct random_graph * truth, const bool * is_retained) {
    for (int i = 0; i < g->graph->n_nodes; i++) {
        if (is_retained[i] && is_written(g->graph, i)) {
            check_same_bytes(g->graph->nodes[i], truth->graph->nodes[i], g->seed);
        }
    }
    check_same_lists(g->outputs, truth->outputs, g->seed);
}

// Retains every node by name, or some by themselves, and compares all of them with the same graph in own memory.
static void check_random_graph(ggml_backend_t cpu, uint64_t seed, int percent) {
    struct random_graph_options options = { .markers = seed % 3 == 0, .alternatives = seed % 4 == 0 };
    struct random_graph         g       = random_graph_new(seed, options);
    struct random_graph         truth   = random_graph_new(seed, options);
    ggml_gallocr_t              galloc  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    uint64_t                    random  = seed;
    bool *                      is_retained = calloc((size_t) g.graph->n_nodes + 1, sizeof(*is_retained));
    CHECK(is_retained != NULL, "out of memory");
    for (int i = 0; i < g.graph->n_nodes; i++) {
        is_retained[i] = (int) (splitmix64(&random) % 100) < percent;
        if (is_retained[i] && percent < 100) {
            CHECK(lastuse_tensor_retain(galloc, g.graph->nodes[i], NULL), "%s", lastuse_last_error());
        }
    }
    CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "seed %llu was not allocated", (unsigned long long) seed);
    CHECK_PLAN(g.graph, "seed %llu", (unsigned long long) seed);
    compute_graph(cpu, &g);
    ggml_backend_buffer_t buffer = compute_in_own_memory(cpu, &truth);
    check_values(&g, &truth, is_retained);
    ggml_backend_buffer_free(buffer);
    free(is_retained);
    ggml_gallocr_free(galloc);
    random_graph_free(&g);
    random_graph_free(&truth);
}

static void check_random_graphs(struct seeds seeds, int percent) {
    ggml_backend_t cpu = new_cpu(1);
    FOR_SEEDS(seed, seeds) {
        check_random_graph(cpu, (uint64_t) seed, percent);
    }
    ggml_backend_free(cpu);
}

CASE(every_value_of_random_graphs) {
    set_retain("*");
    check_random_graphs(seeds_from(args, 300), 100);
}

CASE(some_values_of_random_graphs) {
    check_random_graphs(seeds_from(args, 300), 30);
}
