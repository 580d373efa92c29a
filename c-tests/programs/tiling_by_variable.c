// runs: ggml-0.26 ggml-0.9.5 LASTUSE_BUDGET=512K
//
// LASTUSE_BUDGET: graphs of a program that knows nothing of it are computed in tiles. Results must be equal to the last
// bit, buffers must have the bytes that lastuse_graph_tile reaches, and everything outside the program's graph must
// stay as it is.
//
//   tiling_by_variable <case> [first seed] [number of seeds]

#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "graph_fields.h"
#include "large_graph.h"
#include "lastuse.h"
#include "own_memory.h"
#include "plan_check.h"
#include "random_graph.h"
#include "reports.h"
#include "upstream.h"

#define BUDGET (512 * 1024) // as in the first line; cases that need another one set it before they call anything
#define GROWTH (256 * 1024) // bytes that malloc may keep more at the end than after the first calls

static void set_budget(const char * value) {
    setenv("LASTUSE_BUDGET", value, 1);
}

// Two graphs that were built alike have equal nodes.
static void check_same_nodes(struct ggml_cgraph * a, struct ggml_cgraph * b, long long seed) {
    CHECK(a->n_nodes == b->n_nodes && a->n_leafs == b->n_leafs, "seed %lld: %d and %d nodes", seed, a->n_nodes, b->n_nodes);
    for (int i = 0; i < a->n_nodes; i++) {
        CHECK(strcmp(a->nodes[i]->name, b->nodes[i]->name) == 0 && a->nodes[i]->op == b->nodes[i]->op &&
                  ggml_are_same_shape(a->nodes[i], b->nodes[i]),
              "seed %lld: node %d differs: %s and %s", seed, i, a->nodes[i]->name, b->nodes[i]->name);
    }
}

static void check_results(const struct large_graph * g, const struct large_graph * truth, long long seed) {
    for (int i = 0; i < truth->n_results; i++) {
        check_same_bytes(g->results[i], truth->results[i], (uint64_t) seed);
    }
}

// The bytes that lastuse_graph_tile reaches with this budget.
static struct lastuse_tiling_report reached(struct ggml_context * ctx, struct ggml_cgraph * graph, size_t budget) {
    struct lastuse_tiling_params params = {
        .struct_size = sizeof(params), .budget = budget, .buft = ggml_backend_cpu_buffer_type()
    };
    struct lastuse_tiling_report report = { .struct_size = sizeof(report) };
    lastuse_graph_tile(ctx, graph, &params, &report);
    return report;
}

enum way { RESERVED, NOT_RESERVED, IN_ANOTHER_ORDER };

// The outcome for graphs.
struct counts {
    int cut;
    int fit; // the budget, cut
};

