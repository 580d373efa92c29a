// runs: ggml-0.26 ggml-0.9.5
//
// Graphs whose large intermediates are computed in tiles, to fit a budget: the results must be equal to the last bit, and
// the compute buffer must have the bytes that were reported.
//
//   tiling_by_call <case> [first seed] [number of seeds]

#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "graph_fields.h"
#include "large_graph.h"
#include "lastuse.h"
#include "passes.h"
#include "plan_check.h"

static struct lastuse_tiling_params params_of(size_t budget) {
    return (struct lastuse_tiling_params){
        .struct_size = sizeof(struct lastuse_tiling_params),
        .budget      = budget,
        .buft        = ggml_backend_cpu_buffer_type(),
        .n_threads   = 1,
    };
}

static bool tile(struct large_graph * b, struct lastuse_tiling_params params, struct lastuse_tiling_report * report) {
    *report = (struct lastuse_tiling_report){ .struct_size = sizeof(*report) };
    return lastuse_graph_tile(b->ctx, b->graph, &params, report);
}

static ggml_gallocr_t allocate(struct ggml_cgraph * graph) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    CHECK_PLAN(graph, "%s", "after the tiled");
    return galloc;
}

static void check_same_results(struct large_graph * whole, struct large_graph * tiled, uint64_t seed, int n_threads) {
    ggml_backend_t cpu    = new_cpu(n_threads);
    ggml_gallocr_t first  = allocate(whole->graph);
    ggml_gallocr_t second = allocate(tiled->graph);
    large_graph_run(whole, cpu);
    large_graph_run(tiled, cpu);
    for (int i = 0; i < whole->n_results; i++) {
        check_same_bytes(tiled->results[i], whole->results[i], seed);
    }
    ggml_gallocr_free(first);
    ggml_gallocr_free(second);
    ggml_backend_free(cpu);
}

// The smallest budget that can be met, as the report of an impossible one has it.
static size_t smallest_budget(uint64_t seed) {
    struct large_graph                b = large_graph_new(seed);
    struct lastuse_tiling_report report;
    CHECK(!tile(&b, params_of(1), &report), "a byte cannot be enough");
    CHECK(report.size_after > 1 && report.size_after <= report.size_before, "%zu of %zu bytes", report.size_after,
          report.size_before);
    ggml_free(b.ctx);
    return report.size_after;
}

// Returns how often something was tiled.
static int check_budget(uint64_t seed, size_t budget, int n_threads) {
    struct large_graph                whole = large_graph_new(seed);
    struct large_graph                tiled   = large_graph_new(seed);
    struct lastuse_tiling_report report;
    size_t                      before = planned_size(whole.graph);
    int                         nodes  = ggml_graph_n_nodes(tiled.graph);
    int                         leafs  = tiled.graph->n_leafs;
    struct ggml_tensor *        last   = ggml_graph_node(tiled.graph, -1);
    CHECK(tile(&tiled, params_of(budget), &report), "seed %llu, %zu bytes: %s", (unsigned long long) seed, budget,
          lastuse_last_error());
    CHECK(report.size_before == before, "%zu bytes, not %zu", report.size_before, before);
    CHECK(report.size_after <= budget, "%zu bytes for a budget of %zu", report.size_after, budget);
    CHECK(planned_size(tiled.graph) == report.size_after, "seed %llu: the plan has %zu bytes, not %zu",
          (unsigned long long) seed, planned_size(tiled.graph), report.size_after);
    CHECK(ggml_graph_n_nodes(tiled.graph) == nodes + (int) report.nodes_added, "%d nodes are added", (int) report.nodes_added);
    CHECK(tiled.graph->n_leafs == leafs && ggml_graph_node(tiled.graph, -1) == last, "leafs, or the last node, are others");
    check_same_results(&whole, &tiled, seed, n_threads);
    ggml_free(whole.ctx);
    ggml_free(tiled.ctx);
    return (int) report.n_tilings;
}

