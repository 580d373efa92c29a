// The bytes of compute buffers, before and after they are allocated, and what explains them. Explained in docs/api.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_graph_measure(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 512, 2048);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_soft_max(ctx, ggml_mul_mat(ctx, input, input)));

    struct ggml_backend_buffer_type * type = ggml_backend_get_default_buffer_type(backend);
    size_t size, lower_bound;
    if (!lastuse_graph_measure(&graph, 1, &type, 1, NULL, NULL, &size, &lower_bound)) {
        fprintf(stderr, "%s\n", lastuse_last_error());
        abort();
    }
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    GGML_ASSERT(ggml_gallocr_reserve(galloc, graph));
    GGML_ASSERT(ggml_gallocr_get_buffer_size(galloc, 0) == size && lower_bound <= size);
    ggml_gallocr_free(galloc);

    struct ggml_cgraph * graphs[2] = { graph, ggml_new_graph(ctx) }; // such as those of a prompt and of a token
    ggml_build_forward_expand(graphs[1], ggml_sqr(ctx, input));
    size_t both;
    GGML_ASSERT(lastuse_graph_measure(graphs, 2, &type, 1, NULL, NULL, &both, NULL) && both >= size);
}

void example_of_lastuse_gallocr_report(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, input)));
    struct ggml_tensor * huge = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, (int64_t) 1 << 50);
    ggml_set_input(huge);
    struct ggml_cgraph * too_large = ggml_new_graph(ctx);
    ggml_build_forward_expand(too_large, ggml_sum(ctx, huge));

    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_reserve(galloc, graph));
    struct lastuse_gallocr_sizes sizes = { sizeof(sizes) };
    if (lastuse_gallocr_report(galloc, 0, &sizes)) { // false if lastuse is not enabled
        GGML_ASSERT(sizes.lower_bound <= sizes.size);
        printf("%zu bytes, of which a better plan could save %zu at most\n", sizes.size, sizes.size - sizes.lower_bound);
        GGML_ASSERT(!ggml_gallocr_reserve(galloc, too_large));
        GGML_ASSERT(lastuse_gallocr_report(galloc, 0, &sizes) && sizes.plan_size > ggml_nbytes(huge));
        printf("%zu bytes are needed\n", sizes.plan_size);
    }
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_gallocr_explain(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_set_name(ggml_sum(ctx, ggml_sqr(ctx, input)), "total"));

    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    char * text = lastuse_gallocr_explain(galloc, graph);
    GGML_ASSERT((text != NULL) == lastuse_enabled());
    puts(text != NULL ? text : lastuse_last_error());
    GGML_ASSERT(text == NULL || strstr(text, "Live at that step, largest first:") != NULL);
    lastuse_string_free(text);
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_string_free(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_string_free(NULL);
}
