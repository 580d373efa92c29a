// A program that does not use lastuse: two schedulers on the CPU compute in turns, a large graph and a small one. Prints the sums
// of both results; with an argument it reads that of the large one last.

#include "check.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

enum { WIDTH = 256, RUNS = 3 };

struct computed {
    struct ggml_context * ctx;
    struct ggml_tensor *  sum;
};

static struct computed compute(ggml_backend_sched_t sched, int64_t rows) {
    struct ggml_context * ctx   = no_alloc_context(16 * ggml_tensor_overhead() + ggml_graph_overhead());
    struct ggml_tensor *  input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, rows);
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    struct ggml_tensor *  sum   = ggml_sum(ctx, ggml_mul(ctx, ggml_sqr(ctx, input), ggml_scale(ctx, input, 0.5f)));
    ggml_set_input(input);
    ggml_set_name(sum, rows > 64 ? "large" : "small");
    ggml_build_forward_expand(graph, sum);
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, graph), "not allocated");
    for (int64_t i = 0; i < ggml_nelements(input); i++) {
        ((float *) input->data)[i] = (float) (i % 7);
    }
    CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "not computed");
    return (struct computed) { ctx, sum };
}

static void print_and_free(struct computed it) {
    float sum;
    ggml_backend_tensor_get(it.sum, &sum, 0, sizeof(sum));
    printf("sum=%a\n", (double) sum);
    ggml_free(it.ctx);
}

int main(int argc, char ** argv) {
    (void) argv;
    ggml_backend_t       cpu      = ggml_backend_cpu_init();
    ggml_backend_sched_t scheds[] = { ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false),
                                      ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false) };
    for (int run = 0; run < RUNS; run++) {
        struct computed large = compute(scheds[0], 512);
        if (argc == 1) {
            print_and_free(large);
        }
        print_and_free(compute(scheds[1], 64));
        if (argc > 1) {
            print_and_free(large);
        }
    }
    ggml_backend_sched_free(scheds[0]);
    ggml_backend_sched_free(scheds[1]);
    ggml_backend_free(cpu);
    return 0;
}