// Checks four budgets for each of `count` graphs.
static void check_budgets(long long first, long long count, int n_threads) {
    int tilings = 0;
    for (long long seed = first; seed < first + count; seed++) {
        struct large_graph whole    = large_graph_new((uint64_t) seed);
        size_t       before   = planned_size(whole.graph);
        size_t       smallest = smallest_budget((uint64_t) seed);
        ggml_free(whole.ctx);
        for (int tile = 0; tile <= 3; tile++) {
            tilings += check_budget((uint64_t) seed, smallest + (before - smallest) * (size_t) tile / 3, n_threads);
        }
    }
    CHECK(count < 4 || tilings > 3 * count, "only %d tilings", tilings);
}

CASE(results_are_equal_for_budgets) {
    check_budgets(case_number(args, 0, 1), case_number(args, 1, 10), 1);
}

CASE(results_are_equal_for_budgets_in_threads) {
    long long first = case_number(args, 0, 11);
    long long count = case_number(args, 1, 11);
    // On two cores, three threads take a hundred times as long.
    long long with_three = count / 2;
    check_budgets(first, count - with_three, 2);
    check_budgets(first + count - with_three, with_three, 3);
}

CASE(graph_that_fits_is_unchanged) {
    struct large_graph                b     = large_graph_new(1);
    int                         nodes = ggml_graph_n_nodes(b.graph);
    struct lastuse_tiling_report report;
    CHECK(tile(&b, params_of(planned_size(b.graph)), &report), "it fits as it is");
    CHECK((int) report.n_tilings == 0 && (int) report.nodes_added == 0 && ggml_graph_n_nodes(b.graph) == nodes, "it has changed");
    ggml_free(b.ctx);
}

CASE(equal_graphs_are_tiled_equally) {
    for (uint64_t seed = 1; seed < 9; seed++) {
        struct large_graph                one = large_graph_new(seed);
        struct large_graph                two = large_graph_new(seed);
        struct lastuse_tiling_report first, second;
        size_t                      budget = smallest_budget(seed);
        CHECK(tile(&one, params_of(budget), &first) && tile(&two, params_of(budget), &second), "not tiled");
        CHECK(memcmp(&first, &second, sizeof(first)) == 0, "the reports differ");
        for (int i = 0; i < ggml_graph_n_nodes(one.graph); i++) {
            const char * name  = ggml_get_name(ggml_graph_node(one.graph, i));
            const char * other = ggml_get_name(ggml_graph_node(two.graph, i));
            CHECK(strcmp(name, other) == 0, "node %d is %s, or %s", i, name, other);
        }
        ggml_free(one.ctx);
        ggml_free(two.ctx);
    }
}

// A large attention, without anything else: seeds differ, so it is built by hand.
static struct large_graph large(void) {
    struct large_graph   b = { .ctx = no_alloc_context(4096 * ggml_tensor_overhead() + ggml_graph_overhead_custom(2048, false)) };
    b.graph              = ggml_new_graph_custom(b.ctx, 2048, false);
    struct ggml_tensor * k = large_graph_leaf(&b, GGML_TYPE_F32, 32, 256, 8, 1);
    struct ggml_tensor * q = large_graph_leaf(&b, GGML_TYPE_F32, 32, 256, 8, 1);
    struct ggml_tensor * v = large_graph_leaf(&b, GGML_TYPE_F32, 256, 32, 8, 1);
    struct ggml_tensor * scores = ggml_mul_mat(b.ctx, k, q);
    ggml_set_name(scores, "scores");
    struct ggml_tensor * mixed = ggml_mul_mat(b.ctx, v, ggml_soft_max(b.ctx, scores));
    ggml_set_name(mixed, "mixed");
    b.results[0] = ggml_sum(b.ctx, mixed);
    b.n_results  = 1;
    ggml_set_output(b.results[0]);
    ggml_build_forward_expand(b.graph, b.results[0]);
    return b;
}

