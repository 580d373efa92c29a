// runs: ggml-0.26 ggml-0.9.5
//
// Training graphs that compute forward results again, to fit a budget: losses, weights and moments must be equal to the
// last bit after several steps, and the compute buffer must have the bytes that were reported.
//
//   recompute <case>

#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "passes.h"
#include "plan_check.h"
#include "training.h"

#define STEPS 3

static struct lastuse_recompute_params params_of(size_t budget) {
    return (struct lastuse_recompute_params){
        .struct_size = sizeof(struct lastuse_recompute_params),
        .budget      = budget,
        .buft        = ggml_backend_cpu_buffer_type(),
    };
}

static bool recompute(struct training * t, struct lastuse_recompute_params params,
                      struct lastuse_recompute_report * report) {
    *report = (struct lastuse_recompute_report){ .struct_size = sizeof(*report) };
    return lastuse_graph_recompute(t->ctx, t->graph, &params, report);
}

static ggml_gallocr_t allocate(struct ggml_cgraph * graph) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    CHECK_PLAN(graph, "%s", "after recomputation");
    return galloc;
}

static void check_equal(const struct ggml_tensor * tensor, const struct ggml_tensor * other, const char * what) {
    size_t size  = ggml_nbytes(tensor);
    char * bytes = malloc(2 * size);
    CHECK(bytes != NULL, "out of memory");
    ggml_backend_tensor_get(tensor, bytes, 0, size);
    ggml_backend_tensor_get(other, bytes + size, 0, size);
    CHECK(memcmp(bytes, bytes + size, size) == 0, "%s differs", what);
    free(bytes);
}

// Trains both for some steps, and compares loss, weights and moments after each.
static void check_same_training(struct training * given, struct training * t, int n_threads) {
    ggml_backend_t cpu    = new_cpu(n_threads);
    ggml_gallocr_t first  = allocate(given->graph);
    ggml_gallocr_t second = allocate(t->graph);
    training_set_data(given);
    training_set_data(t);
    for (int step = 0; step < STEPS; step++) {
        training_run(given, cpu, 1);
        training_run(t, cpu, 1);
        check_equal(given->loss, t->loss, "the loss");
        for (int i = 0; i < TRAINING_WEIGHTS; i++) {
            check_equal(given->weights[i], t->weights[i], "a weight");
            check_equal(given->moments[0][i], t->moments[0][i], "a first moment");
            check_equal(given->moments[1][i], t->moments[1][i], "a second moment");
        }
    }
    ggml_gallocr_free(first);
    ggml_gallocr_free(second);
    ggml_backend_free(cpu);
}

// The smallest budget that can be met, as the report of an impossible one has it.
static size_t smallest_budget(void) {
    struct training                 t = training_new();
    struct lastuse_recompute_report report;
    CHECK(!recompute(&t, params_of(1), &report), "a byte cannot be enough");
    size_t smallest = report.size_after;
    CHECK(smallest > 1 && smallest < report.size_before, "%zu of %zu bytes", smallest, report.size_before);
    training_free(&t);
    return smallest;
}

static void check_budget(size_t budget, int n_threads) {
    struct training                 given = training_new();
    struct training                 t     = training_new();
    struct lastuse_recompute_report report;
    size_t                          before = planned_size(given.graph);
    int                             nodes  = ggml_graph_n_nodes(t.graph);
    CHECK(recompute(&t, params_of(budget), &report), "%zu bytes: %s", budget, lastuse_last_error());
    CHECK(report.size_before == before, "%zu bytes, not %zu", report.size_before, before);
    CHECK(report.size_after <= budget, "%zu bytes for a budget of %zu", report.size_after, budget);
    CHECK(planned_size(t.graph) == report.size_after, "the plan has another size than %zu", report.size_after);
    CHECK(ggml_graph_n_nodes(t.graph) == nodes + (int) report.nodes_again, "%d nodes run again", (int) report.nodes_again);
    CHECK(budget >= before || report.work_after >= report.work_before, "the work is less than before");
    check_same_training(&given, &t, n_threads);
    training_free(&given);
    training_free(&t);
}

// Checks budgets between the smallest one and the size of the graph: each `step`th eighth from the `part`th on.
static void check_budgets(int part, int step, int n_threads) {
    size_t          smallest = smallest_budget();
    struct training given    = training_new();
    size_t          before   = planned_size(given.graph);
    training_free(&given);
    for (; part <= 8; part += step) {
        check_budget(smallest + (before - smallest) * (size_t) part / 8, n_threads);
    }
}

CASE(results_are_equal_for_budgets) {
    check_budgets(0, 2, 1);
}

CASE(results_are_equal_for_budgets_in_threads) {
    check_budgets(3, 2, 2);
    // More threads than cores are slow: one budget is enough.
    check_budgets(1, 8, 3);
}

