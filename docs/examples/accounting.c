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

void example_of_lastuse_accounting_json(struct ggml_context * ctx, ggml_backend_t backend) {
    if (!lastuse_set("accounting", "on")) {
        printf("lastuse is off: %s\n", lastuse_last_error());
        return;
    }
    ggml_set_no_alloc(ctx, true);
    struct ggml_tensor * x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_set_input(x);
    ggml_build_forward_expand(graph, ggml_sqr(ctx, x));
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    char * now = lastuse_accounting_json(false);
    GGML_ASSERT(now != NULL && strstr(now, "\"devices\":[{\"name\":\"CPU\"") != NULL);
    printf("%s\n", now);
    lastuse_string_free(now);
    ggml_gallocr_free(galloc);

    char * at_peak = lastuse_accounting_json(true); // also after everything was freed
    GGML_ASSERT(at_peak != NULL && strstr(at_peak, "\"usage\":\"compute\"") != NULL);
    lastuse_string_free(at_peak);
    lastuse_set("accounting", "off");
    ggml_set_no_alloc(ctx, false);
}
