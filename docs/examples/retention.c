// Values that can be read after their last use. Explained in docs/values.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_tensor_retain(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_input(input);
    struct ggml_tensor * hidden = ggml_scale(ctx, input, 2.0f);
    struct ggml_tensor * result = ggml_sqr(ctx, hidden); // would be computed in place of hidden
    struct ggml_cgraph * graph  = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, result);

    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    bool is_retained = lastuse_tensor_retain(galloc, hidden, NULL); // false if lastuse is not enabled
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    const float one = 1.0f;
    for (size_t i = 0; i < 64; i++) { ggml_backend_tensor_set(input, &one, i*sizeof(one), sizeof(one)); }
    GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
    float value;
    ggml_backend_tensor_get(hidden, &value, 0, sizeof(value));
    GGML_ASSERT(!is_retained || value == 2.0f);
    lastuse_tensor_retain(galloc, hidden, result); // from the next plan on, until result has run
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_tensor_release(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_tensor * t = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    bool is_retained = lastuse_tensor_retain(galloc, t, NULL);
    GGML_ASSERT(lastuse_tensor_release(galloc, t) == is_retained);
    GGML_ASSERT(!lastuse_tensor_release(galloc, t)); // it is not retained any more
    ggml_gallocr_free(galloc);
}

