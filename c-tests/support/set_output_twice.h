// ggml_set_output with one argument is ggml's function, with two it is lastuse's: in C and in C++, whichever header
// came first.
#pragma once

#include <stdbool.h>
#include <stddef.h>

static inline bool set_output_is_two_functions(void) {
    struct ggml_init_params params = { 1024 * 1024, NULL, true };
    struct ggml_context *   ctx    = ggml_init(params);
    struct ggml_tensor *    a      = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    struct ggml_tensor *    t[2]   = { ggml_dup(ctx, a), ggml_dup(ctx, a) };
    struct ggml_tensor *    dst    = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8);
    int                     next   = 0;
    void (*flag)(struct ggml_tensor *) = ggml_set_output;
    void (*same)(struct ggml_tensor *) = &ggml_set_output;

    ggml_set_output(t[next++]); // evaluates its argument once
    bool one = next == 1 && t[0]->flags == GGML_TENSOR_FLAG_OUTPUT && t[0]->view_src == NULL;
    bool two = ggml_set_output(t[next++], dst) == t[1] && next == 2 && t[1]->flags == 0 && t[1]->view_src == dst;
    flag(dst);
    bool address = same == flag && dst->flags == GGML_TENSOR_FLAG_OUTPUT;
    (ggml_set_output)(a);
    bool in_brackets = a->flags == GGML_TENSOR_FLAG_OUTPUT;
    bool nested      = ggml_set_output(ggml_set_output(ggml_dup(ctx, a), ggml_dup(ctx, a)), a) == NULL;
    ggml_free(ctx);
    return one && two && address && in_brackets && nested;
}
