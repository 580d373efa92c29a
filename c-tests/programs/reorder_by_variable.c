// runs: ggml-0.26 ggml-0.9.5 LASTUSE_REORDER=on
//
// LASTUSE_REORDER: graphs of a program that knows nothing of it get a better order when they are reserved. Results must
// be equal to the last bit, buffer ids must follow the nodes, and everything outside the program's graph must stay as
// it is.
//
//   reorder_by_variable <case> [first seed] [number of seeds]

#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "own_memory.h"
#include "plan_check.h"
#include "random_graph.h"
#include "reports.h"
#include "transformer.h"

#define ALIGNMENT 64

// The nodes of a graph at some time.
struct order {
    int                   count;
    struct ggml_tensor ** nodes;
};

static struct order order_of(const struct ggml_cgraph * graph) {
    struct order order = { .count = graph->n_nodes };
    order.nodes        = malloc(sizeof(order.nodes[0]) * (size_t) (order.count + 1));
    CHECK(order.nodes != NULL, "out of memory");
    memcpy(order.nodes, graph->nodes, sizeof(order.nodes[0]) * (size_t) order.count);
    return order;
}

static int step_of(struct order order, const struct ggml_tensor * node) {
    int step = 0;
    while (step < order.count && order.nodes[step] != node) {
        step++;
    }
    CHECK(step < order.count, "%s is not a node of the graph", node->name);
    return step;
}

// Returns whether the nodes of `graph` have moved; they must be the ones of `before`, the last one last.
static bool has_moved(const struct ggml_cgraph * graph, struct order before) {
    bool moved = false;
    CHECK(graph->n_nodes == before.count, "%d nodes became %d", before.count, graph->n_nodes);
    for (int i = 0; i < before.count; i++) {
        step_of(before, graph->nodes[i]);
        moved = moved || graph->nodes[i] != before.nodes[i];
    }
    CHECK(before.count == 0 || graph->nodes[before.count - 1] == before.nodes[before.count - 1], "another last node");
    return moved;
}

// Two graphs that were built alike have their nodes in one order.
static void check_same_order(const struct ggml_cgraph * a, struct order built_a, const struct ggml_cgraph * b,
                             struct order built_b, long long seed) {
    for (int i = 0; i < built_a.count; i++) {
        CHECK(step_of(built_a, a->nodes[i]) == step_of(built_b, b->nodes[i]), "seed %lld: node %d differs", seed, i);
    }
}

