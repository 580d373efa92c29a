// Values of tensors in files, for NumPy. Explained in docs/values.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_graph_dump_begin(struct ggml_context * ctx, ggml_backend_t backend) {
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    struct ggml_tensor * t = ggml_neg(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8));
    ggml_build_forward_expand(graph, t);
    GGML_ASSERT(!lastuse_graph_dump_begin(graph)); // no names are set
}

void example_of_lastuse_graph_dump(struct ggml_context * ctx, ggml_backend_t backend) {
    GGML_ASSERT((lastuse_set("dump_dir", "dumped") && lastuse_set("dump", "square,sum")) == lastuse_enabled()); // before the graph is allocated
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    ggml_set_input(input);
    struct ggml_tensor * square = ggml_set_name(ggml_sqr(ctx, input), "square");
    struct ggml_cgraph * graph  = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_set_name(ggml_sum(ctx, ggml_sqrt(ctx, square)), "sum"));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));

    lastuse_graph_dump_begin(graph);
    GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
    size_t files = 0;
    GGML_ASSERT(lastuse_graph_dump(graph, &files) == lastuse_enabled());
    GGML_ASSERT(files == 2 || !lastuse_enabled()); // dumped/run-00001/node-00000-square.npy, and that of the sum
    lastuse_set("dump", NULL);
    ggml_gallocr_free(galloc);
}
