// Unsafe ways to overwrite a source: each gives other bits for at least one shape. They also show that the comparison
// finds such faults.

#include "in_place.h"

#define EPS            1e-5f
#define LONGEST_SQUARE 33

static int64_t square_side(struct form form) {
    return form.ne[0] < LONGEST_SQUARE ? form.ne[0] : LONGEST_SQUARE;
}

static struct ggml_tensor * build_mul_mat(struct form form) {
    int64_t              n = square_side(form);
    struct ggml_tensor * a = form_operand_of(form, n, n, 1, 1);
    return ggml_mul_mat(form.ctx, a, form_operand_of(form, n, n, 1, 1));
}

static struct ggml_tensor * build_transposing_cont(struct form form) {
    int64_t n = square_side(form);
    return ggml_cont(form.ctx, ggml_transpose(form.ctx, form_operand_of(form, n, n, 1, 1)));
}

static struct ggml_tensor * build_roll(struct form form) {
    return ggml_roll(form.ctx, form_operand(form), form.ne[0] > 1, 0, 0, 0);
}

static struct ggml_tensor * build_argsort(struct form form) {
    return ggml_argsort(form.ctx, form_operand(form), GGML_SORT_ORDER_ASC);
}

static struct ggml_tensor * build_get_rows(struct form form) {
    struct ggml_tensor * a = form_operand_of(form, form.ne[0], form.ne[1], 1, 1);
    return ggml_get_rows(form.ctx, a, form_indices(form, form.ne[1], form.ne[1]));
}

// As many rows in the second source as in a plane of the first.
static struct ggml_tensor * build_add_id(struct form form) {
    struct ggml_tensor * a = form_operand_of(form, form.ne[0], form.ne[1], 1, 1);
    struct ggml_tensor * b = form_operand_of(form, form.ne[0], form.ne[1], 1, 1);
    return ggml_add_id(form.ctx, a, b, form_indices(form, form.ne[1], form.ne[1]));
}

static struct ggml_tensor * build_add_one_row(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_add(form.ctx, a, form_operand_of(form, form.ne[0], 1, 1, 1));
}

static struct ggml_tensor * build_add_transposed_self(struct form form) {
    int64_t              n = square_side(form);
    struct ggml_tensor * a = form_operand_of(form, n, n, 1, 1);
    return ggml_add(form.ctx, a, ggml_transpose(form.ctx, a));
}

static struct ggml_tensor * build_soft_max_one_mask(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_soft_max_ext(form.ctx, a, form_operand_of(form, form.ne[0], form.ne[1], 1, 1), 0.5f, 0.0f);
}

static struct ggml_tensor * build_set(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_set(form.ctx, a, form_operand(form), a->nb[1], a->nb[2], a->nb[3], 0);
}

static struct ggml_tensor * build_acc(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_acc(form.ctx, a, form_operand(form), a->nb[1], a->nb[2], a->nb[3], 0);
}

static struct ggml_tensor * build_widening_copy(struct form form) {
    struct form wide       = form;
    wide.type              = GGML_TYPE_F32;
    struct ggml_tensor * a = form_operand(form);
    return ggml_cpy(form.ctx, a, form_operand(wide));
}

static struct ggml_tensor * build_narrowing_copy(struct form form) {
    struct form narrow     = form;
    narrow.type            = GGML_TYPE_F16;
    struct ggml_tensor * a = form_operand(form);
    return ggml_cpy(form.ctx, a, form_operand(narrow));
}

static struct ggml_tensor * build_glu_of_one_operand(struct form form) {
    struct ggml_tensor * a = form_operand_of(form, form.ne[0] * 2, form.ne[1], form.ne[2], form.ne[3]);
    return ggml_swiglu(form.ctx, a);
}

static struct ggml_tensor * build_concat_of_columns(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_concat(form.ctx, a, form_operand(form), 0);
}

static struct ggml_tensor * build_rms_norm_back(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_rms_norm_back(form.ctx, a, form_operand(form), EPS);
}

static struct ggml_tensor * build_rms_norm_mul(struct form form) {
    struct ggml_tensor * norm = ggml_rms_norm(form.ctx, form_operand(form), EPS);
    return ggml_mul(form.ctx, norm, form_operand_of(form, form.ne[0], 1, 1, 1));
}

static struct ggml_tensor * source_of_rms_norm(struct ggml_tensor * node, int i) {
    return node->src[i]->src[0];
}

// The result starts one row behind it.
static ptrdiff_t one_row_before(const struct ggml_tensor * node, int i) {
    (void) i;
    return -(ptrdiff_t) node->nb[1];
}

static const struct rule RULES_THAT_BREAK[] = {
    {
        .name = "MUL_MAT over its first source",
        .build = build_mul_mat,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "MUL_MAT over its second source",
        .build = build_mul_mat,
        .sources = SOURCE(1),
        .types = TYPE(F32),
    },
    {
        .name = "CONT of a transposed square",
        .build = build_transposing_cont,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
        .any_bytes = true,
    },
    {
        .name = "ROLL",
        .build = build_roll,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "ARGSORT",
        .build = build_argsort,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "GET_ROWS",
        .build = build_get_rows,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
    {
        .name = "ADD_ID over its second source",
        .build = build_add_id,
        .sources = SOURCE(1),
        .types = TYPE(F32),
    },
    {
        .name = "ADD over a source with one row",
        .build = build_add_one_row,
        .sources = SOURCE(1),
        .types = FLOAT_TYPES,
    },
    {
        .name = "ADD of a square and a view of it",
        .build = build_add_transposed_self,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
    },
    {
        .name = "SOFT_MAX over a mask with one plane",
        .build = build_soft_max_one_mask,
        .sources = SOURCE(1),
        .types = TYPE(F32),
    },
    {
        .name = "SET over its second source",
        .build = build_set,
        .sources = SOURCE(1),
        .types = TYPE(F32),
    },
    {
        .name = "ACC over its second source",
        .build = build_acc,
        .sources = SOURCE(1),
        .types = TYPE(F32),
    },
    {
        .name = "CPY to a wider type",
        .build = build_widening_copy,
        .sources = SOURCE(0),
        .types = TYPE(F16),
    },
    {
        .name = "CPY to a narrower type",
        .build = build_narrowing_copy,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .only_several_threads = true,
    },
    {
        .name = "GLU of one operand with several rows",
        .build = build_glu_of_one_operand,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
        .only_several_threads = true,
    },
    {
        .name = "CONCAT of columns",
        .build = build_concat_of_columns,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(F16),
    },
    {
        .name = "RMS_NORM_BACK over its first source",
        .build = build_rms_norm_back,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .before = VERSION(0, 26, 0),
    },
    {
        .name = "SOFT_MAX_BACK over its second source",
        .build = build_soft_max_back,
        .sources = SOURCE(1),
        .types = TYPE(F32),
        .before = VERSION(0, 26, 0),
    },
    {
        .name = "CROSS_ENTROPY_LOSS_BACK over its labels",
        .build = build_cross_entropy_loss_back,
        .sources = SOURCE(2),
        .types = TYPE(F32),
    },
    {
        .name = "MUL of an RMS_NORM, one row behind the source of the latter",
        .build = build_rms_norm_mul,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .since = VERSION(0, 26, 0),
        .overwritten = source_of_rms_norm,
        .offset = one_row_before,
    },
};

const struct rules BREAKING_RULES = RULES("breaking", RULES_THAT_BREAK);