// A program reserves for one graph, and computes another that it builds in the same way, twice. Returns whether nodes moved.
static bool compare_random_graph(ggml_backend_t cpu, long long seed, struct random_graph_options options) {
    struct random_graph   truth    = random_graph_new((uint64_t) seed, options);
    struct random_graph   reserved = random_graph_new((uint64_t) seed, options);
    struct random_graph   used     = random_graph_new((uint64_t) seed, options);
    ggml_backend_buffer_t memory   = compute_in_own_memory(cpu, &truth);
    struct order          first    = order_of(reserved.graph);
    struct order          second   = order_of(used.graph);

    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    size_t         size;
    ggml_gallocr_reserve_n_size(galloc, reserved.graph, NULL, NULL, &size);
    CHECK(!has_moved(reserved.graph, first), "seed %lld: measuring moves nodes", seed);
    CHECK(ggml_gallocr_reserve(galloc, reserved.graph), "seed %lld: not reserved", seed);
    bool moved = has_moved(reserved.graph, first);
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == size, "seed %lld: measured %zu", seed, size);
    CHECK(ggml_gallocr_alloc_graph(galloc, used.graph), "seed %lld: not allocated", seed);
    CHECK(has_moved(used.graph, second) == moved, "seed %lld: one graph is moved", seed);
    check_same_order(reserved.graph, first, used.graph, second, seed);
    CHECK_PLAN(used.graph, "seed %lld", seed);
    compute_graph(cpu, &used);
    // In the order in which they were listed at first, as those of `truth` are.
    check_same_lists(used.outputs, truth.outputs, (uint64_t) seed);
    check_same_lists(used.weights, truth.weights, (uint64_t) seed);

    struct order now = order_of(used.graph);
    random_graph_drop_memory(&used);
    CHECK(ggml_gallocr_alloc_graph(galloc, used.graph), "seed %lld: not allocated again", seed);
    CHECK(!has_moved(used.graph, now), "seed %lld: nodes move a second time", seed);
    CHECK(ggml_gallocr_reserve(galloc, reserved.graph), "seed %lld: not reserved again", seed);
    check_same_order(reserved.graph, first, used.graph, second, seed);

    // The setting reaches the bytes that lastuse_graph_reorder reports for a graph that has not been moved.
    size_t                        lower  = lower_bound_of(galloc, 0);
    struct random_graph           other  = random_graph_new((uint64_t) seed, options);
    struct lastuse_reorder_report report = { .struct_size = sizeof(report) };
    CHECK(is_reordered(other.graph, ggml_backend_cpu_buffer_type(), 0, &report) == moved, "seed %lld", seed);
    CHECK(report.lower_bound_after == lower, "seed %lld: the bound is %zu, not %zu", seed, lower,
          report.lower_bound_after);
    random_graph_free(&other);

    ggml_gallocr_free(galloc);
    free(now.nodes);
    free(first.nodes);
    free(second.nodes);
    random_graph_free(&reserved);
    random_graph_free(&used);
    ggml_backend_buffer_free(memory);
    random_graph_free(&truth);
    return moved;
}

CASE(random_graphs_are_computed_in_the_order_reserved) {
    ggml_backend_t cpu   = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 300);
    int            moved = 0;
    FOR_SEEDS(seed, seeds) {
        moved += compare_random_graph(cpu, seed, (struct random_graph_options){ 0 });
    }
    CHECK(moved * 10 > seeds.count || seeds.count < 20, "only %d of %lld graphs were changed", moved, seeds.count);
    ggml_backend_free(cpu);
}

// Without reservation: one buffer, and the first graph is planned when it is allocated.
CASE(random_graphs_are_ordered_when_they_are_allocated) {
    ggml_backend_t cpu   = new_cpu(1);
    long long      first = case_number(args, 0, 1000);
    long long      count = case_number(args, 1, 100);
    int            moved = 0;
    for (long long seed = first; seed < first + count; seed++) {
        struct random_graph   truth  = random_graph_new((uint64_t) seed, (struct random_graph_options){ 0 });
        struct random_graph   used   = random_graph_new((uint64_t) seed, (struct random_graph_options){ 0 });
        ggml_backend_buffer_t memory = compute_in_own_memory(cpu, &truth);
        struct order          before = order_of(used.graph);
        ggml_gallocr_t        galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(ggml_gallocr_alloc_graph(galloc, used.graph), "seed %lld: not allocated", seed);
        moved += has_moved(used.graph, before);
        compute_graph(cpu, &used);
        check_same_lists(used.outputs, truth.outputs, (uint64_t) seed);
        check_same_lists(used.weights, truth.weights, (uint64_t) seed);
        ggml_gallocr_free(galloc);
        free(before.nodes);
        random_graph_free(&used);
        ggml_backend_buffer_free(memory);
        random_graph_free(&truth);
    }
    CHECK(moved * 10 > count || count < 20, "only %d of %lld graphs were changed", moved, count);
    ggml_backend_free(cpu);
}

static bool is_in_place(const struct ggml_tensor * node) {
    for (int i = 0; i < GGML_MAX_SRC && node->src[i] != NULL; i++) {
        if (node->src[i]->buffer == node->buffer && node->src[i]->data == node->data) {
            return true;
        }
    }
    return false;
}