struct calls {
    int   tilings;
    int   progress;
    float done;
};

static void note_tiled(struct ggml_tensor * tensor, size_t tiles, void * user_data) {
    struct calls * calls = user_data;
    calls->tilings++;
    CHECK(strcmp(ggml_get_name(tensor), "scores") == 0 && tiles > 1, "%s in %zu tiles", ggml_get_name(tensor), tiles);
}

static bool note_progress(float done, void * user_data) {
    struct calls * calls = user_data;
    calls->progress++;
    CHECK(done >= calls->done && done <= 1.0f, "%f follows %f", done, calls->done);
    calls->done = done;
    return true;
}

CASE(tilings_are_reported_and_tiles_are_named) {
    struct large_graph                b      = large();
    struct calls                calls  = { 0 };
    struct lastuse_tiling_params params = params_of(1024 * 1024 * 2);
    struct lastuse_tiling_report report;
    params.callback       = note_tiled;
    params.progress  = note_progress;
    params.user_data = &calls;
    CHECK(tile(&b, params, &report), "%s", lastuse_last_error());
    CHECK(calls.tilings == (int) report.n_tilings && calls.tilings == 1 && calls.progress > 0, "%d tilings", calls.tilings);
    CHECK(calls.done == 1.0f, "the progress ends at %f", calls.done);
    int tiles = 0;
    for (int i = 0; i < ggml_graph_n_nodes(b.graph); i++) {
        tiles += strncmp(ggml_get_name(ggml_graph_node(b.graph, i)), "scores (tile ", 13) == 0;
        CHECK(strcmp(ggml_get_name(ggml_graph_node(b.graph, i)), "scores") != 0, "the whole is still there");
    }
    CHECK(tiles == (int) report.most_tiles && tiles > 1, "%d tiles, %d reported", tiles, (int) report.most_tiles);
    ggml_free(b.ctx);
}

static struct ggml_tensor * named(struct large_graph * b, const char * name) {
    struct ggml_tensor * t = ggml_graph_get_tensor(b->graph, name);
    CHECK(t != NULL, "there is no %s", name);
    return t;
}

static void check_refused(struct large_graph * b, struct lastuse_tiling_params params, const char * reason) {
    struct lastuse_tiling_report report;
    int                         nodes = ggml_graph_n_nodes(b->graph);
    struct log_capture          errors;
    log_capture_start(&errors);
    bool accepted = tile(b, params, &report);
    log_capture_stop();
    check_refusal(accepted, &errors, reason);
    CHECK(ggml_graph_n_nodes(b->graph) == nodes, "the graph has changed");
}

CASE(mistakes_are_refused) {
    struct large_graph                b      = large();
    struct large_graph                other  = large();
    struct lastuse_tiling_params params = params_of(2 * 1024 * 1024);
    check_refused(&b, params_of(0), "no graph was found that fits the budget of 0 bytes");
    struct lastuse_tiling_params strange = params;
    strange.retained                    = &other.results[0];
    strange.n_retained                  = 1;
    ggml_set_name(other.results[0], "other sum");
    check_refused(&b, strange, "the tensor \"other sum\" is to be retained, but it is not in the graph");
    strange          = params;
    strange.progress = cancel;
    check_refused(&b, strange, "cancelled");
    int size      = b.graph->size;
    b.graph->size = ggml_graph_n_nodes(b.graph) + 1;
    check_refused(&b, params, "create it with ggml_new_graph_custom");
    b.graph->size = size;
    struct ggml_context * full = no_alloc_context(4 * ggml_tensor_overhead());
    struct ggml_context * ctx  = b.ctx;
    b.ctx                      = full;
    check_refused(&b, params, "the context has");
    b.ctx = ctx;
    ggml_free(full);
    struct large_graph whole = large();
    struct lastuse_tiling_report report;
    CHECK(tile(&b, params, &report), "%s", lastuse_last_error());
    check_same_results(&whole, &b, 0, 2);
    ggml_free(b.ctx);
    ggml_free(other.ctx);
    ggml_free(whole.ctx);
}