// A program computes a graph by ggml-alloc; then one that was reserved and built anew, by lastuse.
static void compare_large_graph(ggml_backend_t cpu, long long seed, enum way way, struct counts * counts) {
    struct large_graph          truth    = large_graph_new((uint64_t) seed);
    struct large_graph          reserved = large_graph_new((uint64_t) seed);
    struct large_graph          used     = large_graph_new((uint64_t) seed);
    struct large_graph          other    = large_graph_new((uint64_t) seed);
    struct lastuse_tiling_report report   = reached(other.ctx, other.graph, BUDGET);
    struct ggml_tensor *        last     = ggml_graph_node(used.graph, -1);
    int                         nodes    = used.graph->n_nodes;
    bool                        reserves = way != NOT_RESERVED;
    int                         leafs    = used.graph->n_leafs;
    ggml_gallocr_t              upstream = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(upstream_ggml_gallocr_alloc_graph(upstream, truth.graph), "seed %lld: not allocated by ggml-alloc", seed);
    large_graph_run(&truth, cpu);

    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    if (reserves) {
        size_t size;
        ggml_gallocr_reserve_n_size(galloc, reserved.graph, NULL, NULL, &size);
        CHECK(reserved.graph->n_nodes == nodes, "seed %lld: measuring changes the graph", seed);
        CHECK(size == report.size_after || way == IN_ANOTHER_ORDER, "seed %lld: measured %zu, not %zu", seed, size, report.size_after);
        CHECK(ggml_gallocr_reserve(galloc, reserved.graph), "seed %lld: not reserved", seed);
        CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == size, "seed %lld: not the %zu bytes measured", seed, size);
    }
    uint64_t plans = plans_made();
    CHECK(ggml_gallocr_alloc_graph(galloc, used.graph), "seed %lld: not allocated", seed);
    CHECK(!reserves || plans_made() == plans, "seed %lld: the reserved plan was not used", seed);
    CHECK_PLAN(used.graph, "seed %lld", seed);
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == report.size_after || way == IN_ANOTHER_ORDER, "seed %lld: %zu bytes, not %zu", seed,
          ggml_gallocr_get_buffer_size(galloc, 0), report.size_after);
    CHECK(ggml_graph_node(used.graph, -1) == last && used.graph->n_leafs == leafs, "seed %lld: another last node", seed);
    if (reserves) {
        check_same_nodes(reserved.graph, used.graph, seed);
    }
    large_graph_run(&used, cpu);
    check_results(&used, &truth, seed);

    // The very graph again.
    int now = used.graph->n_nodes;
    CHECK(ggml_gallocr_alloc_graph(galloc, used.graph) && used.graph->n_nodes == now, "seed %lld: changed again", seed);
    large_graph_run(&used, cpu);
    check_results(&used, &truth, seed);
    ggml_gallocr_free(galloc);
    upstream_ggml_gallocr_free(upstream);
    large_graph_free(truth);
    large_graph_free(reserved);
    large_graph_free(used);
    large_graph_free(other);
    counts->cut += now > nodes;
    counts->fit += now > nodes && report.size_after <= BUDGET;
}

static void compare_large_graphs(struct case_args args, enum way way) {
    ggml_backend_t cpu    = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 40);
    struct counts  counts = { 0 };
    FOR_SEEDS(seed, seeds) {
        compare_large_graph(cpu, seed, way, &counts);
    }
    CHECK(seeds.count < 40 || (counts.cut * 5 > seeds.count && counts.fit * 6 > seeds.count),
          "only %d of %lld graphs were cut, %d fit", counts.cut, seeds.count, counts.fit);
    ggml_backend_free(cpu);
}

CASE(reserved_graphs_are_computed_in_parts) {
    compare_large_graphs(args, RESERVED);
}

CASE(graphs_that_are_not_reserved_are_computed_in_parts) {
    compare_large_graphs(args, NOT_RESERVED);
}

// A byte is never enough, so as much as possible is cut: among nodes that write into caches, over their sources and so on.
CASE(random_graphs_keep_their_bits) {
    set_budget("1");
    struct random_graph_options options = { .max_elements = 65536 };
    ggml_backend_t              cpu     = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 400);
    int                         cut     = 0;
    FOR_SEEDS(seed, seeds) {
        struct random_graph   truth  = random_graph_new((uint64_t) seed, options);
        struct random_graph   used   = random_graph_new((uint64_t) seed, options);
        ggml_backend_buffer_t memory = compute_in_own_memory(cpu, &truth);
        ggml_gallocr_t        galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        int                   nodes  = used.graph->n_nodes;
        for (int round = 0; round < 2; round++) {
            CHECK(ggml_gallocr_alloc_graph(galloc, used.graph), "seed %lld: not allocated", seed);
            CHECK_PLAN(used.graph, "seed %lld", seed);
            compute_graph(cpu, &used);
            check_same_lists(used.outputs, truth.outputs, (uint64_t) seed);
            check_same_lists(used.weights, truth.weights, (uint64_t) seed);
            // Programs that allocate a graph again may clear the addresses of their tensors.
            random_graph_drop_memory(&used);
        }
        cut += used.graph->n_nodes > nodes;
        ggml_gallocr_free(galloc);
        random_graph_free(&used);
        ggml_backend_buffer_free(memory);
        random_graph_free(&truth);
    }
    CHECK(seeds.count < 400 || cut * 20 > seeds.count, "only %d of %lld graphs were cut", cut, seeds.count);
    ggml_backend_free(cpu);
}

#define SCORES_BUDGET "2200K"

// Scores of 2 MiB, and their weighted sum, in a context that graphs are built in again and again.
struct attention {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  leafs[3];
    struct ggml_tensor *  scores;
    struct ggml_tensor *  mixed;
    struct ggml_tensor *  sum;
};

