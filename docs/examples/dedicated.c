// Results in buffers of the program, where they survive later graphs. Explained in docs/dedicated.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_tensor_dedicate(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_input(input);
    struct ggml_tensor * state = ggml_scale(ctx, input, 2.0f);
    struct ggml_tensor * last  = ggml_view_1d(ctx, ggml_sqr(ctx, state), 1, 63 * sizeof(float));

    ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(backend);
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(buft, 4096);
    struct ggml_tallocr talloc = ggml_tallocr_new(buffer);
    struct ggml_tensor * kept[2];
    kept[0] = lastuse_tensor_dedicate(ctx, state, &talloc);
    kept[1] = lastuse_tensor_dedicate(ctx, last, &talloc);
    GGML_ASSERT(kept[0] == state);                    // written by ggml_scale
    GGML_ASSERT(kept[1] != NULL && kept[1] != last);  // a view is copied
    GGML_ASSERT(talloc.offset >= 65 * sizeof(float)); // the bytes that they take
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, kept[0]);
    ggml_build_forward_expand(graph, kept[1]);
    ggml_gallocr_t galloc = ggml_gallocr_new(buft);
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    float ones[64], value;
    for (int i = 0; i < 64; i++) { ones[i] = 1.0f; }
    ggml_backend_tensor_set(input, ones, 0, sizeof(ones));
    GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
    ggml_backend_tensor_get(kept[1], &value, 0, sizeof(value)); // also after other graphs
    GGML_ASSERT(value == 4.0f);
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffer);
    ggml_set_no_alloc(ctx, false);
}
