// A training graph that fits a budget, since forward results are computed again. Explained in docs/recomputation.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <string.h>

#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_graph_recompute(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 256);
    ggml_set_input(input);
    struct ggml_tensor * weights[4];
    struct ggml_tensor * x = input;
    for (int i = 0; i < 4; i++) {
        weights[i] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64);
        ggml_set_param(weights[i]);
        x = ggml_silu(ctx, ggml_mul_mat(ctx, weights[i], x));
    }
    struct ggml_tensor * loss = ggml_sum(ctx, ggml_sqr(ctx, x));
    ggml_set_loss(loss);
    ggml_set_output(loss);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 512, true); // room for the copies
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(ctx, graph, NULL);

    struct lastuse_recompute_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.buft        = ggml_backend_get_default_buffer_type(backend);
    params.budget      = 640 * 1024;
    struct lastuse_recompute_report report;
    memset(&report, 0, sizeof(report));
    report.struct_size = sizeof(report);
    if (lastuse_graph_recompute(ctx, graph, &params, &report)) {
        GGML_ASSERT(report.size_after <= params.budget && report.size_before > params.budget);
        GGML_ASSERT(report.nodes_again > 0 && report.work_after > report.work_before);
    } else {
        GGML_ASSERT(!lastuse_enabled()); // otherwise lastuse_last_error has the reason
    }
}
