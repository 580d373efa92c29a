// runs: ggml-0.26
//
// Graphs in another order: the results must be equal to the last bit, in memory that lastuse planned for the new order,
// and so must the values that they write into their own memory.
//
//   reorder_by_call <case> [first seed] [number of seeds]

#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "computing.h"
#include "ggml-cpu.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "own_memory.h"
#include "plan_check.h"
#include "random_graph.h"
#include "reports.h"
#include "training.h"
#include "transformer.h"
#include "upstream.h"

static ggml_gallocr_t allocate(struct ggml_cgraph * graph) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    CHECK_PLAN(graph, "%s", "after reordering");
    return galloc;
}

static bool reorder(struct ggml_cgraph * graph, struct lastuse_reorder_report * report) {
    *report = (struct lastuse_reorder_report){ .struct_size = sizeof(*report) };
    struct ggml_tensor * last    = graph->n_nodes > 0 ? graph->nodes[graph->n_nodes - 1] : NULL;
    bool                 changed = is_reordered(graph, ggml_backend_cpu_buffer_type(), 0, report);
    CHECK(changed == ((int) report->nodes_moved > 0), "%d nodes moved", (int) report->nodes_moved);
    CHECK(changed == (report->lower_bound_after < report->lower_bound_before), "the bound is %zu after %zu",
          report->lower_bound_after, report->lower_bound_before);
    CHECK(report->size_after <= report->size_before, "the plan has grown to %zu", report->size_after);
    CHECK(last == NULL || graph->nodes[graph->n_nodes - 1] == last, "the last node is another");
    return changed;
}

// The report has the size that the allocator then needs.
static void check_report(ggml_gallocr_t galloc, struct lastuse_reorder_report report) {
    size_t bound = lower_bound_of(galloc, 0);
    CHECK(report.lower_bound_after == bound, "the bound is %zu, not %zu", bound, report.lower_bound_after);
    size_t size = plan_size_of(galloc, 0);
    CHECK(report.size_after == size, "the size is %zu, not %zu", size, report.size_after);
}

// Computes the graph as it was built, and in its new order. Returns whether they differ.
static bool compare_random_graph(ggml_backend_t cpu, long long seed, struct random_graph_options options) {
    struct random_graph           given = random_graph_new((uint64_t) seed, options);
    struct random_graph           moved = random_graph_new((uint64_t) seed, options);
    struct lastuse_reorder_report report;
    bool                          changed = reorder(moved.graph, &report);
    ggml_gallocr_t                first   = allocate(given.graph);
    ggml_gallocr_t                second  = allocate(moved.graph);
    check_report(second, report);
    random_graph_set_data(&given);
    random_graph_set_data(&moved);
    CHECK(ggml_backend_graph_compute(cpu, given.graph) == GGML_STATUS_SUCCESS, "seed %lld", seed);
    CHECK(ggml_backend_graph_compute(cpu, moved.graph) == GGML_STATUS_SUCCESS, "seed %lld", seed);
    check_same_lists(moved.outputs, given.outputs, (uint64_t) seed);
    check_same_lists(moved.weights, given.weights, (uint64_t) seed);
    ggml_gallocr_free(first);
    ggml_gallocr_free(second);
    random_graph_free(&given);
    random_graph_free(&moved);
    return changed;
}

static void run_random_graphs(struct case_args args, long long count, int n_threads,
                              struct random_graph_options options) {
    ggml_backend_t cpu     = new_cpu(n_threads);
    struct seeds   seeds = seeds_from(args, count);
    int            changed = 0;
    FOR_SEEDS(seed, seeds) {
        changed += compare_random_graph(cpu, seed, options);
    }
    CHECK(changed * 10 > seeds.count || seeds.count < 20, "only %d of %lld graphs were changed", changed, seeds.count);
    ggml_backend_free(cpu);
}

CASE_OF(random_graphs, run_random_graphs(args, 500, 1, (struct random_graph_options){ 0 }))

// Fewer graphs: the threads spend most of their time waiting for one another.
CASE_OF(random_graphs_in_threads, run_random_graphs(args, 30, 2, (struct random_graph_options){ 0 }))
CASE_OF(large_random_graphs, run_random_graphs(args, 20, 1, (struct random_graph_options){ .n_steps = 200 }))
CASE_OF(random_graphs_with_output_views,
        run_random_graphs(args, 200, 1, (struct random_graph_options){ .output_views = true }))