CASE(retained_tensors_and_outputs_are_not_tiled) {
    for (int flags = 0; flags < 2; flags++) {
        struct large_graph                b      = large();
        struct ggml_tensor *        scores = named(&b, "scores");
        struct lastuse_tiling_params params = params_of(2 * 1024 * 1024);
        if (flags) {
            ggml_set_output(scores);
        } else {
            params.retained   = &scores;
            params.n_retained = 1;
        }
        check_refused(&b, params, "the smallest needs");
        ggml_free(b.ctx);
    }
}

// What is retained by name stays in memory while the tiles are computed, and counts.
CASE(sizes_count_what_is_retained_by_name) {
    struct large_graph   b     = large();
    struct ggml_tensor * early = ggml_sqr(b.ctx, large_graph_leaf(&b, GGML_TYPE_F32, 32, 256, 8, 1));
    ggml_set_name(early, "early");
    struct ggml_tensor * scores = named(&b, "scores");
    scores->src[1]              = ggml_sqr(b.ctx, early);
    ggml_graph_clear(b.graph);
    ggml_build_forward_expand(b.graph, b.results[0]);
    struct lastuse_tiling_report report;
    CHECK(lastuse_set("retain", "early"), "%s", lastuse_last_error());
    size_t before = planned_size(b.graph);
    CHECK(tile(&b, params_of(before * 3 / 4), &report), "%s", lastuse_last_error());
    CHECK(report.size_before == before, "%zu bytes, not %zu", report.size_before, before);
    CHECK(planned_size(b.graph) == report.size_after, "the plan has another size than %zu", report.size_after);
    lastuse_set("retain", NULL);
    ggml_free(b.ctx);
}

// Before the graph is tiled, an allocator may retain tensors of it; afterwards, those that only tiles are computed of are refused.
CASE(tensors_that_only_tiles_are_computed_of_are_refused) {
    struct large_graph          b      = large();
    struct ggml_tensor *        scores = named(&b, "scores");
    struct lastuse_tiling_report report;
    ggml_backend_buffer_t       buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4 << 20);
    struct ggml_tallocr         talloc = ggml_tallocr_new(buffer);
    ggml_gallocr_t              galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_tensor_retain(galloc, scores, NULL), "%s", lastuse_last_error());
    check_refused(&b, params_of(2 * 1024 * 1024), "the smallest needs");
    CHECK(lastuse_tensor_release(galloc, scores), "%s", lastuse_last_error());
    CHECK(tile(&b, params_of(2 * 1024 * 1024), &report) && (int) report.n_tilings > 0, "%s", lastuse_last_error());
    CHECK(!lastuse_tensor_retain(galloc, scores, NULL) && strstr(lastuse_last_error(), "only tiles") != NULL, "retained");
    CHECK(!lastuse_tensor_retain(galloc, scores, b.results[0]), "retained");
    CHECK(lastuse_tensor_dedicate(b.ctx, scores, &talloc) == NULL && strstr(lastuse_last_error(), "only tiles") != NULL,
          "dedicated");
    struct ggml_tensor * elsewhere = ggml_dup_tensor(b.ctx, scores);
    CHECK(ggml_set_output(scores, elsewhere) == NULL && strstr(lastuse_last_error(), "only tiles") != NULL, "redirected");
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffer);
    ggml_free(b.ctx);
}

