// A program that does not use lastuse and has its own graph allocator: reserves for a graph, builds it again, allocates
// and computes it. Two wide results are live at a time in the order in which it builds them.
//
//   plain_allocator
//
// prints the sum and the bytes of the compute buffer.

#include <stdio.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

static struct ggml_tensor * wide(struct ggml_context * ctx, struct ggml_tensor * x, float factor) {
    return ggml_repeat_4d(ctx, ggml_scale(ctx, x, factor), x->ne[0], 64 * x->ne[1], 1, 1);
}

static struct ggml_cgraph * build(struct ggml_context * ctx, struct ggml_tensor ** input) {
    ggml_reset(ctx);
    *input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 8);
    ggml_set_input(*input);
    struct ggml_cgraph * graph     = ggml_new_graph(ctx);
    struct ggml_tensor * both[2]   = { wide(ctx, *input, 1.0f), wide(ctx, *input, 3.0f) };
    ggml_build_forward_expand(graph, both[0]);
    ggml_build_forward_expand(graph, both[1]);
    ggml_build_forward_expand(graph, ggml_add(ctx, ggml_sum(ctx, both[0]), ggml_sum(ctx, both[1])));
    return graph;
}

int main(void) {
    ggml_backend_t        cpu    = ggml_backend_cpu_init();
    struct ggml_context * ctx    = ggml_init((struct ggml_init_params){ .mem_size = 1 << 20, .no_alloc = true });
    ggml_gallocr_t        galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(cpu));
    struct ggml_tensor *  input;
    if (!ggml_gallocr_reserve(galloc, build(ctx, &input))) {
        return 1;
    }
    struct ggml_cgraph * graph = build(ctx, &input);
    if (!ggml_gallocr_alloc_graph(galloc, graph)) {
        return 1;
    }
    for (int64_t i = 0; i < ggml_nelements(input); i++) {
        ((float *) input->data)[i] = (float) (i % 7) / 8.0f;
    }
    if (ggml_backend_graph_compute(cpu, graph) != GGML_STATUS_SUCCESS) {
        return 1;
    }
    float sum = 0.0f;
    ggml_backend_tensor_get(ggml_graph_node(graph, -1), &sum, 0, sizeof(sum));
    printf("sum=%.9g\nsize=%zu\n", (double) sum, ggml_gallocr_get_buffer_size(galloc, 0));
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
    ggml_backend_free(cpu);
    return 0;
}