// Each node that has memory of the allocator lies in the buffer that was requested for it, or in place of a source.
static void check_buffers(const struct ggml_cgraph * graph, struct order built, const int * ids,
                          ggml_backend_buffer_type_t * types, long long seed) {
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor * node = graph->nodes[i];
        if (node->view_src == NULL && node->buffer != NULL && ggml_nbytes(node) > 0 && !is_in_place(node)) {
            ggml_backend_buffer_type_t found = ggml_backend_buffer_get_type(node->buffer);
            bool                       ours  = found == types[0] || found == types[1];
            CHECK(!ours || found == types[ids[step_of(built, node)]], "seed %lld: %s is in another buffer", seed,
                  node->name);
        }
    }
}

// The ids of the nodes where they are now.
static int * ids_now(const struct ggml_cgraph * graph, struct order built, const int * ids) {
    int * now = malloc(sizeof(now[0]) * (size_t) (graph->n_nodes + 1));
    CHECK(now != NULL, "out of memory");
    for (int i = 0; i < graph->n_nodes; i++) {
        now[i] = ids[step_of(built, graph->nodes[i])];
    }
    return now;
}

// `again`: the program reserves twice, with the ids that it has (1) or with those of the nodes that it finds (2).
static bool compare_with_ids(ggml_backend_t cpu, long long seed, int again) {
    struct random_graph_options options = { .n_buffers = 2 };
    struct random_graph         truth   = random_graph_new((uint64_t) seed, options);
    struct random_graph         used    = random_graph_new((uint64_t) seed, options);
    ggml_backend_buffer_t       memory  = compute_in_own_memory(cpu, &truth);
    struct order                built   = order_of(used.graph);
    struct dummy_pair           pair;
    dummy_pair_init(&pair, ALIGNMENT);
    ggml_gallocr_t galloc = ggml_gallocr_new_n(pair.types, 2);
    CHECK(ggml_gallocr_reserve_n(galloc, used.graph, used.node_buffer_ids, used.leaf_buffer_ids), "not reserved");
    bool moved = has_moved(used.graph, built);
    if (again > 0) {
        uint64_t plans = plans_made();
        int *    now   = ids_now(used.graph, built, used.node_buffer_ids);
        int *    ids   = again == 1 ? used.node_buffer_ids : now;
        CHECK(ggml_gallocr_reserve_n(galloc, used.graph, ids, used.leaf_buffer_ids), "not reserved again");
        CHECK(plans_made() == plans, "seed %lld: planned again", seed);
        free(now);
    }
    CHECK(ggml_gallocr_alloc_graph(galloc, used.graph), "seed %lld: not allocated", seed);
    CHECK_PLAN(used.graph, "seed %lld", seed);
    check_buffers(used.graph, built, used.node_buffer_ids, pair.types, seed);
    compute_graph(cpu, &used);
    check_same_lists(used.outputs, truth.outputs, (uint64_t) seed);
    check_same_lists(used.weights, truth.weights, (uint64_t) seed);
    ggml_gallocr_free(galloc);
    free(built.nodes);
    random_graph_free(&used);
    ggml_backend_buffer_free(memory);
    random_graph_free(&truth);
    return moved;
}

CASE(buffer_ids_follow_their_nodes) {
    ggml_backend_t cpu   = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 150);
    int            moved = 0;
    FOR_SEEDS(seed, seeds) {
        moved += compare_with_ids(cpu, seed, (int) (seed % 3));
    }
    CHECK(moved * 20 > seeds.count || seeds.count < 20, "only %d of %lld graphs were changed", moved, seeds.count);
    ggml_backend_free(cpu);
}

// Two wide results, which another order reduces one after the other.
struct branches {
    struct built         b;
    struct ggml_tensor * wide[2];
    struct ggml_tensor * end;
};