CASE(alternatives) {
    struct random_graph_options options = { .alternatives = true };
    ggml_backend_t              cpu     = new_cpu(1);
    for (long long seed = 1; seed <= case_number(args, 0, 200); seed++) {
        compare_random_graph(cpu, seed, options);
    }
    ggml_backend_free(cpu);
}

// Nodes that the scheduler inserts are not moved, so fewer graphs change.
CASE(markers) {
    struct random_graph_options options = { .markers = true };
    ggml_backend_t              cpu     = new_cpu(1);
    for (long long seed = 1; seed <= case_number(args, 0, 200); seed++) {
        compare_random_graph(cpu, seed, options);
    }
    ggml_backend_free(cpu);
}

// Graphs with the nodes that the scheduler adds. They can be planned, not computed.
static void plan_random_graphs(long long count, struct random_graph_options options) {
    for (long long seed = 1; seed <= count; seed++) {
        struct random_graph           g = random_graph_new((uint64_t) seed, options);
        struct lastuse_reorder_report report;
        reorder(g.graph, &report);
        ggml_gallocr_t galloc = allocate(g.graph);
        check_report(galloc, report);
        ggml_gallocr_free(galloc);
        random_graph_free(&g);
    }
}

CASE(what_the_scheduler_adds) {
    long long count = case_number(args, 0, 150);
    plan_random_graphs(count, (struct random_graph_options){ .unlisted_leafs = true });
    plan_random_graphs(count, (struct random_graph_options){ .markers = true, .early_markers = true });
    plan_random_graphs(count, (struct random_graph_options){ .markers = true, .split_copies = true });
}

static void check_same_training(const struct training * a, const struct training * b) {
    check_same_bytes(a->loss, b->loss, (uint64_t) 0);
    for (int i = 0; i < TRAINING_WEIGHTS; i++) {
        check_same_bytes(a->weights[i], b->weights[i], (uint64_t) i);
        check_same_bytes(a->moments[0][i], b->moments[0][i], (uint64_t) i);
        check_same_bytes(a->moments[1][i], b->moments[1][i], (uint64_t) i);
    }
}

static void compare_training(int n_threads) {
    ggml_backend_t                cpu   = new_cpu(n_threads);
    struct training               given = training_new();
    struct training               moved = training_new();
    struct lastuse_reorder_report report;
    CHECK(reorder(moved.graph, &report), "the order of the training graph stays");
    CHECK(report.lower_bound_after * 2 < report.lower_bound_before, "the bound is %zu after %zu",
          report.lower_bound_after, report.lower_bound_before);
    ggml_gallocr_t first  = allocate(given.graph);
    ggml_gallocr_t second = allocate(moved.graph);
    check_report(second, report);
    training_set_data(&given);
    training_set_data(&moved);
    training_run(&given, cpu, 3);
    training_run(&moved, cpu, 3);
    check_same_training(&moved, &given);
    printf("training graph of %d nodes: lower bound %zu, then %zu; %d nodes moved\n", given.graph->n_nodes,
           report.lower_bound_before, report.lower_bound_after, (int) report.nodes_moved);
    ggml_gallocr_free(first);
    ggml_gallocr_free(second);
    training_free(&given);
    training_free(&moved);
    ggml_backend_free(cpu);
}

CASE(training_graph) {
    compare_training(1);
}

CASE(training_graph_in_threads) {
    compare_training(2);
}

static void run_by_scheduler(ggml_backend_sched_t sched, struct training * t) {
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, t->graph), "not allocated");
    training_set_data(t);
    training_set_inputs(t);
    CHECK(ggml_backend_sched_graph_compute(sched, t->graph) == GGML_STATUS_SUCCESS, "not computed");
}

CASE(scheduler_runs_the_new_order) {
    // The reported size is that in an allocator that the program uses itself, which keeps inputs.
    CHECK(lastuse_set("rules", "keep-inputs"), "%s", lastuse_last_error());
    ggml_backend_t                cpu    = new_cpu(1);
    ggml_backend_sched_t          first  = ggml_backend_sched_new(&cpu, NULL, 1, 2048, false, false);
    ggml_backend_sched_t          second = ggml_backend_sched_new(&cpu, NULL, 1, 2048, false, false);
    struct training               given  = training_new();
    struct training               moved  = training_new();
    struct lastuse_reorder_report report;
    CHECK(reorder(moved.graph, &report), "the order stays");
    run_by_scheduler(first, &given);
    run_by_scheduler(second, &moved);
    check_same_training(&moved, &given);
    CHECK(ggml_backend_sched_get_buffer_size(second, cpu) == report.size_after, "another size than was reported");
    ggml_backend_sched_free(first);
    ggml_backend_sched_free(second);
    training_free(&given);
    training_free(&moved);
    ggml_backend_free(cpu);
}