// Tensors that the program holds pointers to have their values after the run.
CASE(tensors_of_the_program_stay_valid) {
    struct large_graph                whole = large();
    struct large_graph                b     = large();
    struct lastuse_tiling_report report;
    struct large_graph *              both[] = { &whole, &b };
    for (int i = 0; i < 2; i++) {
        ggml_set_output(named(both[i], "mixed"));
        both[i]->results[both[i]->n_results++] = named(both[i], "mixed");
    }
    CHECK(tile(&b, params_of(2 * 1024 * 1024), &report), "%s", lastuse_last_error());
    CHECK(named(&b, "mixed") == b.results[1], "another tensor has the name");
    check_same_results(&whole, &b, 0, 3);
    ggml_free(whole.ctx);
    ggml_free(b.ctx);
}

CASE(functions_of_the_program_are_not_tiled) {
    struct large_graph         b      = { .ctx = no_alloc_context(256 * ggml_tensor_overhead() + ggml_graph_overhead()) };
    struct ggml_tensor * x      = large_graph_leaf(&b, GGML_TYPE_F32, 64, 256, 1, 1);
    struct ggml_tensor * weight = large_graph_leaf(&b, GGML_TYPE_F32, 64, 1024, 1, 1);
    struct ggml_tensor * custom = ggml_map_custom1(b.ctx, ggml_mul_mat(b.ctx, weight, x), copy_rows, 1, NULL);
    b.results[0]                = ggml_sum(b.ctx, custom);
    b.n_results                 = 1;
    b.graph                     = ggml_new_graph(b.ctx);
    ggml_set_output(b.results[0]);
    ggml_build_forward_expand(b.graph, b.results[0]);
    check_refused(&b, params_of(1024 * 1024), "the smallest needs");
    ggml_free(b.ctx);
}

// ---------------------------------------------------------------------------------------------------
// Graphs of shapes that once gave other values
// ---------------------------------------------------------------------------------------------------

// The inputs have their own memory.
static struct large_graph ending_in(struct large_graph b, struct ggml_tensor * last) {
    b.results[b.n_results++] = last;
    ggml_set_output(last);
    ggml_build_forward_expand(b.graph, last);
    static char memory[1 << 20];
    size_t      used = 0;
    for (int i = 0; i < b.n_leafs; i++) {
        b.leafs[i]->data = memory + used;
        used += GGML_PAD(ggml_nbytes(b.leafs[i]), 64);
        CHECK(used <= sizeof(memory), "%zu bytes of inputs", used);
    }
    return b;
}

static struct large_graph empty_graph(void) {
    struct large_graph b = { .ctx = no_alloc_context(8192 * ggml_tensor_overhead() + ggml_graph_overhead_custom(4096, false)) };
    b.graph              = ggml_new_graph_custom(b.ctx, 4096, false);
    return b;
}

// Sinks without a mask: the slot between them and the scores is empty.
static struct large_graph with_sinks(void) {
    struct large_graph   b      = empty_graph();
    struct ggml_tensor * k      = large_graph_leaf(&b, GGML_TYPE_F32, 32, 64, 4, 1);
    struct ggml_tensor * q      = large_graph_leaf(&b, GGML_TYPE_F32, 32, 64, 4, 1);
    struct ggml_tensor * v      = large_graph_leaf(&b, GGML_TYPE_F32, 64, 32, 4, 1);
    struct ggml_tensor * scores = ggml_soft_max_ext(b.ctx, ggml_mul_mat(b.ctx, k, q), NULL, 1.0f, 0.0f);
    ggml_soft_max_add_sinks(scores, large_graph_leaf(&b, GGML_TYPE_F32, 4, 1, 1, 1));
    return ending_in(b, ggml_sqr(b.ctx, ggml_mul_mat(b.ctx, v, scores)));
}

// Tiles of what slices are of are tiled again.
static struct large_graph with_slices_of_tiles(void) {
    struct large_graph   b = empty_graph();
    struct ggml_tensor * x = large_graph_leaf(&b, GGML_TYPE_F32, 32, 14, 4, 3);
    struct ggml_tensor * w = large_graph_leaf(&b, GGML_TYPE_F32, 32, 112, 1, 3);
    struct ggml_tensor * a = ggml_silu(b.ctx, ggml_mul_mat(b.ctx, w, x));
    return ending_in(b, ggml_sum(b.ctx, ggml_add(b.ctx, ggml_soft_max(b.ctx, a), a)));
}

