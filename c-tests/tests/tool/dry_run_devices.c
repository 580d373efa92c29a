// A program that does not use lastuse, with weights on a device and on the host. It does what its first argument says.
//
//   contexts  computes with two contexts, each with a scheduler of its own, the second one after the first
//   batches   computes a batch that needs most of the device, and one that needs most of the host
//   fits      gives layers to the device as long as more of its memory is free than a layer takes, and computes

#include "check.h"
#include "test_gpus.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 2048, MOST_LAYERS = 16, CPU = 1, N_BACKENDS = 2 };

// A layer that is too large for a test to allocate: 10 GiB of the 64 that the device has.
enum { LARGE_ROWS = 1280 * 1024 };

static ggml_backend_t backends[N_BACKENDS];

struct layer {
    struct ggml_context * context;
    struct ggml_tensor *  weights;
    ggml_backend_buffer_t buffer;
};

static struct layer layer_of(ggml_backend_t backend, int64_t rows) {
    struct ggml_init_params params = { ggml_tensor_overhead(), NULL, true };
    struct layer            layer  = { ggml_init(params), NULL, NULL };
    layer.weights                  = ggml_new_tensor_2d(layer.context, GGML_TYPE_F32, WIDTH, rows);
    layer.buffer                   = ggml_backend_alloc_ctx_tensors(layer.context, backend);
    CHECK(layer.buffer != NULL, "no memory for weights");
    ggml_backend_buffer_set_usage(layer.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_clear(layer.buffer, 0);
    return layer;
}

static void layer_free(struct layer * layer) {
    ggml_backend_buffer_free(layer->buffer);
    ggml_free(layer->context);
}

// Reserves a graph with the product of all layers and an input of some tokens, or computes it and reads a part of it.
static void compute(ggml_backend_sched_t sched, const struct layer * layers, int count, int64_t tokens, bool reserves) {
    struct ggml_init_params params  = { 64 * ggml_tensor_overhead() + ggml_graph_overhead(), NULL, true };
    struct ggml_context *   context = ggml_init(params);
    struct ggml_cgraph *    graph   = ggml_new_graph(context);
    struct ggml_tensor *    input   = ggml_new_tensor_2d(context, GGML_TYPE_F32, WIDTH, tokens);
    struct ggml_tensor *    sum     = NULL;
    ggml_set_input(input);
    for (int i = 0; i < count; i++) {
        struct ggml_tensor * product = ggml_mul_mat(context, layers[i].weights, input);
        sum                          = sum == NULL ? product : ggml_add(context, sum, product);
    }
    ggml_set_output(sum);
    ggml_build_forward_expand(graph, sum);
    if (reserves) {
        CHECK(ggml_backend_sched_reserve(sched, graph), "no memory for a graph");
        ggml_free(context);
        return;
    }
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph), "no memory for a graph");
    ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));
    CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "it cannot compute");
    float result = 1.0f;
    ggml_backend_tensor_get(sum, &result, 0, sizeof(result));
    CHECK(result == 0.0f, "a wrong result");
    ggml_free(context);
}

static ggml_backend_sched_t scheduler(void) {
    return ggml_backend_sched_new(backends, NULL, N_BACKENDS, GGML_DEFAULT_GRAPH_SIZE, false, true);
}

// The device computes with all weights for large batches.
static void compute_batches(void) {
    struct layer         layers[] = { layer_of(backends[0], WIDTH), layer_of(backends[CPU], WIDTH) };
    ggml_backend_sched_t made     = scheduler();
    compute(made, layers, 2, 32, false);
    compute(made, layers, 2, 31, false);
    ggml_backend_sched_free(made);
    layer_free(&layers[0]);
    layer_free(&layers[1]);
}

static void use_contexts(void) {
    struct layer         layers[]   = { layer_of(backends[0], WIDTH), layer_of(backends[CPU], WIDTH) };
    ggml_backend_sched_t contexts[] = { scheduler(), NULL };
    compute(contexts[0], layers, 2, 64, true);
    compute(contexts[0], layers, 2, 64, false);
    contexts[1] = scheduler();
    compute(contexts[1], layers, 2, 16, false);
    compute(contexts[0], layers, 2, 64, false);
    for (int i = 0; i < 2; i++) {
        ggml_backend_sched_free(contexts[i]);
        layer_free(&layers[i]);
    }
}

static size_t free_bytes(void) {
    size_t free = 0, total = 0;
    ggml_backend_dev_memory(ggml_backend_get_device(backends[0]), &free, &total);
    return free;
}

static void fit(void) {
    static struct layer layers[MOST_LAYERS];
    const size_t        layer = (size_t) WIDTH * LARGE_ROWS * sizeof(float);
    int                 count = 0;
    while (count < MOST_LAYERS && free_bytes() > layer) {
        layers[count++] = layer_of(backends[0], LARGE_ROWS);
    }
    // One more, for which the device has no room.
    CHECK(count < MOST_LAYERS, "as much memory is free as before");
    layers[count++]           = layer_of(backends[CPU], LARGE_ROWS);
    ggml_backend_sched_t made = scheduler();
    compute(made, layers, count, 1, false);
    ggml_backend_sched_free(made);
    for (int i = 0; i < count; i++) {
        layer_free(&layers[i]);
    }
}

int main(int count, char ** arguments) {
    CHECK(count == 2, "one argument");
    ggml_backend_reg_t gpus = test_gpus_make(1, 128, (size_t) 64 << 30, false);
    CHECK(gpus != NULL, "no device");
    backends[0]   = ggml_backend_dev_init(ggml_backend_reg_dev_get(gpus, 0), NULL);
    backends[CPU] = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backends[CPU], 1);
    if (strcmp(arguments[1], "contexts") == 0) {
        use_contexts();
    } else if (strcmp(arguments[1], "batches") == 0) {
        compute_batches();
    } else {
        fit();
    }
    for (int i = 0; i < N_BACKENDS; i++) {
        ggml_backend_free(backends[i]);
    }
    return 0;
}
