// Uses of a freed context that only debug builds of lastuse detect: the program must not reach its end.
//
//   context_freed <case>

#include "cases.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"

CASE(dependency_in_a_freed_context) {
    struct ggml_context * freed = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    struct ggml_context * ctx   = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    struct ggml_tensor *  a     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 10);
    struct ggml_tensor *  b     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 10);
    lastuse_context_free(freed);
    ggml_dependency(freed, a, b);
}

CASE(dependency_on_a_tensor_of_a_freed_context) {
    struct ggml_context * freed = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    struct ggml_context * ctx   = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    struct ggml_tensor *  a     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 10);
    struct ggml_tensor *  b     = ggml_new_tensor_1d(freed, GGML_TYPE_F32, 10);
    lastuse_context_free(freed);
    ggml_dependency(ctx, a, b);
}

CASE(tensor_in_a_freed_context) {
    struct ggml_context * freed = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    lastuse_context_free(freed);
    ggml_new_tensor_1d(freed, GGML_TYPE_F32, 10);
}

CASE(data_of_a_freed_context) {
    struct ggml_context * freed = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, NULL);
    struct ggml_tensor *  t     = ggml_new_tensor_1d(freed, GGML_TYPE_F32, 10);
    float *               data  = t->data;
    lastuse_context_free(freed);
    // The new tensor would have the address of the freed one.
    ggml_set_f32(ggml_new_tensor_1d(lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, NULL), GGML_TYPE_F32, 10), 1.0f);
    CHECK(data[0] != data[0] + 1.0f, "never reached");
}
