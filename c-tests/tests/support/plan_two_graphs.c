// Plans a graph twice with the base library alone. Does not use lastuse.

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

static struct ggml_cgraph * build(struct ggml_context * context) {
    struct ggml_tensor * input = ggml_new_tensor_1d(context, GGML_TYPE_F32, 1000);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, ggml_add(context, ggml_sqr(context, input), ggml_neg(context, input)));
    return graph;
}

int main(void) {
    struct ggml_init_params params    = { .mem_size = 1024 * 1024, .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context *   context   = ggml_init(params);
    ggml_gallocr_t          allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    bool planned = ggml_gallocr_reserve(allocator, build(context)) && ggml_gallocr_alloc_graph(allocator, build(context));
    planned      = planned && ggml_gallocr_get_buffer_size(allocator, 0) > 0;
    ggml_gallocr_free(allocator);
    ggml_free(context);
    return planned ? 0 : 1;
}
