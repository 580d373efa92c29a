// Gated linear units of two operands.

#include "in_place.h"

// Not in every version.
extern struct ggml_tensor * ggml_swiglu_clamp(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b,
                                              float limit) __attribute__((weak));

static const enum ggml_glu_op KINDS[] = { GGML_GLU_OP_REGLU, GGML_GLU_OP_GEGLU, GGML_GLU_OP_SWIGLU,
                                          GGML_GLU_OP_GEGLU_ERF, GGML_GLU_OP_GEGLU_QUICK };

#define N_KINDS 5

static struct ggml_tensor * build_split(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form_result(form, ggml_glu_split(form.ctx, a, form_operand(form), KINDS[form.variant]));
}

static struct ggml_tensor * build_split_twice_the_same(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_glu_split(form.ctx, a, a, KINDS[form.variant]);
}

static struct ggml_tensor * build_swiglu_oai(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form_result(form, ggml_swiglu_oai(form.ctx, a, form_operand(form), 1.7f, 2.0f));
}

static struct ggml_tensor * build_swiglu_clamp(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form_result(form, ggml_swiglu_clamp(form.ctx, a, form_operand(form), 2.0f));
}

static const struct rule RULES_OF_GATES[] = {
    {
        .name = "GLU",
        .build = build_split,
        .variants = N_KINDS,
        .sources = SOURCE(0) | SOURCE(1),
        .types = TYPE(F32) | TYPE(F16),
        .layouts = CONTIGUOUS | PADDED_ROWS,
    },
    {
        .name = "GLU of BF16",
        .build = build_split,
        .variants = N_KINDS,
        .sources = SOURCE(0) | SOURCE(1),
        .types = TYPE(BF16),
        .layouts = CONTIGUOUS | PADDED_ROWS,
        .since = VERSION(0, 26, 0),
    },
    {
        .name = "GLU of a tensor and itself",
        .build = build_split_twice_the_same,
        .variants = N_KINDS,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
    },
    {
        .name = "GLU (SWIGLU_OAI)",
        .build = build_swiglu_oai,
        .sources = SOURCE(0) | SOURCE(1),
        .types = TYPE(F32),
        .layouts = CONTIGUOUS | PADDED_ROWS,
    },
    {
        .name = "GLU (SWIGLU_CLAMP)",
        .build = build_swiglu_clamp,
        .sources = SOURCE(0) | SOURCE(1),
        .types = TYPE(F32) | TYPE(F16),
        .layouts = CONTIGUOUS | PADDED_ROWS,
        .since = VERSION(0, 26, 0),
    },
};

const struct rules GATE_RULES = RULES("gates", RULES_OF_GATES);
