// Contexts of ggml that need no size. Explained in docs/contexts.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_context_new(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_context * graphs = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    for (int token = 0; token < 3; token++) {
        ggml_reset(graphs);
        struct ggml_tensor * sum = ggml_new_tensor_1d(graphs, GGML_TYPE_F32, 64);
        ggml_set_input(sum);
        for (int layer = 0; layer < 1000; layer++) {
            sum = ggml_add(graphs, sum, sum);
        }
        struct ggml_cgraph * graph = ggml_new_graph_custom(graphs, 2000, false);
        ggml_build_forward_expand(graph, sum);
        GGML_ASSERT(ggml_graph_n_nodes(graph) == 1000 && sum->data == NULL);
    }
    lastuse_context_free(graphs);
}

void example_of_lastuse_context_realize(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_context_params params = { sizeof(params), NULL, 0, GGML_BACKEND_BUFFER_USAGE_WEIGHTS };
    params.buft = ggml_backend_get_default_buffer_type(backend);
    struct ggml_context * weights = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params);
    struct ggml_tensor * weight = ggml_new_tensor_2d(weights, GGML_TYPE_F32, 4, 2);
    const float values[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    GGML_ASSERT(lastuse_context_realize(weights));
    ggml_backend_tensor_set(weight, values, 0, sizeof(values));
    struct ggml_tensor * later = ggml_dup_tensor(weights, weight);
    GGML_ASSERT(lastuse_context_realize(weights) && later->data != NULL && later->data != weight->data);
    lastuse_context_free(weights);
}

void example_of_lastuse_context_free(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_context * inputs = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, NULL);
    ggml_set_f32(ggml_new_tensor_1d(inputs, GGML_TYPE_F32, 8), 1.0f);
    lastuse_context_free(inputs);
    lastuse_context_free(NULL);
}