// Graphs made by hand: another order would be smaller but is not allowed

#define ROW 256

struct parts {
    struct built         b;
    struct ggml_tensor * x;
};

static struct parts parts_new(void) {
    struct parts p = { .b = built_new(128, 1 << 20) };
    p.x            = new_input(p.b.ctx, ROW, 4);
    return p;
}

// A large tensor and its only reader, which has a small result.
static struct ggml_tensor * expand(struct parts p, struct ggml_tensor * x) {
    return ggml_repeat_4d(p.b.ctx, x, x->ne[0], x->ne[1] * 8, 1, 1);
}

static struct ggml_tensor * reduce(struct parts p, struct ggml_tensor * x) {
    return ggml_sum(p.b.ctx, ggml_sqr(p.b.ctx, x));
}

static int place_of(const struct ggml_cgraph * graph, const struct ggml_tensor * tensor) {
    int place = 0;
    while (place < graph->n_nodes && graph->nodes[place] != tensor) {
        place++;
    }
    return place;
}

// Two large results are both computed before either is reduced: `between` is put between the second
// and the reduction of the first.
static struct ggml_tensor * two_branches(struct parts p, struct ggml_tensor * between, struct ggml_tensor * first,
                                         struct ggml_tensor * second) {
    ggml_build_forward_expand(p.b.graph, first);
    ggml_build_forward_expand(p.b.graph, second);
    if (between != NULL) {
        ggml_build_forward_expand(p.b.graph, between);
    }
    struct ggml_tensor * end = ggml_add(p.b.ctx, reduce(p, first), reduce(p, second));
    ggml_build_forward_expand(p.b.graph, end);
    return end;
}

CASE(two_branches_run_one_after_the_other) {
    struct parts         p      = parts_new();
    struct ggml_tensor * first  = expand(p, p.x);
    struct ggml_tensor * second = expand(p, ggml_scale(p.b.ctx, p.x, 2.0f));
    two_branches(p, NULL, first, second);
    struct lastuse_reorder_report report;
    CHECK(reorder(p.b.graph, &report), "the order stays");
    struct ggml_tensor * sum = p.b.graph->nodes[p.b.graph->n_nodes - 1]->src[0];
    CHECK(place_of(p.b.graph, sum) < place_of(p.b.graph, second), "the first is reduced late");
    CHECK(!reorder(p.b.graph, &report), "a better order yet");
    built_free(p.b);
}

static int  custom_calls;
static void custom(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user) {
    (void) nth;
    (void) user;
    custom_calls += ith == 0;
    memcpy(dst->data, a->data, ggml_nbytes(dst));
}

CASE(nothing_passes_a_function_of_the_program) {
    struct parts         p      = parts_new();
    struct ggml_tensor * first  = expand(p, p.x);
    struct ggml_tensor * second = expand(p, ggml_scale(p.b.ctx, p.x, 2.0f));
    two_branches(p, ggml_map_custom1(p.b.ctx, ggml_sqr(p.b.ctx, p.x), custom, 1, NULL), first, second);
    struct lastuse_reorder_report report;
    CHECK(!reorder(p.b.graph, &report), "%d nodes have moved", (int) report.nodes_moved);
    built_free(p.b);
}

// The result of the second branch is written where the reduction of the first reads through `alias`, so both large
// tensors must be live at once. Without the alias the first could be reduced before.
static void check_write_stays(struct ggml_tensor * (*alias)(struct parts p, struct ggml_tensor * kept), bool moves) {
    struct parts         p      = parts_new();
    struct ggml_tensor * kept   = ggml_new_tensor_1d(p.b.weights, GGML_TYPE_F32, ROW);
    struct ggml_tensor * other  = alias(p, kept);
    struct ggml_tensor * first  = expand(p, p.x);
    struct ggml_tensor * second = expand(p, ggml_scale(p.b.ctx, p.x, 2.0f));
    struct ggml_tensor * row    = ggml_view_1d(p.b.ctx, second, ROW, 0);
    struct ggml_tensor * write  = ggml_cpy(p.b.ctx, row, kept);
    ggml_build_forward_expand(p.b.graph, first);
    ggml_build_forward_expand(p.b.graph, write);
    struct ggml_tensor * read = ggml_mul(p.b.ctx, first, other);
    struct ggml_tensor * end  = reduce(p, ggml_mul(p.b.ctx, second, reduce(p, read)));
    ggml_build_forward_expand(p.b.graph, end);
    struct lastuse_reorder_report report;
    CHECK(reorder(p.b.graph, &report) == moves, "%d nodes have moved", (int) report.nodes_moved);
    bool overtakes = place_of(p.b.graph, read) < place_of(p.b.graph, write);
    CHECK(overtakes == moves, "the read is at %d, the write at %d", place_of(p.b.graph, read),
          place_of(p.b.graph, write));
    built_free(p.b);
}

