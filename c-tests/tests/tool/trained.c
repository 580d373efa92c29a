// A program that does not use lastuse: a residual network is trained by ggml_opt on a scheduler, for some epochs. Prints the hashes
// of its losses and of its weights, and the bytes of the compute buffer.

#include <math.h>
#include <stdio.h>

#include "check.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-opt.h"
#include "ggml.h"
#include "hash.h"
#include "splitmix.h"

#define LAYERS 12
#define WIDTH  64
#define BATCH  128
#define POINTS 512

static void fill(float * values, int64_t count, float scale, uint64_t * random) {
    for (int64_t i = 0; i < count; i++) {
        values[i] = scale * ((float) (splitmix64(random) % 2001) / 1000.0f - 1.0f);
    }
}

static struct ggml_tensor * network(struct ggml_context * ctx, struct ggml_tensor * inputs, struct ggml_tensor ** weights) {
    struct ggml_tensor * x = inputs;
    for (int layer = 0; layer < LAYERS; layer++) {
        x = ggml_add(ctx, x, ggml_mul_mat(ctx, weights[2 * layer + 1], ggml_silu(ctx, ggml_mul_mat(ctx, weights[2 * layer], ggml_rms_norm(ctx, x, 1e-5f)))));
    }
    ggml_set_output(x);
    return x;
}

int main(void) {
    ggml_backend_t       cpu    = ggml_backend_cpu_init();
    uint64_t             random = 7;
    struct ggml_tensor * weights[2 * LAYERS];
    ggml_backend_cpu_set_n_threads(cpu, 1);

    struct ggml_init_params params   = { .mem_size = (2 * LAYERS + 1) * ggml_tensor_overhead(), .no_alloc = true };
    struct ggml_context *   ctx      = ggml_init(params);
    struct ggml_tensor *    inputs   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, BATCH);
    ggml_set_input(inputs);
    for (int i = 0; i < 2 * LAYERS; i++) {
        weights[i] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, i % 2 ? 4 * WIDTH : WIDTH, i % 2 ? WIDTH : 4 * WIDTH);
        ggml_set_param(weights[i]);
    }
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, cpu);
    for (int i = 0; i < 2 * LAYERS; i++) {
        fill(weights[i]->data, ggml_nelements(weights[i]), 0.1f, &random);
    }

    ggml_opt_dataset_t data = ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, WIDTH, WIDTH, POINTS, BATCH);
    fill(ggml_opt_dataset_data(data)->data, WIDTH * POINTS, 1.0f, &random);
    fill(ggml_opt_dataset_labels(data)->data, WIDTH * POINTS, 1.0f, &random);

    struct ggml_init_params compute = { .mem_size = 4096 * ggml_tensor_overhead() + 3 * ggml_graph_overhead_custom(4096, true), .no_alloc = true };
    struct ggml_context *   graphs  = ggml_init(compute);
    ggml_backend_sched_t    sched   = ggml_backend_sched_new(&cpu, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, false);
    struct ggml_opt_params  opt     = ggml_opt_default_params(sched, GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR);
    opt.ctx_compute                 = graphs;
    opt.inputs                      = inputs;
    opt.outputs                     = network(graphs, inputs, weights);
    ggml_opt_context_t training     = ggml_opt_init(opt);
    ggml_opt_result_t  result       = ggml_opt_result_init();
    uint64_t           losses       = FNV1A_64_START;
    for (int epoch = 0; epoch < 3; epoch++) {
        double loss = NAN;
        ggml_opt_result_reset(result);
        ggml_opt_epoch(training, data, result, NULL, POINTS, NULL, NULL);
        ggml_opt_result_loss(result, &loss, NULL);
        losses = fnv1a_64(losses, &loss, sizeof(loss));
        CHECK(isfinite(loss), "epoch %d: no loss", epoch);
    }
    uint64_t hash = FNV1A_64_START;
    for (int i = 0; i < 2 * LAYERS; i++) {
        hash = fnv1a_64(hash, weights[i]->data, ggml_nbytes(weights[i]));
    }
    printf("losses=%016llx weights=%016llx\n", (unsigned long long) losses, (unsigned long long) hash);
    printf("bytes=%zu\n", ggml_backend_sched_get_buffer_size(sched, cpu));
    ggml_opt_result_free(result);
    ggml_opt_free(training);
    ggml_opt_dataset_free(data);
    ggml_backend_sched_free(sched);
    ggml_free(graphs);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(cpu);
    return 0;
}
