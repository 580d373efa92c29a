// A graph computed in memory that lastuse planned, and the same graph in its own memory.

#include <stdlib.h>

#include "copies_report.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "own_memory.h"
#include "plan_check.h"
#include "reports.h"
#include "ways.h"

// The nodes that are retained in both graphs, at the positions before a pass moves them.
struct retained {
    struct tensor_list nodes;
    struct tensor_list truth;
};

// How the graph is changed before it is planned.
struct passes {
    bool removes_copies;
    bool reorders;
};

static void change_graph(struct ggml_cgraph * graph, struct passes passes, uint64_t * random) {
    // The type of the compute buffer may be left open.
    ggml_backend_buffer_type_t buft = random_chance(random, 70) ? ggml_backend_cpu_buffer_type() : NULL;
    if (passes.removes_copies) {
        remove_copies(graph, buft);
    }
    if (passes.reorders) {
        is_reordered(graph, buft, random_below(random, 2000), NULL);
    }
}

static int * draw_ids(uint64_t * random, int n_buffers, int count) {
    int * ids = malloc((size_t) (count + 1) * sizeof(*ids));
    CHECK(ids != NULL, "out of memory");
    for (int i = 0; i < count; i++) {
        ids[i] = i > 0 && random_chance(random, 70) ? ids[i - 1] : (int) random_below(random, n_buffers);
    }
    return ids;
}

// Whether a node that is retained has its value after the run: backends skip some, and compute others with the next.
static bool is_written(const struct ggml_cgraph * graph, int i) {
    const struct ggml_tensor * node = graph->nodes[i];
    bool is_fused = node->op == GGML_OP_RMS_NORM;
    return node->op != GGML_OP_NONE && !is_fused && is_computed(graph, node);
}

static struct retained draw_retained(const struct random_graph * g, const struct random_graph * truth,
                                     uint64_t * random) {
    int             count    = g->graph->n_nodes;
    struct retained retained = { .nodes = { .items = calloc((size_t) count + 1, sizeof(void *)) },
                                 .truth = { .items = calloc((size_t) count + 1, sizeof(void *)) } };
    CHECK(retained.nodes.items != NULL && retained.truth.items != NULL, "out of memory");
    int percent = random_chance(random, 30) ? 25 : 0;
    for (int i = 0; i < count; i++) {
        if (random_chance(random, percent) && is_written(g->graph, i)) {
            retained.nodes.items[retained.nodes.count++] = g->graph->nodes[i];
            retained.truth.items[retained.truth.count++] = truth->graph->nodes[i];
        }
    }
    return retained;
}

// An allocator of ggml in the place of lastuse retains nothing.
static void retain(ggml_gallocr_t galloc, struct retained * retained) {
    int count = 0;
    while (count < retained->nodes.count && lastuse_tensor_retain(galloc, retained->nodes.items[count], NULL)) {
        count++;
    }
    CHECK(count == 0 || count == retained->nodes.count, "%s", lastuse_last_error());
    retained->nodes.count = retained->truth.count = count;
}

// Buffers with memory, which the CPU computes in.
static void open_bench(struct bench * bench, uint64_t * random) {
    bench_prepare(bench, &lastuse_api, draw_n_buffers(random), draw_max_size(random));
    for (int i = 0; i < N_TYPES; i++) {
        bench->types[i].imaginary = false;
    }
    if (random_chance(random, 70)) {
        put_on_cpu(bench);
    }
    bench_open(bench);
    if (random_chance(random, 30)) {
        set_some_rules(bench->galloc, random);
    }
    if (random_chance(random, 20)) {
        char units[32];
        snprintf(units, sizeof(units), "%llu", (unsigned long long) random_below(random, 10000));
        CHECK(lastuse_gallocr_set(bench->galloc, "effort", units), "%s", lastuse_last_error());
    }
}

static void allocate(struct bench * bench, struct random_graph * g) {
    CHECK(bench->api->alloc_graph(bench->galloc, g->graph), "seed %llu was not allocated",
          (unsigned long long) g->seed);
    CHECK_PLAN(g->graph, "seed %llu", (unsigned long long) g->seed);
}

static void place(struct bench * bench, struct random_graph * g, uint64_t * random) {
    int * node_ids = draw_ids(random, bench->n_buffers, g->graph->n_nodes);
    int * leaf_ids = draw_ids(random, bench->n_buffers, g->graph->n_leafs);
    CHECK(bench->api->reserve_n(bench->galloc, g->graph, node_ids, leaf_ids), "seed %llu was not reserved",
          (unsigned long long) g->seed);
    allocate(bench, g);
    // As in a program that rebuilds its graph: the cached plan is used.
    if (random_chance(random, 25)) {
        random_graph_drop_memory(g);
        allocate(bench, g);
    }
    free(node_ids);
    free(leaf_ids);
}

void fuzz_computed(ggml_backend_t cpu, uint64_t seed, uint64_t * random) {
    struct random_graph_options options = draw_options(random);
    options.markers                     = random_chance(random, 20);
    options.output_views                = random_chance(random, 20);
    struct passes       passes = { .removes_copies = random_chance(random, 50), .reorders = random_chance(random, 40) };
    struct random_graph g      = random_graph_new(seed, options);
    struct random_graph truth  = random_graph_new(seed, options);
    struct retained     retained = draw_retained(&g, &truth, random);
    struct bench        bench;
    // The result of a removed copy, and its producer, may be written by others.
    passes.removes_copies = passes.removes_copies && retained.nodes.count == 0;
    change_graph(g.graph, passes, random);
    open_bench(&bench, random);
    retain(bench.galloc, &retained);
    place(&bench, &g, random);
    compute_graph(cpu, &g);
    ggml_backend_buffer_t buffer = compute_in_own_memory(cpu, &truth);
    check_same_lists(g.outputs, truth.outputs, seed);
    check_same_lists(g.weights, truth.weights, seed);
    check_same_lists(retained.nodes, retained.truth, seed);
    free(retained.nodes.items);
    free(retained.truth.items);
    ggml_backend_buffer_free(buffer);
    random_graph_free(&g);
    random_graph_free(&truth);
    bench_free(&bench);
}