// With this number of nodes before the scores, which change no value.
static struct attention attention_behind(struct ggml_context * ctx, size_t nodes, int scales) {
    struct attention a = { .ctx = ctx };
    ggml_reset(ctx);
    a.leafs[0] = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 32, 256, 8);
    a.leafs[1] = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 32, 256, 8);
    a.leafs[2] = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 256, 32, 8);
    for (int i = 0; i < 3; i++) {
        ggml_set_input(a.leafs[i]);
    }
    struct ggml_tensor * keys = a.leafs[0];
    for (int i = 0; i < scales; i++) {
        keys = ggml_scale(ctx, keys, 1.0f);
    }
    a.scores = ggml_mul_mat(ctx, keys, a.leafs[1]);
    ggml_set_name(a.scores, "scores");
    // In place, as programs write it: the softmax is a view of the scores.
    a.mixed = ggml_mul_mat(ctx, a.leafs[2], ggml_soft_max_inplace(ctx, ggml_scale_inplace(ctx, a.scores, 0.5f)));
    ggml_set_name(a.mixed, "mixed");
    ggml_set_output(a.mixed);
    a.sum   = ggml_sum(ctx, a.mixed);
    a.graph = ggml_new_graph_custom(ctx, nodes, false);
    ggml_set_output(a.sum);
    ggml_build_forward_expand(a.graph, a.sum);
    return a;
}

static struct attention attention_in(struct ggml_context * ctx, size_t nodes) {
    return attention_behind(ctx, nodes, 0);
}

#define ATTENTION_BYTES (256 * ggml_tensor_overhead() + 2 * ggml_graph_overhead_custom(512, false))

static struct attention attention_new(size_t nodes) {
    return attention_in(no_alloc_context(ATTENTION_BYTES), nodes);
}

static void attention_set_leafs(struct attention * a) {
    for (int i = 0; i < 3; i++) {
        set_values(a->leafs[i], (uint64_t) i + 5);
    }
}

static void attention_run(struct attention * a, ggml_backend_t cpu) {
    attention_set_leafs(a);
    CHECK(ggml_backend_graph_compute(cpu, a->graph) == GGML_STATUS_SUCCESS, "not computed");
}

// The result of the graph, by ggml-alloc.
struct attention_truth {
    struct attention a;
    ggml_gallocr_t   galloc;
};

static struct attention_truth attention_truth_new(ggml_backend_t cpu) {
    struct attention_truth truth = { attention_new(512), upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type()) };
    CHECK(upstream_ggml_gallocr_alloc_graph(truth.galloc, truth.a.graph), "not allocated by ggml-alloc");
    attention_run(&truth.a, cpu);
    return truth;
}

static void attention_truth_free(struct attention_truth truth) {
    upstream_ggml_gallocr_free(truth.galloc);
    ggml_free(truth.a.ctx);
}

static void check_attention(const struct attention * a, const struct attention_truth * truth) {
    check_same_bytes(a->mixed, truth->a.mixed, 0);
    check_same_bytes(a->sum, truth->a.sum, 0);
}

static bool is_cut(const struct ggml_cgraph * graph) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (strstr(graph->nodes[i]->name, "(tile ") != NULL) {
            return true;
        }
    }
    return false;
}

static int count_of(const struct log_capture * capture, const char * part) {
    int count = 0, index = 0;
    while (log_capture_next(capture, &index, part) != NULL) {
        count++;
    }
    return count;
}

static size_t bytes_in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

// A graph that is built anew for each call, in the same memory and in another one in turn.
CASE(a_thousand_calls_take_no_more_memory) {
    set_budget(SCORES_BUDGET);
    long long             calls   = case_number(args, 0, 1000);
    ggml_gallocr_t        galloc  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct ggml_context * rooms[] = { no_alloc_context(ATTENTION_BYTES), no_alloc_context(ATTENTION_BYTES) };
    size_t                before  = 0;
    uint64_t              plans   = 0;
    for (long long i = 0; i < calls; i++) {
        struct attention a = attention_in(rooms[i % 2], 512);
        CHECK(ggml_gallocr_reserve(galloc, a.graph) && ggml_gallocr_alloc_graph(galloc, a.graph), "not allocated");
        CHECK(is_cut(a.graph), "call %lld: not cut", i);
        if (i == 9) {
            before = bytes_in_use();
            plans  = plans_made();
        }
    }
    CHECK(bytes_in_use() < before + GROWTH, "%zu bytes became %zu", before, bytes_in_use());
    CHECK(plans_made() == plans, "equal graphs are planned again");
    ggml_gallocr_free(galloc);
    ggml_free(rooms[0]);
    ggml_free(rooms[1]);
}