static struct large_graph with_slices_of_products(void) {
    struct large_graph   b      = empty_graph();
    struct ggml_tensor * x      = large_graph_leaf(&b, GGML_TYPE_F32, 32, 27, 1, 3);
    struct ggml_tensor * a      = ggml_mul_mat(b.ctx, large_graph_leaf(&b, GGML_TYPE_F32, 32, 112, 1, 1), x);
    struct ggml_tensor * second = ggml_mul_mat(b.ctx, large_graph_leaf(&b, GGML_TYPE_F32, 112, 112, 1, 1), a);
    return ending_in(b, ggml_sum(b.ctx, ggml_add(b.ctx, second, a)));
}

// Rows that begin one element after the one before.
static struct large_graph with_overlapping_rows(void) {
    struct large_graph   b = empty_graph();
    struct ggml_tensor * x = large_graph_leaf(&b, GGML_TYPE_F32, 184, 60, 7, 1);
    struct ggml_tensor * m = ggml_silu(b.ctx, ggml_scale(b.ctx, x, 0.5f));
    struct ggml_tensor * v = ggml_view_2d(b.ctx, m, 60, 184, 4, 184 * 60 * 4 * 4);
    return ending_in(b, ggml_sqr(b.ctx, ggml_cont(b.ctx, v)));
}

// In place on a result that planning would put elsewhere.
static struct large_graph with_a_node_in_place(void) {
    struct large_graph   b      = empty_graph();
    struct ggml_tensor * x      = large_graph_leaf(&b, GGML_TYPE_F32, 192, 1, 1, 1);
    struct ggml_tensor * y      = large_graph_leaf(&b, GGML_TYPE_F32, 256, 1, 1, 1);
    struct ggml_tensor * scaled = ggml_scale_inplace(b.ctx, ggml_concat(b.ctx, x, y, 0), 0.5f);
    return ending_in(b, ggml_sum(b.ctx, ggml_concat(b.ctx, scaled, x, 0)));
}

// For budgets from the smallest to the plan: in the budget, with the bytes that are reported, and with equal results.
static void check_shape(struct large_graph (*build)(void), bool is_tiled) {
    struct lastuse_tiling_report report;
    struct large_graph          given = build();
    size_t                      plan  = planned_size(given.graph);
    CHECK(!tile(&given, params_of(1), &report), "a byte cannot be enough");
    size_t smallest = report.size_after;
    ggml_free(given.ctx);
    for (int step = 0; step <= 16; step++) {
        size_t             budget = smallest + (plan - smallest) * (size_t) step / 16;
        struct large_graph tiled  = build();
        struct large_graph whole  = build();
        CHECK(tile(&tiled, params_of(budget), &report), "%zu bytes: %s", budget, lastuse_last_error());
        size_t size = planned_size(tiled.graph);
        CHECK(report.size_after <= budget && report.size_after == size, "%zu bytes for %zu, reported %zu", size, budget,
              report.size_after);
        CHECK(step > 0 || ((int) report.n_tilings > 0) == is_tiled, "%d tilings", (int) report.n_tilings);
        check_same_results(&whole, &tiled, budget, 1);
        ggml_free(whole.ctx);
        ggml_free(tiled.ctx);
    }
}

CASE_OF(sinks_without_a_mask_are_tiled_with_their_heads, check_shape(with_sinks, true))

CASE(slices_of_tiles_are_tiled_again) {
    check_shape(with_slices_of_tiles, true);
    check_shape(with_slices_of_products, true);
}

CASE_OF(rows_that_overlap_are_not_tiled, check_shape(with_overlapping_rows, false))
CASE_OF(sizes_are_those_that_the_allocator_takes, check_shape(with_a_node_in_place, false))
