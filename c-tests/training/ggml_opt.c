// Training by ggml_opt, which is not changed in any way.
//
// ggml_opt builds its graphs and gives them to the scheduler, which allocates and computes them, and exposes them to no
// caller. A program that wants to change or to read them is linked with -Wl,--wrap=ggml_backend_sched_alloc_graph and
// -Wl,--wrap=ggml_backend_sched_graph_compute: then ggml_opt's calls of these functions get here.

#include "training.h"

#include "check.h"

// Data that cannot be passed to the callbacks.
static struct training *     running;
static struct ggml_context * added;  // tensors that the method has added to the graph that is allocated
static struct ggml_cgraph *  latest; // the graph that is allocated

bool __real_ggml_backend_sched_alloc_graph(ggml_backend_sched_t sched, struct ggml_cgraph * graph);
bool __wrap_ggml_backend_sched_alloc_graph(ggml_backend_sched_t sched, struct ggml_cgraph * graph);

bool __wrap_ggml_backend_sched_alloc_graph(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    if (running->method->change != NULL) {
        ggml_reset(added);
        running->method->change(added, graph);
    }
    bool allocated = __real_ggml_backend_sched_alloc_graph(sched, graph);
    CHECK(allocated, "no memory for a graph of %d nodes", ggml_graph_n_nodes(graph));
    latest = graph;
    return allocated;
}

enum ggml_status __real_ggml_backend_sched_graph_compute(ggml_backend_sched_t sched, struct ggml_cgraph * graph);
enum ggml_status __wrap_ggml_backend_sched_graph_compute(ggml_backend_sched_t sched, struct ggml_cgraph * graph);

enum ggml_status __wrap_ggml_backend_sched_graph_compute(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    if (running->method->before != NULL) {
        running->method->before(graph);
    }
    enum ggml_status status = __real_ggml_backend_sched_graph_compute(sched, graph);
    if (running->method->after != NULL && status == GGML_STATUS_SUCCESS) {
        running->method->after(graph);
    }
    return status;
}

static ggml_backend_sched_t start(struct training * t) {
    ggml_backend_t       backend = t->backend;
    size_t               size    = (size_t) model_graph_size(&t->model);
    ggml_backend_sched_t sched   = ggml_backend_sched_new(&backend, NULL, 1, 2 * size, false, false);
    CHECK(sched != NULL, "no scheduler");
    running = t;
    added   = no_alloc_context(size * ggml_tensor_overhead());
    return sched;
}

static void end(struct training * t, ggml_backend_sched_t sched) {
    t->compute = ggml_backend_sched_get_buffer_size(sched, t->backend);
    ggml_backend_sched_free(sched);
    ggml_free(added);
}