static struct branches branches_new(int64_t rows) {
    struct branches      w = { .b = built_new(64, 1 << 20) };
    struct ggml_tensor * x = new_input(w.b.ctx, 64, rows);
    for (int i = 0; i < 2; i++) {
        w.wide[i] = ggml_repeat_4d(w.b.ctx, ggml_scale(w.b.ctx, x, (float) (i + 1)), 64, rows * 8, 1, 1);
        ggml_build_forward_expand(w.b.graph, w.wide[i]);
    }
    w.end = ggml_add(w.b.ctx, ggml_sum(w.b.ctx, ggml_sqr(w.b.ctx, w.wide[0])),
                     ggml_sum(w.b.ctx, ggml_sqr(w.b.ctx, w.wide[1])));
    ggml_set_output(w.end);
    ggml_build_forward_expand(w.b.graph, w.end);
    return w;
}

// The first is reduced before the second is computed.
static bool runs_in_turn(struct branches w) {
    struct order order = order_of(w.b.graph);
    bool         found = step_of(order, w.end->src[0]) < step_of(order, w.wide[1]);
    free(order.nodes);
    return found;
}

CASE(other_sizes_get_the_order_that_was_reserved) {
    struct branches large  = branches_new(100);
    struct branches near   = branches_new(90);
    struct branches small  = branches_new(9);
    ggml_gallocr_t  galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(!runs_in_turn(large) && !runs_in_turn(near) && !runs_in_turn(small), "there is nothing to move");
    CHECK(ggml_gallocr_reserve(galloc, large.b.graph), "not reserved");
    CHECK(runs_in_turn(large), "the order stays");
    uint64_t plans = plans_made();
    CHECK(ggml_gallocr_alloc_graph(galloc, near.b.graph), "not allocated");
    CHECK(runs_in_turn(near), "the order of the smaller graph stays");
    CHECK(plans_made() == plans, "the reserved plan was not used");
    CHECK_PLAN(near.b.graph, "%s", "the smaller graph");
    // It has its own plan, for that order.
    CHECK(ggml_gallocr_alloc_graph(galloc, small.b.graph), "not allocated");
    CHECK(runs_in_turn(small), "the order of the smallest graph stays");
    CHECK(plans_made() == plans + 1, "the smallest graph has no separate plan");
    CHECK_PLAN(small.b.graph, "%s", "the smallest graph");
    ggml_gallocr_free(galloc);
    built_free(large.b);
    built_free(near.b);
    built_free(small.b);
}

// Alike, but one of them writes memory that the other branch reads: the order that was found is wrong for it.
CASE(an_order_that_breaks_a_hazard_is_not_taken) {
    struct built         room   = built_new(8, 1 << 16);
    struct ggml_tensor * other  = ggml_new_tensor_1d(room.weights, GGML_TYPE_F32, 16);
    struct ggml_tensor * kept   = ggml_new_tensor_1d(room.weights, GGML_TYPE_F32, 16);
    ggml_gallocr_t       galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct ggml_tensor * read[2];
    struct built         graphs[2];
    for (int i = 0; i < 2; i++) {
        // In the second graph the tensor that is read has the memory that is written before.
        struct ggml_tensor * source = ggml_new_tensor_1d(room.weights, GGML_TYPE_F32, 16);
        source->data                = i == 0 ? other->data : kept->data;
        source->buffer              = kept->buffer;
        struct built         b      = built_new(64, 1 << 16);
        struct ggml_tensor * x      = new_input(b.ctx, 64, 16);
        struct ggml_tensor * wide   = ggml_repeat_4d(b.ctx, x, 64, 128, 1, 1);
        struct ggml_tensor * second = ggml_repeat_4d(b.ctx, ggml_scale(b.ctx, x, 2.0f), 64, 128, 1, 1);
        ggml_build_forward_expand(b.graph, wide);
        struct ggml_tensor * row = ggml_view_1d(b.ctx, second, 16, 0);
        ggml_build_forward_expand(b.graph, ggml_cpy(b.ctx, row, kept));
        read[i] = ggml_sum(b.ctx, ggml_mul(b.ctx, ggml_view_1d(b.ctx, wide, 16, 64), source));
        ggml_build_forward_expand(b.graph, ggml_add(b.ctx, read[i], ggml_sum(b.ctx, second)));
        graphs[i] = b;
    }
    struct order built[2] = { order_of(graphs[0].graph), order_of(graphs[1].graph) };
    CHECK(ggml_gallocr_reserve(galloc, graphs[0].graph), "not reserved");
    CHECK(has_moved(graphs[0].graph, built[0]), "there is nothing to move");
    CHECK(ggml_gallocr_alloc_graph(galloc, graphs[1].graph), "not allocated");
    CHECK(!has_moved(graphs[1].graph, built[1]), "a node reads before another writes");
    ggml_gallocr_free(galloc);
    for (int i = 0; i < 2; i++) {
        free(built[i].nodes);
        built_free(graphs[i]);
    }
    built_free(room);
}

