// What devices hold, to the byte. Explained in docs/accounting.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_buffer_note(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_backend_buffer_t outputs = ggml_backend_alloc_buffer(backend, 4096);
    GGML_ASSERT(!lastuse_buffer_note(outputs, 4096, false)); // nothing is recorded
    lastuse_buffer_note_free(outputs);
    ggml_backend_buffer_free(outputs);
}

void example_of_lastuse_buffer_note_free(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_backend_buffer_t buffer = ggml_backend_alloc_buffer(backend, 64);
    lastuse_buffer_note(buffer, 64, false);
    lastuse_buffer_note_free(buffer);
    ggml_backend_buffer_free(buffer);
}

void example_of_lastuse_accounting_new(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true);
    struct ggml_tensor * w     = ggml_set_name(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64), "w");
    struct ggml_tensor * x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_init_params size = { 2 * ggml_tensor_overhead(), NULL, true };
    struct ggml_context * weights = ggml_init(size);
    struct ggml_tensor * kept  = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 100);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(weights, backend);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_set_input(x);
    ggml_set_input(w);
    ggml_build_forward_expand(graph, ggml_mul_mat(ctx, w, x));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));

    struct lastuse_accounting_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.graphs      = &graph;
    params.n_graphs    = 1;
    params.contexts    = &weights;
    params.n_contexts  = 1;
    params.backend     = backend;
    struct lastuse_accounting * accounting = lastuse_accounting_new(&params);
    GGML_ASSERT(accounting != NULL && lastuse_accounting_device_count(accounting) == 1);
    struct lastuse_device_sums sums;
    memset(&sums, 0, sizeof(sums));
    sums.struct_size = sizeof(sums);
    GGML_ASSERT(lastuse_accounting_device(accounting, 0, &sums));
    printf("%s: %zu weights, %zu compute, %zu free\n", sums.name, sums.weights, sums.compute, sums.device_free);
    GGML_ASSERT(sums.weights == ggml_nbytes(kept) && sums.compute >= ggml_nbytes(w));
    GGML_ASSERT(sums.total == ggml_backend_buffer_get_size(buffer) + ggml_gallocr_get_buffer_size(galloc, 0));
    lastuse_accounting_free(accounting);
    ggml_gallocr_free(galloc);
    ggml_backend_buffer_free(buffer);
    ggml_free(weights);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_accounting_device_count(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_accounting_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    struct lastuse_accounting * accounting = lastuse_accounting_new(&params);
    printf("%zu devices have buffers\n", lastuse_accounting_device_count(accounting));
    lastuse_accounting_free(accounting);
}

void example_of_lastuse_accounting_device(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_accounting_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    struct lastuse_accounting * accounting = lastuse_accounting_new(&params);
    struct lastuse_device_sums sums;
    memset(&sums, 0, sizeof(sums));
    sums.struct_size = sizeof(sums);
    for (size_t i = 0; lastuse_accounting_device(accounting, i, &sums); i++) {
        printf("%s: %zu bytes\n", sums.name, sums.total);
    }
    lastuse_accounting_free(accounting);
}

void example_of_lastuse_accounting_text(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_accounting_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    struct lastuse_accounting * accounting = lastuse_accounting_new(&params);
    char * text = lastuse_accounting_text(accounting, "log");
    GGML_ASSERT(strstr(text, "tensors processed: 0/0") != NULL);
    lastuse_string_free(text);
    GGML_ASSERT(lastuse_accounting_text(accounting, "xml") == NULL);
    lastuse_accounting_free(accounting);
}

void example_of_lastuse_accounting_write(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_accounting_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    struct lastuse_accounting * accounting = lastuse_accounting_new(&params);
    GGML_ASSERT(lastuse_accounting_write(accounting, "/dev/stderr"));
    GGML_ASSERT(!lastuse_accounting_write(accounting, "/no/such/folder/memory.json"));
    printf("%s\n", lastuse_last_error());
    lastuse_accounting_free(accounting);
}

void example_of_lastuse_accounting_free(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_accounting_free(NULL);
}