CASE(graph_that_fits_is_unchanged) {
    struct training                 given = training_new();
    struct training                 t     = training_new();
    struct lastuse_recompute_report report;
    CHECK(recompute(&t, params_of(planned_size(given.graph)), &report), "it fits as it is");
    CHECK((int) report.nodes_again == 0 && report.work_after == report.work_before, "%d nodes run again", (int) report.nodes_again);
    for (int i = 0; i < ggml_graph_n_nodes(given.graph); i++) {
        CHECK(ggml_graph_node(given.graph, i)->op == ggml_graph_node(t.graph, i)->op, "node %d is another", i);
    }
    training_free(&given);
    training_free(&t);
}

CASE(equal_graphs_are_recomputed_equally) {
    struct training                 one = training_new();
    struct training                 two = training_new();
    struct lastuse_recompute_report first, second;
    size_t                          budget = smallest_budget();
    CHECK(recompute(&one, params_of(budget), &first) && recompute(&two, params_of(budget), &second), "not recomputed");
    CHECK(memcmp(&first, &second, sizeof(first)) == 0, "the reports differ");
    CHECK(ggml_graph_n_nodes(one.graph) == ggml_graph_n_nodes(two.graph), "the graphs differ");
    for (int i = 0; i < ggml_graph_n_nodes(one.graph); i++) {
        const char * name  = ggml_get_name(ggml_graph_node(one.graph, i));
        const char * other = ggml_get_name(ggml_graph_node(two.graph, i));
        CHECK(strcmp(name, other) == 0, "node %d is %s, or %s", i, name, other);
    }
    training_free(&one);
    training_free(&two);
}

// The optimizer steps run between the nodes of the backward pass, and what follows them in the list is still found.
CASE(gradients_are_those_of_the_graph) {
    struct training                 t = training_new();
    struct lastuse_recompute_report report;
    struct ggml_tensor *            gradients[TRAINING_WEIGHTS];
    for (int i = 0; i < TRAINING_WEIGHTS; i++) {
        gradients[i] = ggml_graph_get_grad(t.graph, t.weights[i]);
    }
    struct ggml_tensor * last = ggml_graph_node(t.graph, -1);
    CHECK(recompute(&t, params_of(smallest_budget()), &report), "%s", lastuse_last_error());
    CHECK(ggml_graph_node(t.graph, -1) == last, "the last node is another");
    for (int i = 0; i < TRAINING_WEIGHTS; i++) {
        CHECK(ggml_graph_get_grad(t.graph, t.weights[i]) == gradients[i], "gradient %d is another", i);
    }
    training_free(&t);
}

struct copies {
    int                  count;
    int                  calls;
    float                done;
    struct ggml_tensor * kept;
};

static void note_copy(struct ggml_tensor * node, struct ggml_tensor * copy, void * user_data) {
    struct copies * copies = user_data;
    copies->count++;
    CHECK(node != copies->kept && node->op == copy->op && ggml_are_same_shape(node, copy), "%s", ggml_get_name(node));
    CHECK(strstr(ggml_get_name(copy), " (again)") != NULL, "the copy is %s", ggml_get_name(copy));
    CHECK(copy->data == NULL && copy->buffer == NULL, "%s has memory", ggml_get_name(copy));
}

static bool count_progress(float done, void * user_data) {
    struct copies * copies = user_data;
    copies->calls++;
    CHECK(done >= copies->done && done <= 1.0f, "%f follows %f", done, copies->done);
    copies->done = done;
    return true;
}

// A result that the plain recomputation runs again.
static struct ggml_tensor * first_silu(const struct training * t) {
    for (int i = 0; i < ggml_graph_n_nodes(t->graph); i++) {
        if (ggml_graph_node(t->graph, i)->op == GGML_OP_UNARY) {
            return ggml_graph_node(t->graph, i);
        }
    }
    CHECK(false, "there is no activation");
    return NULL;
}

CASE(copies_are_reported_and_retained_tensors_are_not_among_them) {
    for (int retains = 0; retains < 2; retains++) {
        struct training                 t      = training_new();
        struct copies                   copies = { 0 };
        struct ggml_tensor *            silu   = first_silu(&t);
        struct lastuse_recompute_params params = params_of(smallest_budget() * 5 / 4);
        struct lastuse_recompute_report report;
        params.progress  = count_progress;
        params.callback    = note_copy;
        params.user_data = &copies;
        if (retains) {
            copies.kept       = silu;
            params.retained   = &silu;
            params.n_retained = 1;
        }
        CHECK(recompute(&t, params, &report), "%s", lastuse_last_error());
        CHECK(copies.count == (int) report.nodes_again && copies.count > 0, "%d copies, %d reported", copies.count,
              (int) report.nodes_again);
        CHECK(copies.calls > 0 && copies.done == 1.0f, "the progress ends at %f", copies.done);
        training_free(&t);
    }
}