CASE(graphs_of_a_scheduler_stay) {
    struct branches      w     = branches_new(100);
    struct order         built = order_of(w.b.graph);
    ggml_backend_t       cpu   = new_cpu(1);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 256, false, false);
    CHECK(ggml_backend_sched_reserve(sched, w.b.graph), "not reserved");
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, w.b.graph), "not allocated");
    CHECK(!has_moved(w.b.graph, built), "the order has changed");
    // Both wide results are live at a time in the order as given.
    CHECK(ggml_backend_sched_get_buffer_size(sched, cpu) > 2 * ggml_nbytes(w.wide[0]), "the copy was reordered");
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
    free(built.nodes);
    built_free(w.b);
}

CASE(views_of_graphs_stay) {
    struct branches    w      = branches_new(100);
    struct order       built  = order_of(w.b.graph);
    struct ggml_cgraph part   = ggml_graph_view(w.b.graph, 0, w.b.graph->n_nodes);
    ggml_gallocr_t     galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, &part), "not reserved");
    CHECK(!has_moved(w.b.graph, built), "the order has changed");
    ggml_gallocr_free(galloc);
    free(built.nodes);
    built_free(w.b);
}

CASE(measuring_gives_the_size_that_is_reserved) {
    struct branches            w      = branches_new(100);
    struct order               built  = order_of(w.b.graph);
    ggml_backend_buffer_type_t type   = ggml_backend_cpu_buffer_type();
    ggml_gallocr_t             galloc = ggml_gallocr_new(type);
    size_t                     size;
    CHECK(lastuse_graph_measure(&w.b.graph, 1, &type, 1, NULL, NULL, &size, NULL), "not measured");
    CHECK(!has_moved(w.b.graph, built), "measuring moves nodes");
    CHECK(ggml_gallocr_reserve(galloc, w.b.graph), "not reserved");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == size && size < 2 * ggml_nbytes(w.wide[0]), "measured %zu", size);
    ggml_gallocr_free(galloc);
    free(built.nodes);
    built_free(w.b);
}

// A tensor that is retained until a node has run needs another order than the one that was found before.
CASE(orders_respect_what_is_retained_later) {
    struct branches w      = branches_new(100);
    struct branches again  = branches_new(100);
    ggml_gallocr_t  galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, w.b.graph) && runs_in_turn(w), "the order stays");
    CHECK(lastuse_tensor_retain(galloc, again.wide[0], again.wide[1]), "%s", lastuse_last_error());
    CHECK(ggml_gallocr_alloc_graph(galloc, again.b.graph), "not allocated");
    CHECK_PLAN(again.b.graph, "%s", "with a retained tensor");
    struct order order = order_of(again.b.graph);
    CHECK(step_of(order, again.wide[0]) < step_of(order, again.wide[1]), "it is computed after what ends its retention");
    free(order.nodes);
    ggml_gallocr_free(galloc);
    built_free(w.b);
    built_free(again.b);
}
