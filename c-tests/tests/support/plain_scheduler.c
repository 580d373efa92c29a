// A program that does not use lastuse: a graph of a scheduler, computed twice, with a function of the program in it.
//
//   plain_scheduler [fault]
//
// prints the sum and how many nodes its callback was shown. With "fault" the function writes into a weight.

#include <stdio.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

static struct ggml_tensor * weight;
static bool                 is_faulty;
static int                  shown;

static void twice(struct ggml_tensor * dst, const struct ggml_tensor * a, int ith, int nth, void * user_data) {
    (void) nth;
    (void) user_data;
    if (ith != 0) {
        return;
    }
    for (int64_t i = 0; i < ggml_nelements(dst); i++) {
        ((float *) dst->data)[i] = 2.0f * ((const float *) a->data)[i];
    }
    if (is_faulty) {
        ((float *) weight->data)[3] = 7.0f;
    }
}

static bool show_all(struct ggml_tensor * t, bool ask, void * user_data) {
    (void) t;
    (void) user_data;
    shown += ask ? 0 : 1;
    return true;
}

int main(int argc, char ** argv) {
    is_faulty = argc > 1 && strcmp(argv[1], "fault") == 0;
    ggml_backend_t        cpu     = ggml_backend_cpu_init();
    struct ggml_init_params size  = { .mem_size = 1 << 20, .no_alloc = true };
    struct ggml_context * weights = ggml_init(size);
    weight                        = ggml_new_tensor_2d(weights, GGML_TYPE_F32, 64, 32);
    ggml_set_name(weight, "weight");
    ggml_backend_buffer_t buffer  = ggml_backend_alloc_ctx_tensors(weights, cpu);
    for (int64_t i = 0; i < ggml_nelements(weight); i++) {
        ((float *) weight->data)[i] = (float) (i % 7) - 3.0f;
    }

    struct ggml_context * ctx   = ggml_init(size);
    struct ggml_tensor *  input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 8);
    ggml_set_input(input);
    struct ggml_tensor * hidden = ggml_mul_mat(ctx, weight, input);
    struct ggml_tensor * doubled = ggml_map_custom1(ctx, hidden, twice, 1, NULL);
    ggml_set_name(doubled, "doubled");
    struct ggml_tensor * sum = ggml_sum(ctx, ggml_soft_max(ctx, ggml_add(ctx, ggml_sqr(ctx, doubled), hidden)));
    ggml_set_output(sum);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, sum);

    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false);
    ggml_backend_sched_set_eval_callback(sched, show_all, NULL);
    float result = 0.0f;
    if (!ggml_backend_sched_alloc_graph(sched, graph)) {
        return 1;
    }
    for (int run = 0; run < 2; run++) {
        for (int64_t i = 0; i < ggml_nelements(input); i++) {
            ((float *) input->data)[i] = (float) (i % 5) / 8.0f;
        }
        if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) {
            return 1;
        }
        ggml_backend_tensor_get(sum, &result, 0, sizeof(result));
    }
    printf("sum=%.9g\nshown=%d\n", (double) result, shown);
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_free(weights);
    ggml_backend_free(cpu);
    return 0;
}

#ifdef PLUGIN
// The function that load_plugin.c calls; main has another name then.
int plan_graphs(void) {
    char name[] = "plan_graphs";
    return main(1, (char *[]){ name, NULL });
}
#endif