// Contexts that are all live.
CASE(allocators_for_each_graph_take_no_more_memory) {
    set_budget(SCORES_BUDGET);
    enum { KEPT = 40 };
    long long             calls = case_number(args, 0, 400);
    struct ggml_context * rooms[KEPT];
    size_t                before = 0;
    for (int i = 0; i < KEPT; i++) {
        rooms[i] = no_alloc_context(ATTENTION_BYTES);
    }
    for (long long i = 0; i < calls; i++) {
        struct attention a      = attention_in(rooms[i % KEPT], 512);
        ggml_gallocr_t   galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(ggml_gallocr_alloc_graph(galloc, a.graph) && is_cut(a.graph), "not allocated in tiles");
        ggml_gallocr_free(galloc);
        before = i == 2 * KEPT ? bytes_in_use() : before;
    }
    CHECK(bytes_in_use() < before + GROWTH, "%zu bytes became %zu", before, bytes_in_use());
    for (int i = 0; i < KEPT; i++) {
        ggml_free(rooms[i]);
    }
}

// However many graphs of a program are live, all are in tiles, and stay so when others follow and allocators are freed.
CASE(any_number_of_graphs_is_kept) {
    set_budget(SCORES_BUDGET);
    enum { GRAPHS = 300 };
    ggml_backend_t         cpu   = new_cpu(1);
    struct attention_truth truth = attention_truth_new(cpu);
    static struct attention graphs[GRAPHS];
    for (int i = 0; i < GRAPHS; i++) {
        ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        graphs[i]             = attention_new(512);
        CHECK(ggml_gallocr_reserve(galloc, graphs[i].graph) && is_cut(graphs[i].graph), "graph %d: not in tiles", i);
        ggml_gallocr_free(galloc);
    }
    for (int i = 0; i < GRAPHS; i += GRAPHS / 10) {
        ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(ggml_gallocr_alloc_graph(galloc, graphs[i].graph) && is_cut(graphs[i].graph), "graph %d: not allocated", i);
        attention_run(&graphs[i], cpu);
        check_attention(&graphs[i], &truth);
        ggml_gallocr_free(galloc);
    }
    for (int i = 0; i < GRAPHS; i++) {
        ggml_free(graphs[i].ctx);
    }
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

// In the memory of one graph another one is built, whose tensors lie elsewhere in it. A graph in other memory stays as it is.
CASE(graphs_of_other_sizes_take_no_more_memory) {
    set_budget(SCORES_BUDGET);
    long long              calls  = case_number(args, 0, 300);
    ggml_backend_t         cpu    = new_cpu(1);
    struct attention_truth truth  = attention_truth_new(cpu);
    ggml_gallocr_t         galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct ggml_context *  room   = no_alloc_context(ATTENTION_BYTES);
    struct attention       stays  = attention_new(512);
    size_t                 before = 0;
    CHECK(ggml_gallocr_reserve(galloc, stays.graph) && is_cut(stays.graph), "not in tiles");
    for (long long i = 0; i < calls; i++) {
        struct attention a = attention_behind(room, 512, (int) (i * 7 % 20));
        CHECK(ggml_gallocr_alloc_graph(galloc, a.graph) && is_cut(a.graph), "call %lld: not in tiles", i);
        before = i == 160 ? bytes_in_use() : before;
    }
    CHECK(bytes_in_use() < before + GROWTH, "%zu bytes became %zu", before, bytes_in_use());
    CHECK(ggml_gallocr_alloc_graph(galloc, stays.graph) && is_cut(stays.graph), "not allocated");
    attention_run(&stays, cpu);
    check_attention(&stays, &truth);
    ggml_gallocr_free(galloc);
    ggml_free(room);
    ggml_free(stays.ctx);
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

// A program that measures with one allocator, and computes with another.
CASE(graphs_of_an_allocator_that_was_freed_stay_valid) {
    set_budget(SCORES_BUDGET);
    ggml_backend_t         cpu   = new_cpu(1);
    struct attention_truth truth = attention_truth_new(cpu);
    struct attention       a     = attention_new(512);
    ggml_gallocr_t         first = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(first, a.graph) && is_cut(a.graph), "not reserved in tiles");
    size_t size = ggml_gallocr_get_buffer_size(first, 0);
    ggml_gallocr_free(first);
    int            nodes  = a.graph->n_nodes;
    ggml_gallocr_t second = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(second, a.graph) && a.graph->n_nodes == nodes, "not allocated as it is");
    CHECK(ggml_gallocr_get_buffer_size(second, 0) == size, "not %zu bytes", size);
    CHECK_PLAN(a.graph, "%s", "the graph of another allocator");
    attention_run(&a, cpu);
    check_attention(&a, &truth);
    ggml_gallocr_free(second);
    ggml_free(a.ctx);
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

static void drop_memory(struct ggml_context * ctx) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        t->data   = NULL;
        t->buffer = NULL;
    }
}

