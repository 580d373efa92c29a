// Features of lastuse's API that the model uses: contexts without sizes, order as a part of the graph, results computed
// where they are wanted, sizes known before there is memory.
#pragma once

#include "errors.h"
#include "ggml.h"
#include "ggml-backend.h"
#include "lastuse.h"

#include <stddef.h>

// The program also links and runs where ggml's own allocator is the only one.
#pragma weak ggml_dependency
#pragma weak lastuse_context_free
#pragma weak lastuse_context_new
#pragma weak lastuse_context_realize
#pragma weak lastuse_graph_measure
#pragma weak lastuse_last_error
#pragma weak lastuse_tensor_set_output

static void expect_api(void) {
    if (lastuse_context_new == NULL) {
        die("--api lastuse: lastuse is neither linked nor preloaded");
    }
}

// For tensors with data. Usage is an enum ggml_backend_buffer_usage.
static struct ggml_context * api_data_context(ggml_backend_buffer_type_t type, int usage) {
    expect_api();
    const struct lastuse_context_params params = { .struct_size = sizeof(params), .buft = type, .usage = usage };
    struct ggml_context * ctx = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params);
    if (ctx == NULL) {
        die("%s", lastuse_last_error());
    }
    return ctx;
}

static void api_realize(struct ggml_context * ctx) {
    if (!lastuse_context_realize(ctx)) {
        die("%s", lastuse_last_error());
    }
}

// For graphs, one after the other.
static struct ggml_context * api_graph_context(void) {
    expect_api();
    struct ggml_context * ctx = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    if (ctx == NULL) {
        die("%s", lastuse_last_error());
    }
    return ctx;
}

// Computes `rows` in `slots`, or copies them there if they are converted.
static struct ggml_tensor * api_write(struct ggml_context * ctx, struct ggml_tensor * rows, struct ggml_tensor * slots) {
    if (rows->type != slots->type) {
        return ggml_cpy(ctx, rows, slots);
    }
    struct ggml_tensor * written = ggml_set_output(rows, slots);
    return written != NULL ? written : ggml_cpy(ctx, rows, slots);
}

// Bytes of the compute buffer that a graph needs.
static size_t api_measure(struct ggml_cgraph * cgraph, ggml_backend_t backend) {
    struct ggml_backend_buffer_type * type = ggml_backend_get_default_buffer_type(backend);
    size_t size = 0;
    if (!lastuse_graph_measure(&cgraph, 1, &type, 1, NULL, NULL, &size, NULL)) {
        die("%s", lastuse_last_error());
    }
    return size;
}
