// A program that does not use lastuse: two schedulers on the CPU compute in turns, a large graph and a small one. Prints the sums
// of both results.

#include "check.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

enum { WIDTH = 256, RUNS = 3 };

static void compute(ggml_backend_sched_t sched, int64_t rows) {
    struct ggml_context * ctx   = no_alloc_context(16 * ggml_tensor_overhead() + ggml_graph_overhead());
    struct ggml_tensor *  input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, rows);
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    struct ggml_tensor *  sum   = ggml_sum(ctx, ggml_mul(ctx, ggml_sqr(ctx, input), ggml_scale(ctx, input, 0.5f)));
    ggml_set_input(input);
    ggml_build_forward_expand(graph, sum);
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph), "not allocated");
    for (int64_t i = 0; i < ggml_nelements(input); i++) {
        ((float *) input->data)[i] = (float) (i % 7);
    }
    CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "not computed");
    printf("sum=%a\n", (double) *(float *) sum->data);
    ggml_free(ctx);
}

int main(void) {
    ggml_backend_t       cpu      = ggml_backend_cpu_init();
    ggml_backend_sched_t scheds[] = { ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false),
                                      ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false) };
    for (int run = 0; run < RUNS; run++) {
        compute(scheds[0], 512);
        compute(scheds[1], 64);
    }
    ggml_backend_sched_free(scheds[0]);
    ggml_backend_sched_free(scheds[1]);
    ggml_backend_free(cpu);
    return 0;
}