// A second graph of the tensors of the first, built before that is cut.
static struct ggml_cgraph * second_graph(struct attention * a) {
    struct ggml_tensor * square = ggml_sqr(a->ctx, a->mixed);
    struct ggml_cgraph * second = ggml_new_graph_custom(a->ctx, 512, false);
    ggml_set_output(square);
    ggml_build_forward_expand(second, square);
    return second;
}

// They are restored, and stay whole.
CASE(graphs_that_share_tensors_are_computed) {
    set_budget(SCORES_BUDGET);
    ggml_backend_t         cpu    = new_cpu(1);
    struct attention_truth truth  = attention_truth_new(cpu);
    struct attention       a      = attention_new(512);
    struct ggml_cgraph *   first  = a.graph;
    struct ggml_cgraph *   second = second_graph(&a);
    int                    nodes  = first->n_nodes;
    struct log_capture     log;
    ggml_gallocr_t         galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, a.graph) && is_cut(a.graph), "not reserved in tiles");
    log_capture_start(&log);
    second->size = second->n_nodes;
    for (int turn = 0; turn < 4; turn++) {
        a.graph = turn % 2 == 0 ? second : first;
        drop_memory(a.ctx);
        CHECK(ggml_gallocr_alloc_graph(galloc, a.graph), "turn %d: not allocated", turn);
        CHECK(!is_cut(a.graph) && a.graph->n_nodes == nodes, "turn %d: %d nodes", turn, a.graph->n_nodes);
        CHECK_PLAN(a.graph, "turn %d", turn);
        attention_run(&a, cpu);
        check_same_bytes(a.mixed, truth.a.mixed, 0);
    }
    log_capture_stop();
    CHECK(count_of(&log, "graphs that share large tensors") == 1, "not logged once");
    check_attention(&a, &truth);
    ggml_gallocr_free(galloc);
    ggml_free(a.ctx);
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