static struct ggml_opt_params parameters(const struct training * t, ggml_backend_sched_t sched) {
    struct ggml_opt_params params = ggml_opt_default_params(sched, GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
    params.opt_period             = t->task.shape.group;
    params.get_opt_pars           = training_rate;
    return params;
}

static int count_correct(ggml_opt_result_t result) {
    int64_t n        = 0;
    double  accuracy = 0.0;
    ggml_opt_result_ndata(result, &n);
    ggml_opt_result_accuracy(result, &accuracy, NULL);
    return (int) (accuracy * (double) n + 0.5);
}

// Graphs that are built once

static void after_batch(bool train, ggml_opt_context_t opt, ggml_opt_dataset_t data, ggml_opt_result_t result,
                        int64_t batch, int64_t n_batches, int64_t start_us) {
    (void) data;
    (void) result;
    (void) batch;
    (void) n_batches;
    (void) start_us;
    (train ? record_trained : record_evaluated)(&running->record, ggml_opt_loss(opt));
    record_start(&running->record);
}

static void run_epochs(struct training * t, ggml_opt_context_t opt) {
    ggml_opt_result_t result = ggml_opt_result_init();
    do {
        task_shuffle(&t->task);
        ggml_opt_result_reset(result);
        // After an evaluation ggml_opt goes on adding to the gradients of the last step.
        ggml_opt_reset(opt, false);
        record_start(&t->record);
        ggml_opt_epoch(opt, t->task.data, NULL, result, t->task.n_train, after_batch, after_batch);
    } while (!training_epoch_ends(t, count_correct(result), latest));
    ggml_opt_result_free(result);
}

// ggml_opt builds its own graphs of this size.
#define STATIC_SIZE GGML_DEFAULT_GRAPH_SIZE

void train_static_graphs(struct training * t) {
    CHECK(model_graph_size(&t->model) <= STATIC_SIZE, "ggml_opt has room for %d nodes", STATIC_SIZE);
    ggml_backend_sched_t  sched  = start(t);
    struct ggml_context * given  = no_alloc_context(ggml_tensor_overhead());
    struct ggml_tensor *  inputs = ggml_new_tensor_2d(given, GGML_TYPE_I32, TASK_TOKENS, t->task.shape.batch);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(given, t->backend);
    CHECK(buffer != NULL, "no memory for the inputs");
    struct ggml_context * compute =
        no_alloc_context(3 * (STATIC_SIZE * ggml_tensor_overhead() + ggml_graph_overhead_custom(STATIC_SIZE, true)));
    struct ggml_opt_params params = parameters(t, sched);
    params.ctx_compute            = compute;
    params.inputs                 = inputs;
    params.outputs                = model_build(&t->model, compute, inputs);
    ggml_opt_context_t opt        = ggml_opt_init(params);
    run_epochs(t, opt);
    ggml_opt_free(opt);
    ggml_free(compute);
    ggml_backend_buffer_free(buffer);
    ggml_free(given);
    end(t, sched);
}

// Graphs of batches

static void run_batch(struct training * t, ggml_opt_context_t opt, struct ggml_context * ctx, int number,
                      ggml_opt_result_t result) {
    bool                 train  = task_is_trained(&t->task, number);
    struct ggml_cgraph * graph  = ggml_new_graph_custom(ctx, (size_t) model_graph_size(&t->model), true);
    struct ggml_tensor * inputs = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, TASK_TOKENS, t->task.shape.batch);
    struct ggml_tensor * answer = model_build(&t->model, ctx, inputs);
    ggml_build_forward_expand(graph, answer);
    ggml_opt_prepare_alloc(opt, ctx, graph, inputs, answer);
    ggml_opt_alloc(opt, train);
    if (train && number % t->task.shape.group == 0) {
        // With graphs of batches ggml_opt never starts a new sum of gradients by itself.
        ggml_opt_reset(opt, false);
    }
    ggml_opt_dataset_get_batch(t->task.data, ggml_opt_inputs(opt), ggml_opt_labels(opt), number);
    ggml_opt_eval(opt, train ? NULL : result);
    (train ? record_trained : record_evaluated)(&t->record, ggml_opt_loss(opt));
}

void train_graphs_of_batches(struct training * t) {
    ggml_backend_sched_t  sched  = start(t);
    size_t                size   = (size_t) model_graph_size(&t->model);
    struct ggml_context * ctx =
        no_alloc_context(3 * (size * ggml_tensor_overhead() + ggml_graph_overhead_custom(size, true)));
    ggml_opt_context_t opt    = ggml_opt_init(parameters(t, sched));
    ggml_opt_result_t  result = ggml_opt_result_init();
    do {
        task_shuffle(&t->task);
        ggml_opt_result_reset(result);
        for (int i = 0; i < task_n_batches(&t->task); i++) {
            record_start(&t->record);
            ggml_reset(ctx);
            run_batch(t, opt, ctx, i, result);
        }
    } while (!training_epoch_ends(t, count_correct(result), latest));
    ggml_opt_result_free(result);
    ggml_opt_free(opt);
    ggml_free(ctx);
    end(t, sched);
}
