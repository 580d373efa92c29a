// Operations that need a whole row, or several, for each element.

#include "in_place.h"

#define EPS            1e-5f
#define LONGEST_SQUARE 33

static struct ggml_tensor * build_norm(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form_result(form, form.variant == 0 ? ggml_norm(form.ctx, a, EPS) : ggml_l2_norm(form.ctx, a, EPS));
}

static struct ggml_tensor * build_rms_norm(struct form form) {
    return form_result(form, ggml_rms_norm(form.ctx, form_operand(form), EPS));
}

// One group, one for each channel, and groups of which the last is smaller.
static struct ggml_tensor * build_group_norm(struct form form) {
    int groups[] = { 1, (int) form.ne[2], (int) (form.ne[2] + 1) / 2 };
    return form_result(form, ggml_group_norm(form.ctx, form_operand(form), groups[form.variant], EPS));
}

// No mask, masks of F16 and F32 for all planes and batches, and one with ALiBi.
static struct ggml_tensor * build_soft_max(struct form form) {
    struct ggml_tensor * a       = form_operand(form);
    enum ggml_type       types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_F16 };
    struct ggml_tensor * mask    = NULL;
    if (form.variant > 0) {
        mask = ggml_new_tensor_2d(form.ctx, types[form.variant], form.ne[0], form.ne[1] + 3);
    }
    return ggml_soft_max_ext(form.ctx, a, mask, 0.5f, form.variant == 3 ? 8.0f : 0.0f);
}

static struct ggml_tensor * build_soft_max_same_mask(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_soft_max_ext(form.ctx, a, form_operand(form), 0.5f, form.variant == 0 ? 0.0f : 8.0f);
}

static struct ggml_tensor * build_soft_max_sinks(struct form form) {
    struct ggml_tensor * a    = form_operand(form);
    struct ggml_tensor * node = ggml_soft_max_ext(form.ctx, a, form_operand(form), 0.5f, 0.0f);
    ggml_soft_max_add_sinks(node, ggml_new_tensor_1d(form.ctx, GGML_TYPE_F32, form.ne[2]));
    return node;
}

static struct ggml_tensor * rope(struct form form, struct ggml_tensor * a, struct ggml_tensor * factors, bool back) {
    static const int modes[] = { GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX, GGML_ROPE_TYPE_MROPE,
                                 GGML_ROPE_TYPE_VISION };

    int  mode        = modes[form.variant % 4];
    int  n_dims      = (int) a->ne[0] / 2;
    int  sections[4] = { 1, 1, 0, 0 };
    bool many        = mode == GGML_ROPE_TYPE_MROPE || mode == GGML_ROPE_TYPE_VISION;

    struct ggml_tensor * positions = form_indices(form, a->ne[2] * (many ? 4 : 1), 1000);
    if (many) {
        return (back ? ggml_rope_multi_back : ggml_rope_multi)(form.ctx, a, positions, factors, n_dims, sections, mode,
                                                               512, 10000.0f, 0.9f, 1.0f, 1.1f, 32.0f, 1.0f);
    }
    return (back ? ggml_rope_ext_back : ggml_rope_ext)(form.ctx, a, positions, factors, n_dims, mode, 512, 10000.0f,
                                                       0.9f, 1.0f, 1.1f, 32.0f, 1.0f);
}

// The first four variants go without.
static struct ggml_tensor * factors_of(struct form form) {
    return form.variant < 4 ? NULL : ggml_new_tensor_1d(form.ctx, GGML_TYPE_F32, form.ne[0] / 2);
}

static struct ggml_tensor * build_rope(struct form form) {
    form = form_with_multiple_of(form, 4);
    return form_result(form, rope(form, form_operand(form), factors_of(form), false));
}

static struct ggml_tensor * build_rope_back(struct form form) {
    form = form_with_multiple_of(form, 4);
    return form_result(form, rope(form, form_operand(form), factors_of(form), true));
}

static struct ggml_tensor * build_rope_factors(struct form form) {
    form                   = form_with_multiple_of(form, 4);
    struct ggml_tensor * a = form_operand_of(form, form.ne[0], 1, 1, 1);
    return rope(form, a, ggml_new_tensor_1d(form.ctx, GGML_TYPE_F32, form.ne[0]), false);
}

static struct ggml_tensor * build_solve_tri(struct form form) {
    int64_t              n = form.ne[1] < LONGEST_SQUARE ? form.ne[1] : LONGEST_SQUARE;
    struct ggml_tensor * a = form_operand_of(form, n, n, form.ne[2], form.ne[3]);
    struct ggml_tensor * b = form_operand_of(form, form.ne[0], n, form.ne[2], form.ne[3]);
    return ggml_solve_tri(form.ctx, a, b, true, true, false);
}

// From 0.26 on these two are one kernel, which reads the source of RMS_NORM while it writes the result of MUL.
static struct ggml_tensor * build_rms_norm_mul(struct form form) {
    struct ggml_tensor * x     = form_operand(form);
    struct ggml_tensor * norm  = ggml_rms_norm(form.ctx, x, EPS);
    struct ggml_tensor * other = form_operand_of(form, form.ne[0], form.variant == 0 ? form.ne[1] : 1, 1, 1);
    if (form.variant == 2) {
        other = form_operand(form);
        return ggml_mul(form.ctx, other, norm);
    }
    return ggml_mul(form.ctx, norm, other);
}

static struct ggml_tensor * rms_norm_of(struct ggml_tensor * node) {
    return node->src[0]->op == GGML_OP_RMS_NORM ? node->src[0] : node->src[1];
}

// The sources of MUL, and as a third that of RMS_NORM.
static struct ggml_tensor * source_of_pair(struct ggml_tensor * node, int i) {
    return i < 2 ? node->src[i] : rms_norm_of(node)->src[0];
}

static const struct rule RULES_OF_ROWS[] = {
    {
        .name = "NORM, L2_NORM",
        .build = build_norm,
        .variants = 2,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "NORM, L2_NORM of elements that are apart",
        .build = build_norm,
        .variants = 2,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .layouts = TRANSPOSED,
        .since = VERSION(0, 26, 0),
    },
    {
        .name = "RMS_NORM",
        .build = build_rms_norm,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "GROUP_NORM",
        .build = build_group_norm,
        .variants = 3,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "SOFT_MAX",
        .build = build_soft_max,
        .variants = 4,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "SOFT_MAX with a mask of equal layout",
        .build = build_soft_max_same_mask,
        .variants = 2,
        .sources = SOURCE(0) | SOURCE(1),
        .types = TYPE(F32),
    },
    {
        .name = "SOFT_MAX with sinks",
        .build = build_soft_max_sinks,
        .sources = SOURCE(0) | SOURCE(1),
        .types = TYPE(F32),
    },
    {
        .name = "ROPE",
        .build = build_rope,
        .variants = 8,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "ROPE over its factors",
        .build = build_rope_factors,
        .variants = 2,
        .sources = SOURCE(0) | SOURCE(2),
        .types = TYPE(F32),
    },
    {
        .name = "ROPE_BACK",
        .build = build_rope_back,
        .variants = 8,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "SOLVE_TRI",
        .build = build_solve_tri,
        .sources = SOURCE(1),
        .types = TYPE(F32),
        .positive = true,
    },
    {
        .name = "RMS_NORM and MUL over either source or the source of RMS_NORM",
        .build = build_rms_norm_mul,
        .variants = 3,
        .sources = SOURCE(0) | SOURCE(2),
        .types = TYPE(F32),
        .overwritten = source_of_pair,
    },
};

const struct rules ROW_RULES = RULES("rows", RULES_OF_ROWS);