// The first graph keeps its memory and may run at any time, so it stays in tiles.
CASE(graphs_that_share_tensors_with_memory_run_both) {
    set_budget(SCORES_BUDGET);
    ggml_backend_t         cpu        = new_cpu(1);
    struct attention_truth truth      = attention_truth_new(cpu);
    struct attention       a          = attention_new(512);
    struct ggml_cgraph *   graphs[]   = { a.graph, second_graph(&a) };
    ggml_gallocr_t         gallocs[2] = { ggml_gallocr_new(ggml_backend_cpu_buffer_type()),
                                          ggml_gallocr_new(ggml_backend_cpu_buffer_type()) };
    for (int i = 0; i < 2; i++) {
        CHECK(ggml_gallocr_alloc_graph(gallocs[i], graphs[i]) && is_cut(graphs[i]), "graph %d is not allocated", i);
    }
    for (int i = 3; i >= 0; i--) {
        a.graph = graphs[i % 2];
        attention_run(&a, cpu);
        check_same_bytes(a.mixed, truth.a.mixed, 0);
    }
    check_attention(&a, &truth);
    ggml_gallocr_free(gallocs[0]);
    ggml_gallocr_free(gallocs[1]);
    ggml_free(a.ctx);
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

// Requests of a program after the graph was reserved.
CASE(tensors_wanted_after_the_cut_are_computed) {
    set_budget(SCORES_BUDGET);
    ggml_backend_t         cpu    = new_cpu(1);
    struct attention_truth truth  = attention_truth_new(cpu);
    ggml_backend_buffer_t  buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4 << 20);
    for (int dedicates = 0; dedicates < 2; dedicates++) {
        struct attention    a      = attention_new(512);
        ggml_gallocr_t      galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        struct ggml_tallocr talloc = ggml_tallocr_new(buffer);
        CHECK(ggml_gallocr_reserve(galloc, a.graph) && is_cut(a.graph), "not reserved in tiles");
        bool accepted = dedicates ? lastuse_tensor_dedicate(a.ctx, a.scores, &talloc) == a.scores
                                  : lastuse_tensor_retain(galloc, a.scores, NULL);
        CHECK(accepted, "%s", lastuse_last_error());
        CHECK(ggml_gallocr_alloc_graph(galloc, a.graph), "not allocated");
        CHECK(a.scores->data != NULL && !is_cut(a.graph), "only parts of the scores are computed");
        attention_run(&a, cpu);
        check_attention(&a, &truth);
        ggml_gallocr_free(galloc);
        ggml_free(a.ctx);
    }
    ggml_backend_buffer_free(buffer);
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

static bool has_tensor(struct ggml_tensor ** list, int count, const struct ggml_tensor * t) {
    for (int i = 0; i < count; i++) {
        if (list[i] == t) {
            return true;
        }
    }
    return false;
}

// A graph of some nodes as stable-diffusion.cpp lists a segment: it writes the leafs itself, and ggml visits nothing.
static struct ggml_cgraph * listed_by_hand(struct ggml_context * ctx, struct ggml_tensor ** nodes, int count) {
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, (size_t) count + 64, false);
    for (int i = 0; i < count; i++) {
        for (int slot = 0; slot < GGML_MAX_SRC; slot++) {
            struct ggml_tensor * source = nodes[i]->src[slot];
            if (source != NULL && !has_tensor(nodes, count, source) && !has_tensor(graph->leafs, graph->n_leafs, source)) {
                graph->leafs[graph->n_leafs++] = source;
            }
        }
        ggml_graph_add_node(graph, nodes[i]);
    }
    return graph;
}

