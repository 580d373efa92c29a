// Prints the measured and the reserved sizes of a graph, with two buffer types of which the second repeats the
// first. For any version of ggml, and for lastuse at work or switched off.
//
//   measure_and_reserve            a graph of inputs
//   measure_and_reserve weights    the same, which also reads a weight that waits for its memory

#include "ggml-alloc.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "reports.h"

#include <stdio.h>
#include <string.h>

// `weight` may be NULL.
static struct ggml_cgraph * new_graph(struct ggml_context * ctx, struct ggml_tensor * weight) {
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64);
    ggml_set_input(x);
    struct ggml_tensor * y = x;
    for (int i = 0; i < 8; i++) {
        y = ggml_add(ctx, ggml_norm(ctx, y, 1e-5f), x);
    }
    y = weight != NULL ? ggml_mul(ctx, y, weight) : y;
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    return graph;
}

static struct ggml_context * new_weights(void) {
    struct lastuse_context_params params = { .struct_size = sizeof(params), .buft = ggml_backend_cpu_buffer_type() };
    return lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params);
}

int main(int argc, char ** argv) {
    bool                    has_weight = argc > 1 && strcmp(argv[1], "weights") == 0;
    struct ggml_context *   weights    = new_weights();
    struct ggml_tensor *    weight     = has_weight ? ggml_new_tensor_2d(weights, GGML_TYPE_F32, 64, 64) : NULL;
    struct ggml_init_params params     = { .mem_size = 1024 * 1024, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context *   ctx        = ggml_init(params);
    struct ggml_cgraph *    graph      = new_graph(ctx, weight);

    ggml_backend_buffer_type_t bufts[2]        = { ggml_backend_cpu_buffer_type(), ggml_backend_cpu_buffer_type() };
    size_t                     sizes[2]        = { 1, 1 };
    size_t                     lower_bounds[2] = { 1, 1 };
    bool measured = lastuse_graph_measure(&graph, 1, bufts, 2, NULL, NULL, sizes, lower_bounds);
    printf("measured=%d\nerror=%s\n", measured, lastuse_last_error());
    printf("sizes=%zu %zu\nlower_bounds=%zu %zu\n", sizes[0], sizes[1], lower_bounds[0], lower_bounds[1]);

    ggml_gallocr_t galloc   = ggml_gallocr_new_n(bufts, 2);
    bool           reserved = ggml_gallocr_reserve_n(galloc, graph, NULL, NULL);
    printf("reserved=%zu %zu\n", ggml_gallocr_get_buffer_size(galloc, 0), ggml_gallocr_get_buffer_size(galloc, 1));
    printf("reserved_bound=%zu %zu\n", lower_bound_of(galloc, 0), lower_bound_of(galloc, 1));
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
    lastuse_context_free(weights);
    return reserved ? 0 : 1;
}