static struct ggml_tensor * itself(struct parts p, struct ggml_tensor * kept) {
    (void) p;
    return kept;
}

static struct ggml_tensor * a_view(struct parts p, struct ggml_tensor * kept) {
    return ggml_view_1d(p.b.ctx, kept, ROW, 0);
}

// Not a view: the program has set its address to the middle of the other.
static struct ggml_tensor * overlapping(struct parts p, struct ggml_tensor * kept) {
    struct ggml_tensor * other = ggml_new_tensor_1d(p.b.weights, GGML_TYPE_F32, ROW);
    other->data                = (char *) kept->data + ggml_nbytes(kept) / 2;
    return other;
}

static struct ggml_tensor * unrelated(struct parts p, struct ggml_tensor * kept) {
    (void) kept;
    return ggml_new_tensor_1d(p.b.weights, GGML_TYPE_F32, ROW);
}

CASE(writes_stay_before_reads) {
    check_write_stays(itself, false);
    check_write_stays(a_view, false);
}

CASE(overlapping_tensors_are_one) {
    check_write_stays(overlapping, false);
    check_write_stays(unrelated, true);
}

CASE(little_to_reorder) {
    struct built                  b = built_new(16, 1024);
    struct lastuse_reorder_report report;
    CHECK(!reorder(b.graph, &report) && report.lower_bound_before == 0, "an empty graph has changed");
    ggml_build_forward_expand(b.graph, new_input(b.ctx, 16, 1));
    CHECK(!reorder(b.graph, &report), "a graph of a leaf has changed");
    ggml_build_forward_expand(b.graph, ggml_sqr(b.ctx, b.graph->leafs[0]));
    CHECK(!reorder(b.graph, &report), "a graph of a node has changed");
    CHECK(report.lower_bound_before == 64 && report.size_after == 64, "it needs %zu", report.size_after);
    b.graph->nodes[b.graph->n_nodes++] = b.graph->nodes[0];
    CHECK(!reorder(b.graph, &report), "a graph that lists its node twice has changed");
    built_free(b);
}

CASE(report_and_type_may_be_missing) {
    struct training first  = training_new();
    struct training second = training_new();
    CHECK(is_reordered(first.graph, NULL, 0, NULL), "the order stays");
    CHECK(is_reordered(second.graph, ggml_backend_cpu_buffer_type(), 0, NULL), "the order stays");
    for (int i = 0; i < first.graph->n_nodes; i++) {
        struct ggml_tensor * a = first.graph->nodes[i];
        struct ggml_tensor * b = second.graph->nodes[i];
        CHECK(strcmp(a->name, b->name) == 0, "%d is %s, and %s", i, a->name, b->name);
    }
    training_free(&first);
    training_free(&second);
}

CASE(effort_is_a_limit) {
    struct training t = training_new();
    CHECK(!is_reordered(t.graph, NULL, 1, NULL), "with an effort of one node the order changed");
    CHECK(is_reordered(t.graph, NULL, 1000000, NULL), "the order stays");
    training_free(&t);
}

// A program reserves for one graph and runs another one that is built in the same way.
CASE(graphs_built_alike_get_the_same_order) {
    struct training               first = training_new();
    struct training               other = training_new();
    struct lastuse_reorder_report report;
    CHECK(reorder(first.graph, &report) && reorder(other.graph, &report), "the order stays");
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, first.graph), "not reserved");
    uint64_t plans = plans_made();
    CHECK(ggml_gallocr_alloc_graph(galloc, other.graph), "not allocated");
    CHECK(plans_made() == plans, "the reserved plan was not used");
    ggml_gallocr_free(galloc);
    training_free(&first);
    training_free(&other);
}
