// A graph that fits a budget, since large intermediates are computed in tiles. Explained in docs/tiling.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <string.h>

#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_graph_tile(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * q = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 32, 256, 8);
    struct ggml_tensor * k = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 32, 256, 8);
    struct ggml_tensor * v = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 256, 32, 8);
    ggml_set_input(q);
    ggml_set_input(k);
    ggml_set_input(v);
    struct ggml_tensor * scores = ggml_soft_max(ctx, ggml_mul_mat(ctx, k, q)); // 2 MiB
    struct ggml_tensor * mixed  = ggml_mul_mat(ctx, v, scores);
    struct ggml_tensor * sum    = ggml_sum(ctx, mixed);
    ggml_set_output(sum);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 512, false); // room for the tiles
    ggml_build_forward_expand(graph, sum);

    struct lastuse_tiling_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.buft        = ggml_backend_get_default_buffer_type(backend);
    params.budget      = 2 * 1024 * 1024;
    struct lastuse_tiling_report report;
    memset(&report, 0, sizeof(report));
    report.struct_size = sizeof(report);
    if (lastuse_graph_tile(ctx, graph, &params, &report)) {
        GGML_ASSERT(report.size_after <= params.budget && report.size_before > params.budget);
        GGML_ASSERT(report.n_tilings == 1 && report.most_tiles > 1);
    } else {
        GGML_ASSERT(!lastuse_enabled()); // otherwise lastuse_last_error has the reason
    }
}