// ggml would list all that the nodes of the second segment were computed from again if it added a node to it.
CASE(graphs_that_are_listed_by_hand_stay_whole) {
    set_budget(SCORES_BUDGET);
    enum { SCALES = 200 };
    ggml_backend_t         cpu   = new_cpu(1);
    struct attention_truth truth = attention_truth_new(cpu);
    size_t                 bytes = (SCALES + 256) * ggml_tensor_overhead() + 4 * ggml_graph_overhead_custom(512, false);
    struct attention       a     = attention_behind(no_alloc_context(bytes), 512, SCALES);
    struct ggml_tensor **  nodes = a.graph->nodes;
    ggml_set_output(nodes[SCALES - 1]);
    struct ggml_cgraph * segments[] = { listed_by_hand(a.ctx, nodes, SCALES),
                                        listed_by_hand(a.ctx, nodes + SCALES, a.graph->n_nodes - SCALES) };

    struct lastuse_tiling_params params = {
        .struct_size = sizeof(params), .budget = 2200 * 1024, .buft = ggml_backend_cpu_buffer_type()
    };
    CHECK(!lastuse_graph_tile(a.ctx, segments[1], &params, NULL), "nodes were added");
    CHECK(strstr(lastuse_last_error(), "ggml_build_forward_expand") != NULL, "the error is: %s", lastuse_last_error());

    ggml_gallocr_t     gallocs[2];
    struct log_capture log;
    log_capture_start(&log);
    for (int i = 0; i < 2; i++) {
        int listed = segments[i]->n_nodes;
        gallocs[i] = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(ggml_gallocr_reserve(gallocs[i], segments[i]), "segment %d is not reserved", i);
        CHECK(ggml_gallocr_alloc_graph(gallocs[i], segments[i]), "segment %d is not allocated", i);
        CHECK(segments[i]->n_nodes == listed && !is_cut(segments[i]), "segment %d has changed", i);
        CHECK_PLAN(segments[i], "segment %d", i);
    }
    log_capture_stop();
    CHECK(count_of(&log, "not built by ggml_build_forward_expand stay whole") == 2, "not logged once for each allocator");
    attention_set_leafs(&a);
    for (int i = 0; i < 2; i++) {
        CHECK(ggml_backend_graph_compute(cpu, segments[i]) == GGML_STATUS_SUCCESS, "segment %d is not computed", i);
    }
    check_attention(&a, &truth);
    ggml_gallocr_free(gallocs[0]);
    ggml_gallocr_free(gallocs[1]);
    ggml_free(a.ctx);
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

// Segments get a better order too, and keep their bits.
CASE(graphs_that_are_listed_by_hand_are_reordered) {
    setenv("LASTUSE_REORDER", "on", 1);
    graphs_that_are_listed_by_hand_stay_whole(args);
}

// The program passes as many buffer ids as it has built nodes.
CASE(buffer_ids_of_a_graph_that_was_cut_are_not_read) {
    set_budget(SCORES_BUDGET);
    ggml_backend_buffer_type_t type   = ggml_backend_cpu_buffer_type();
    struct attention           a      = attention_new(512);
    ggml_gallocr_t             galloc = ggml_gallocr_new_n(&type, 1);
    int                        ids[512];
    for (int i = 0; i < 512; i++) {
        ids[i] = i < a.graph->n_nodes ? 0 : INT_MAX;
    }
    CHECK(ggml_gallocr_reserve_n(galloc, a.graph, ids, ids) && is_cut(a.graph), "not reserved in tiles");
    CHECK(ggml_gallocr_reserve_n(galloc, a.graph, ids, ids), "not reserved again");
    CHECK(ggml_gallocr_alloc_graph(galloc, a.graph), "not allocated");
    ggml_gallocr_free(galloc);
    ggml_free(a.ctx);
}

CASE(retained_tensors_stay_whole) {
    set_budget(SCORES_BUDGET);
    struct attention a      = attention_new(512);
    ggml_gallocr_t   galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_tensor_retain(galloc, a.scores, NULL), "%s", lastuse_last_error());
    CHECK(ggml_gallocr_alloc_graph(galloc, a.graph), "not allocated");
    CHECK(a.scores->data != NULL && a.scores->view_src == NULL, "the scores are no longer whole");
    CHECK(lastuse_tensor_release(galloc, a.scores), "%s", lastuse_last_error());
    ggml_gallocr_free(galloc);
    ggml_free(a.ctx);
}

CASE(graphs_of_a_scheduler_stay) {
    set_budget(SCORES_BUDGET);
    struct attention     a     = attention_new(512);
    ggml_backend_t       cpu   = new_cpu(1);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 512, false, false);
    int                  nodes = a.graph->n_nodes;
    CHECK(ggml_backend_sched_reserve(sched, a.graph), "not reserved");
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, a.graph), "not allocated");
    CHECK(a.graph->n_nodes == nodes && a.scores->data != NULL, "the graph has changed");
    CHECK(ggml_backend_sched_get_buffer_size(sched, cpu) > 2 * 1024 * 1024, "the copy was cut");
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
    ggml_free(a.ctx);
}

CASE(views_of_graphs_stay) {
    set_budget(SCORES_BUDGET);
    struct attention   a      = attention_new(512);
    struct ggml_cgraph part   = ggml_graph_view(a.graph, 0, a.graph->n_nodes);
    ggml_gallocr_t     galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, &part) && !is_cut(a.graph), "the graph has changed");
    ggml_gallocr_free(galloc);
    ggml_free(a.ctx);
}

CASE(measuring_gives_the_size_that_is_reserved) {
    set_budget(SCORES_BUDGET);
    struct attention           a      = attention_new(512);
    ggml_backend_buffer_type_t type   = ggml_backend_cpu_buffer_type();
    ggml_gallocr_t             galloc = ggml_gallocr_new(type);
    size_t                     size, lower;
    CHECK(lastuse_graph_measure(&a.graph, 1, &type, 1, NULL, NULL, &size, &lower), "not measured");
    CHECK(!is_cut(a.graph) && size <= 2200 * 1024, "measuring changes the graph, or finds %zu bytes", size);
    CHECK(ggml_gallocr_reserve(galloc, a.graph), "not reserved");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == size && lower_bound_of(galloc, 0) == lower,
          "%zu bytes, measured %zu", ggml_gallocr_get_buffer_size(galloc, 0), size);
    ggml_gallocr_free(galloc);
    ggml_free(a.ctx);
}

