// Arithmetic of two sources. The second may be broadcast; then only the first has the layout of the result.

#include "in_place.h"

// Quantized types with kernels in both directions, which arithmetic needs.
#define QUANTIZED_TYPES                                                                                           \
    (TYPE(Q4_0) | TYPE(Q4_1) | TYPE(Q5_0) | TYPE(Q5_1) | TYPE(Q8_0) | TYPE(Q2_K) | TYPE(Q3_K) | TYPE(Q4_K) |      \
     TYPE(Q5_K) | TYPE(Q6_K) | TYPE(IQ4_NL) | TYPE(IQ4_XS) | TYPE(MXFP4) | TYPE(TQ1_0) | TYPE(TQ2_0))

#define ALL_FOUR 4 // ADD, SUB, MUL, DIV

static struct ggml_tensor * combine(struct form form, struct ggml_tensor * a, struct ggml_tensor * b) {
    switch (form.variant) {
        case 0:
            return form_result(form, ggml_add(form.ctx, a, b));
        case 1:
            return form_result(form, ggml_sub(form.ctx, a, b));
        case 2:
            return form_result(form, ggml_mul(form.ctx, a, b));
        default:
            return form_result(form, ggml_div(form.ctx, a, b));
    }
}

static struct ggml_tensor * build_same_shape(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return combine(form, a, form_operand(form));
}

static struct ggml_tensor * build_twice_the_same(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return combine(form, a, a);
}

static struct ggml_tensor * build_one_row(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return combine(form, a, form_operand_of(form, form.ne[0], 1, 1, 1));
}

static struct ggml_tensor * build_one_column(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return combine(form, a, form_operand_of(form, 1, form.ne[1], 1, form.ne[3]));
}

static struct ggml_tensor * build_one_plane(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return combine(form, a, form_operand_of(form, form.ne[0], form.ne[1], 1, 1));
}

static struct ggml_tensor * build_transposed(struct form form) {
    struct ggml_tensor * a     = form_operand(form);
    struct form          other = form;
    other.layout               = TRANSPOSED;
    return combine(form, a, form_operand(other));
}

static struct form of_f32(struct form form) {
    form.type = GGML_TYPE_F32;
    return form;
}

static struct ggml_tensor * build_with_f32(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return combine(form, a, form_operand(of_f32(form)));
}

static struct ggml_tensor * build_add_quantized(struct form form) {
    form                   = form_with_multiple_of(form, ggml_blck_size(form.type));
    struct ggml_tensor * a = form_operand(form);
    return ggml_add(form.ctx, a, form_operand(of_f32(form)));
}

static struct ggml_tensor * build_add_cast(struct form form) {
    form                   = form_with_multiple_of(form, ggml_blck_size(form.type));
    struct ggml_tensor * a = form_operand(form);
    return ggml_add_cast(form.ctx, a, form_operand(of_f32(form)), GGML_TYPE_F32);
}

static struct ggml_tensor * build_add_id(struct form form) {
    int64_t              n_rows = form.ne[1] + 2;
    struct ggml_tensor * a      = form_operand_of(form, form.ne[0], form.ne[1], form.ne[2], 1);
    struct ggml_tensor * b      = ggml_new_tensor_2d(form.ctx, form.type, form.ne[0], n_rows);
    struct ggml_tensor * ids    = form_indices(form, form.ne[1] * form.ne[2], n_rows);
    return form_result(form, ggml_add_id(form.ctx, a, b, ggml_reshape_2d(form.ctx, ids, form.ne[1], form.ne[2])));
}

// Deprecated, and still an operation.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static struct ggml_tensor * build_add1(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_add1(form.ctx, a, ggml_new_tensor_1d(form.ctx, form.type, 1));
}
#pragma GCC diagnostic pop

static const struct rule RULES_OF_TWO[] = {
    {
        .name = "ADD, SUB, MUL, DIV",
        .build = build_same_shape,
        .variants = ALL_FOUR,
        .sources = SOURCE(0) | SOURCE(1),
        .types = FLOAT_TYPES,
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "ADD, SUB, MUL, DIV of a tensor and itself",
        .build = build_twice_the_same,
        .variants = ALL_FOUR,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
    },
    {
        .name = "ADD, SUB, MUL, DIV with one row",
        .build = build_one_row,
        .variants = ALL_FOUR,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "ADD, SUB, MUL, DIV with one column",
        .build = build_one_column,
        .variants = ALL_FOUR,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
    },
    {
        .name = "ADD, SUB, MUL, DIV with one plane",
        .build = build_one_plane,
        .variants = ALL_FOUR,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
    },
    {
        .name = "ADD, SUB, MUL, DIV with a transposed source",
        .build = build_transposed,
        .variants = ALL_FOUR,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
    },
    {
        .name = "ADD, SUB, MUL, DIV of F16 or BF16 and F32",
        .build = build_with_f32,
        .variants = ALL_FOUR,
        .sources = SOURCE(0),
        .types = TYPE(F16) | TYPE(BF16),
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
    },
    {
        .name = "ADD of quantized and F32",
        .build = build_add_quantized,
        .sources = SOURCE(0),
        .types = QUANTIZED_TYPES,
    },
    {
        .name = "ADD with another type as its result",
        .build = build_add_cast,
        .sources = SOURCE(1),
        .types = QUANTIZED_TYPES | TYPE(F16) | TYPE(BF16),
    },
    {
        .name = "ADD_ID",
        .build = build_add_id,
        .sources = SOURCE(0),
        .types = TYPE(F32),
        .layouts = CONTIGUOUS | PADDED_ROWS,
    },
    {
        .name = "ADD1",
        .build = build_add1,
        .sources = SOURCE(0),
        .types = FLOAT_TYPES,
    },
};

const struct rules BINARY_RULES = RULES("binary", RULES_OF_TWO);
