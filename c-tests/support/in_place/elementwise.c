// Operations of one source that make each element from the element, or the row, at its place.

#include "in_place.h"

#define LONGEST_SQUARE 65

static struct ggml_tensor * build_unary(struct form form) {
    return form_result(form, ggml_unary(form.ctx, form_operand(form), (enum ggml_unary_op) form.variant));
}

static struct ggml_tensor * build_function(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    switch (form.variant) {
        case 0:
            return form_result(form, ggml_sqr(form.ctx, a));
        case 1:
            return form_result(form, ggml_sin(form.ctx, a));
        default:
            return form_result(form, ggml_cos(form.ctx, a));
    }
}

static struct ggml_tensor * build_positive_function(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form_result(form, form.variant == 0 ? ggml_sqrt(form.ctx, a) : ggml_log(form.ctx, a));
}

static struct ggml_tensor * build_clamp(struct form form) {
    return form_result(form, ggml_clamp(form.ctx, form_operand(form), -1.0f, 2.0f));
}

static struct ggml_tensor * build_leaky_relu(struct form form) {
    return form_result(form, ggml_leaky_relu(form.ctx, form_operand(form), 0.1f, false));
}

static struct ggml_tensor * build_scale(struct form form) {
    return ggml_scale_bias(form.ctx, form_operand(form), 0.7f, form.variant == 0 ? 0.0f : 0.3f);
}

static struct ggml_tensor * build_fill(struct form form) {
    return ggml_fill(form.ctx, form_operand(form), 0.3f);
}

static struct ggml_tensor * build_tri(struct form form) {
    int64_t n = form.ne[0] < LONGEST_SQUARE ? form.ne[0] : LONGEST_SQUARE;
    return ggml_tri(form.ctx, form_operand_of(form, n, n, form.ne[2], form.ne[3]), (enum ggml_tri_type) form.variant);
}

static struct ggml_tensor * build_cumsum(struct form form) {
    return form_result(form, ggml_cumsum(form.ctx, form_operand(form)));
}

static struct ggml_tensor * build_diag_mask(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form.variant == 0 ? ggml_diag_mask_inf(form.ctx, a, 2) : ggml_diag_mask_zero(form.ctx, a, 0);
}

static const struct rule RULES_OF_ONE[] = {
    {
        .name = "UNARY",
        .build = build_unary,
        .variants = GGML_UNARY_OP_COUNT,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
        .layouts = CONTIGUOUS | PADDED_ROWS,
    },
    {
        .name = "UNARY of BF16",
        .build = build_unary,
        .variants = GGML_UNARY_OP_COUNT,
        .sources = SOURCE(0),
        .types = TYPE(BF16),
        .layouts = CONTIGUOUS | PADDED_ROWS,
        .since = VERSION(0, 26, 0),
    },
    {
        .name = "SQR, SIN, COS",
        .build = build_function,
        .variants = 3,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
        .layouts = CONTIGUOUS | PADDED_ROWS,
    },
    {
        .name = "SQRT, LOG",
        .build = build_positive_function,
        .variants = 2,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
        .layouts = CONTIGUOUS | PADDED_ROWS,
        .positive = true,
    },
    {
        .name = "CLAMP", // in 0.9.5 always a view of its source
        .build = build_clamp,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
        .layouts = CONTIGUOUS | PADDED_ROWS,
        .since = VERSION(0, 26, 0),
    },
    {
        .name = "LEAKY_RELU",
        .build = build_leaky_relu,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
        .layouts = CONTIGUOUS | PADDED_ROWS,
    },
    {
        .name = "SCALE",
        .build = build_scale,
        .variants = 2,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "SCALE of BF16",
        .build = build_scale,
        .variants = 2,
        .sources = SOURCE(0),
        .types = TYPE(BF16),
        .since = VERSION(0, 26, 0),
    },
    {
        .name = "FILL",
        .build = build_fill,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "FILL of F16",
        .build = build_fill,
        .sources = SOURCE(0),
        .types = TYPE(F16),
        .since = VERSION(0, 26, 0),
    },
    {
        .name = "TRI",
        .build = build_tri,
        .variants = 4,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "CUMSUM",
        .build = build_cumsum,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "DIAG_MASK_INF, DIAG_MASK_ZERO",
        .build = build_diag_mask,
        .variants = 2,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
};

const struct rules ELEMENTWISE_RULES = RULES("elementwise", RULES_OF_ONE);