// The least that can be met is logged, once, and used.
CASE(budgets_that_cannot_be_met_are_logged_once) {
    set_budget("1");
    ggml_backend_t              cpu    = new_cpu(1);
    struct attention_truth      truth  = attention_truth_new(cpu);
    struct attention            given  = attention_new(512);
    struct lastuse_tiling_report report = reached(given.ctx, given.graph, 1);
    struct log_capture          log;
    char                        least[64];
    snprintf(least, sizeof(least), "%zu bytes are the least", report.size_after);
    log_capture_start(&log);
    for (int i = 0; i < 3; i++) {
        struct attention a      = attention_new(512);
        ggml_gallocr_t   galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(ggml_gallocr_reserve(galloc, a.graph) && ggml_gallocr_alloc_graph(galloc, a.graph), "not allocated");
        CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == report.size_after, "%zu bytes, not %zu",
              ggml_gallocr_get_buffer_size(galloc, 0), report.size_after);
        attention_run(&a, cpu);
        check_attention(&a, &truth);
        ggml_gallocr_free(galloc);
        ggml_free(a.ctx);
    }
    log_capture_stop();
    CHECK(count_of(&log, "LASTUSE_BUDGET") == 1 && count_of(&log, least) == 1, "%d lines", count_of(&log, "LASTUSE_BUDGET"));
    ggml_free(given.ctx);
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

// A graph without room for the parts is cut as far as there is room.
CASE(graphs_are_cut_as_far_as_they_have_room) {
    set_budget("1");
    ggml_backend_t         cpu   = new_cpu(1);
    struct attention_truth truth = attention_truth_new(cpu);
    size_t                 sizes[3];
    size_t                 rooms[] = { 7, 40, 512 };
    struct log_capture     log;
    log_capture_start(&log);
    for (int i = 0; i < 3; i++) {
        struct attention a      = attention_new(rooms[i]);
        ggml_gallocr_t   galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(ggml_gallocr_alloc_graph(galloc, a.graph), "not allocated");
        CHECK(a.graph->n_nodes <= a.graph->size, "%d nodes in room for %d", a.graph->n_nodes, a.graph->size);
        CHECK_PLAN(a.graph, "room for %zu nodes", rooms[i]);
        sizes[i] = ggml_gallocr_get_buffer_size(galloc, 0);
        attention_run(&a, cpu);
        check_attention(&a, &truth);
        ggml_gallocr_free(galloc);
        ggml_free(a.ctx);
    }
    log_capture_stop();
    CHECK(sizes[0] > sizes[1] && sizes[1] > sizes[2], "%zu, %zu and %zu bytes", sizes[0], sizes[1], sizes[2]);
    CHECK(count_of(&log, "LASTUSE_BUDGET: no graph was found that fits 1 bytes") == 3, "not logged for each size");
    CHECK(count_of(&log, "has room in the 40 nodes") == 1, "the nodes are not named");
    attention_truth_free(truth);
    ggml_backend_free(cpu);
}

CASE(malformed_budgets_have_no_effect) {
    set_budget("much");
    struct log_capture log;
    struct attention   a = attention_new(512);
    log_capture_start(&log);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    log_capture_stop();
    CHECK(log_capture_has(&log, "LASTUSE_BUDGET has no effect: \"much\" is not a budget"), "not logged");
    CHECK(ggml_gallocr_alloc_graph(galloc, a.graph) && !is_cut(a.graph), "cut without a budget");
    ggml_gallocr_free(galloc);
    ggml_free(a.ctx);
}

// With LASTUSE_REORDER, parts are in the order that was found for the given nodes.
CASE(budgets_and_orders_work_together) {
    setenv("LASTUSE_REORDER", "on", 1);
    compare_large_graphs(args, IN_ANOTHER_ORDER);
}