CASE(results_that_are_retained_by_name_are_not_computed_again) {
    struct training      t      = training_new();
    struct ggml_tensor * silu   = first_silu(&t);
    struct copies        copies = { .kept = silu };
    ggml_set_name(silu, "read after the run");
    struct lastuse_recompute_params params = params_of(smallest_budget() * 3 / 2);
    struct lastuse_recompute_report report;
    params.callback  = note_copy;
    params.user_data = &copies;
    CHECK(lastuse_set("retain", "read after the run"), "%s", lastuse_last_error());
    CHECK(recompute(&t, params, &report), "%s", lastuse_last_error());
    CHECK(copies.count > 0, "nothing is computed again");
    CHECK(planned_size(t.graph) == report.size_after, "the plan has another size than %zu", report.size_after);
    lastuse_set("retain", NULL);
    training_free(&t);
}

CASE(dedicated_results_are_not_computed_again) {
    struct training      t      = training_new();
    struct ggml_tensor * silu   = first_silu(&t);
    struct copies        copies = { .kept = silu };
    size_t               size   = GGML_PAD(ggml_nbytes(silu), ggml_backend_buft_get_alignment(ggml_backend_cpu_buffer_type()));
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    struct ggml_tallocr   talloc = ggml_tallocr_new(buffer);
    CHECK(lastuse_tensor_dedicate(t.ctx, silu, &talloc) == silu, "%s", lastuse_last_error());
    struct lastuse_recompute_params params = params_of(smallest_budget() * 5 / 4);
    struct lastuse_recompute_report report;
    params.callback    = note_copy;
    params.user_data = &copies;
    CHECK(recompute(&t, params, &report), "%s", lastuse_last_error());
    CHECK(copies.count > 0, "nothing is computed again");
    struct training given = training_new();
    check_same_training(&given, &t, 1);
    training_free(&given);
    ggml_backend_buffer_free(buffer);
    training_free(&t);
}

static void check_refused(struct training * t, struct lastuse_recompute_params params, const char * reason) {
    struct lastuse_recompute_report report;
    int                             nodes  = ggml_graph_n_nodes(t->graph);
    struct log_capture              errors;
    log_capture_start(&errors);
    bool accepted = recompute(t, params, &report);
    log_capture_stop();
    check_refusal(accepted, &errors, reason);
    CHECK(ggml_graph_n_nodes(t->graph) == nodes, "the graph has changed");
}

CASE(impossible_budgets_are_refused) {
    struct training t = training_new();
    size_t          smallest = smallest_budget();
    check_refused(&t, params_of(0), "no graph was found that fits the budget of 0 bytes");
    check_refused(&t, params_of(smallest - 1), "the smallest needs");
    struct training given = training_new();
    check_same_training(&given, &t, 1);
    training_free(&given);
    training_free(&t);
}

CASE(mistakes_are_refused) {
    struct training                 t      = training_new();
    struct training                 other  = training_new();
    struct lastuse_recompute_params params = params_of(smallest_budget());
    struct lastuse_recompute_params strange = params;
    strange.retained   = &other.loss;
    strange.n_retained = 1;
    ggml_set_name(other.loss, "other loss");
    check_refused(&t, strange, "the tensor \"other loss\" is to be retained, but it is not in the graph");
    strange          = params;
    strange.progress = cancel;
    check_refused(&t, strange, "cancelled");
    int size      = t.graph->size;
    t.graph->size = ggml_graph_n_nodes(t.graph) + 1;
    check_refused(&t, params, "create it with ggml_new_graph_custom");
    t.graph->size = size;
    struct ggml_context * full = no_alloc_context(4 * ggml_tensor_overhead());
    struct ggml_context * ctx  = t.ctx;
    t.ctx                      = full;
    check_refused(&t, params, "the context has");
    t.ctx = ctx;
    ggml_free(full);
    t.loss->flags &= ~GGML_TENSOR_FLAG_LOSS;
    check_refused(&t, params, "the graph has no loss");
    t.loss->flags |= GGML_TENSOR_FLAG_LOSS;
    int end = 0;
    while (ggml_graph_node(t.graph, end++) != t.loss) {
    }
    t.graph->n_nodes = end;
    check_refused(&t, params, "the graph has no backward pass");
    training_free(&other);
    training_free(&t);
}

// Nothing before a function of the program is computed again: it may have changed what they read.
CASE(functions_of_the_program_are_barriers) {
    struct training      t    = training_new();
    struct ggml_tensor * mark = ggml_map_custom1(t.ctx, t.loss, copy_rows, 1, NULL);
    ggml_set_output(mark);
    ggml_build_forward_expand(t.graph, mark);
    struct lastuse_recompute_report report;
    CHECK(!recompute(&t, params_of(1), &report), "a byte cannot be enough");
    CHECK((int) report.nodes_again == 0 && report.size_after <= report.size_before, "%d nodes", (int) report.nodes_again);
    training_free(&t);
}
