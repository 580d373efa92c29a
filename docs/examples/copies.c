// Order as a part of the graph, results without copies, and a better order. Explained in docs/copies.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_ggml_dependency(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_tensor * rows  = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 2);
    struct ggml_tensor * cache = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 16);
    struct ggml_tensor * slots = ggml_view_2d(ctx, cache, 8, 2, cache->nb[1], 4*cache->nb[1]);
    struct ggml_tensor * copy  = ggml_cpy(ctx, rows, slots);
    struct ggml_tensor * keys  = ggml_dependency(ctx, cache, copy);
    struct ggml_tensor * sum   = ggml_sum(ctx, keys);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, sum); // adds the copy too, before keys
    GGML_ASSERT(ggml_graph_n_nodes(graph) == 4);
}

void example_of_lastuse_tensor_set_output(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_tensor * cache   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 16);
    struct ggml_tensor * slots   = ggml_view_2d(ctx, cache, 8, 2, cache->nb[1], 4*cache->nb[1]);
    struct ggml_tensor * weights = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 8);
    struct ggml_tensor * input   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 2);
    for (int i = 0; i < 32; i++) { ((float *) weights->data)[i] = 0.5f; }
    for (int i = 0; i <  8; i++) { ((float *) input->data)[i]   = 1.0f; }
    ggml_set_no_alloc(ctx, true); // results get their memory from an allocator
    struct ggml_tensor * rows = ggml_mul_mat(ctx, weights, input);
    rows = ggml_set_output(rows, slots); // if it returns NULL, use ggml_cpy(ctx, rows, slots)
    GGML_ASSERT(rows != NULL);
    struct ggml_tensor * keys  = ggml_dependency(ctx, cache, rows);
    struct ggml_tensor * twice = ggml_scale(ctx, keys, 2.0f);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, twice);
    ggml_gallocr_t allocator = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_alloc_graph(allocator, graph));
    GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
    GGML_ASSERT(rows->data == slots->data && ((float *) cache->data)[4*8] == 2.0f);
    ggml_gallocr_free(allocator);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_graph_remove_copies(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_tensor * weights = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 8);
    struct ggml_tensor * input   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 4, 2);
    struct ggml_tensor * cache   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 8, 16);
    for (int i = 0; i < 32; i++) { ((float *) weights->data)[i] = 0.5f; }
    for (int i = 0; i <  8; i++) { ((float *) input->data)[i]   = 1.0f; }
    struct ggml_tensor * keys  = ggml_mul_mat(ctx, weights, input);
    struct ggml_tensor * slots = ggml_view_2d(ctx, cache, 8, 2, cache->nb[1], 4*cache->nb[1]);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_cpy(ctx, keys, slots));
    struct lastuse_copies_report report = { sizeof(report) };
    GGML_ASSERT(lastuse_graph_remove_copies(graph, NULL, &report) && report.removed == 1);
    GGML_ASSERT(report.bytes_removed == ggml_nbytes(keys));
    GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
    GGML_ASSERT(((float *) cache->data)[4*8] == 2.0f && keys->data == slots->data); // the product was written there
}

void example_of_lastuse_graph_reorder(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    struct ggml_tensor * wide[2];
    for (int i = 0; i < 2; i++) {
        wide[i] = ggml_pad(ctx, ggml_scale(ctx, input, i + 1.0f), 65536, 0, 0, 0);
        ggml_build_forward_expand(graph, wide[i]); // in this order both are live at the same time
    }
    ggml_build_forward_expand(graph, ggml_add(ctx, ggml_sum(ctx, wide[0]), ggml_sum(ctx, wide[1])));

    struct lastuse_reorder_report report;
    memset(&report, 0, sizeof(report));
    report.struct_size = sizeof(report);
    struct lastuse_reorder_params params = { sizeof(params), ggml_backend_get_default_buffer_type(backend) };
    if (lastuse_graph_reorder(graph, &params, &report)) {
        GGML_ASSERT(report.size_after < report.size_before * 3 / 4); // one after the other
    }
    GGML_ASSERT(report.nodes_moved > 0 || !lastuse_enabled());
}
