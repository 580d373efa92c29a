// Results that lie in a part of a source, and sources that lie in a part of the result, where more than a copy is made.

#include "in_place.h"

// Not in every version.
extern struct ggml_tensor * ggml_gated_delta_net(struct ggml_context * ctx, struct ggml_tensor * q,
                                                 struct ggml_tensor * k, struct ggml_tensor * v,
                                                 struct ggml_tensor * g, struct ggml_tensor * beta,
                                                 struct ggml_tensor * state, int64_t n_snapshots)
    __attribute__((weak));

// Half of a row: the variant selects which half is the gate, and which half becomes the result.
static struct ggml_tensor * build_glu_of_one_row(struct form form) {
    struct ggml_tensor * a = form_operand_of(form, form.ne[0] * 2, 1, 1, 1);
    return ggml_glu(form.ctx, a, GGML_GLU_OP_SWIGLU, form.variant % 2 == 1);
}

static ptrdiff_t second_half(const struct ggml_tensor * node, int i) {
    (void) i;
    return -(ptrdiff_t) ggml_nbytes(node);
}

static struct ggml_tensor * build_gated_delta_net(struct form form) {
    struct ggml_context * ctx   = form.ctx;
    int64_t               width = form.ne[0] < 33 ? form.ne[0] : 33;
    int64_t               heads = form.ne[1] < 7 ? form.ne[1] : 7;
    struct ggml_tensor *  q     = ggml_new_tensor_4d(ctx, form.type, width, heads, form.ne[2], form.ne[3]);
    struct ggml_tensor *  k     = ggml_new_tensor_4d(ctx, form.type, width, heads, form.ne[2], form.ne[3]);
    struct ggml_tensor *  v     = ggml_new_tensor_4d(ctx, form.type, width, heads, form.ne[2], form.ne[3]);
    struct ggml_tensor *  g     = ggml_new_tensor_4d(ctx, form.type, 1, heads, form.ne[2], form.ne[3]);
    struct ggml_tensor *  beta  = ggml_new_tensor_4d(ctx, form.type, 1, heads, form.ne[2], form.ne[3]);
    struct ggml_tensor *  state = ggml_new_tensor_4d(ctx, form.type, width, width, heads, form.ne[3]);
    return ggml_gated_delta_net(ctx, q, k, v, g, beta, state, 1);
}

static ptrdiff_t state_in_result(const struct ggml_tensor * node, int i) {
    return (ptrdiff_t) (ggml_nbytes(node) - ggml_nbytes(node->src[i]));
}

// The shape up to the dimension that the variant names, with `count` times as much of that one.
static struct form up_to_dimension(struct form form, int64_t count) {
    for (int i = form.variant + 1; i < GGML_MAX_DIMS; i++) {
        form.ne[i] = 1;
    }
    form.ne[form.variant] *= count;
    return form;
}

static struct ggml_tensor * build_repeat(struct form form) {
    struct form          whole = up_to_dimension(form, 3);
    struct ggml_tensor * a     = form_operand(up_to_dimension(form, 1));
    return ggml_repeat_4d(form.ctx, a, whole.ne[0], whole.ne[1], whole.ne[2], whole.ne[3]);
}

static struct ggml_tensor * build_pad(struct form form) {
    struct ggml_tensor * a     = form_operand(up_to_dimension(form, 1));
    int                  pad[] = { 0, 0, 0, 0 };
    pad[form.variant]          = 3;
    return ggml_pad(form.ctx, a, pad[0], pad[1], pad[2], pad[3]);
}

static const struct rule RULES_OF_PARTS[] = {
    {
        .name = "REPEAT along the slowest dimension, its source at the start of its result",
        .build = build_repeat,
        .variants = GGML_MAX_DIMS,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
    },
    {
        .name = "PAD behind the end of the slowest dimension, its source at the start of its result",
        .build = build_pad,
        .variants = GGML_MAX_DIMS,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "GLU of one row over its first half",
        .build = build_glu_of_one_row,
        .variants = 2,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
    },
    {
        .name = "GLU of one row over its second half",
        .build = build_glu_of_one_row,
        .variants = 2,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
        .offset = second_half,
    },
    {
        .name = "GATED_DELTA_NET with its state at the end of its result",
        .build = build_gated_delta_net,
        .sources = SOURCE(5),
        .types = TYPE(F32),
        .since = VERSION(0, 26, 0),
        .offset = state_in_result,
    },
};

const struct rules PART_RULES = RULES("parts", RULES_OF_PARTS);
