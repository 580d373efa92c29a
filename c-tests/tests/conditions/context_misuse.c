// Uses of freed or foreign contexts. Debug builds of lastuse abort with a message; release builds log the message and
// do nothing, which each case expects.
//
//   context_misuse <case>

#include "cases.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"

static void expect_error(const char * function, const char * part) {
    const char * error = lastuse_last_error();
    CHECK(strncmp(error, function, strlen(function)) == 0 && strstr(error, part) != NULL, "%s", error);
}

static struct ggml_context * context_with_tensor(ggml_backend_buffer_type_t type) {
    struct lastuse_context_params params = { .struct_size = sizeof(params), .buft = type };
    struct ggml_context *         ctx    = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params);
    ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 10);
    return ctx;
}

CASE(freed_twice) {
    struct ggml_context * ctx = context_with_tensor(NULL);
    lastuse_context_free(ctx);
    lastuse_context_free(ctx);
    expect_error("lastuse_context_free: ", "freed before");
}

CASE(realized_after_free) {
    struct ggml_context * ctx = context_with_tensor(ggml_backend_cpu_buffer_type());
    lastuse_context_free(ctx);
    CHECK(!lastuse_context_realize(ctx), "it is freed");
    expect_error("lastuse_context_realize: ", "freed before");
}

CASE(context_of_ggml) {
    struct ggml_context * ctx = no_alloc_context(10000);
    lastuse_context_free(ctx);
    expect_error("lastuse_context_free: ", "was not created by lastuse_context_new");
    CHECK(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 10) != NULL, "the context is still valid");
    ggml_free(ctx);
}

CASE(freed_by_ggml) {
    struct ggml_context * ctx = context_with_tensor(ggml_backend_cpu_buffer_type());
    ggml_free(ctx);
    lastuse_context_free(ctx);
    expect_error("lastuse_context_free: ", "freed with ggml_free");
}

CASE(realized_after_ggml_free) {
    struct ggml_context * ctx = context_with_tensor(ggml_backend_cpu_buffer_type());
    ggml_free(ctx);
    CHECK(!lastuse_context_realize(ctx), "it is freed");
    expect_error("lastuse_context_realize: ", "freed with ggml_free");
}
