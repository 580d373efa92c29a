// Copies of bytes onto themselves, and operations that start with one.

#include "in_place.h"

#define PLAIN_TYPES \
    (TYPE(F32) | TYPE(F16) | TYPE(BF16) | TYPE(I8) | TYPE(I16) | TYPE(I32) | TYPE(I64) | TYPE(F64))
// For these CPY is not defined, CONT and DUP are.
#define ONLY_READ_TYPES                                                                                           \
    (TYPE(IQ2_XXS) | TYPE(IQ2_XS) | TYPE(IQ2_S) | TYPE(IQ3_XXS) | TYPE(IQ3_S) | TYPE(IQ1_S) | TYPE(IQ1_M))
#define WRITTEN_TYPES                                                                                             \
    (TYPE(Q4_0) | TYPE(Q4_1) | TYPE(Q5_0) | TYPE(Q5_1) | TYPE(Q8_0) | TYPE(Q8_1) | TYPE(Q2_K) | TYPE(Q3_K) |      \
     TYPE(Q4_K) | TYPE(Q5_K) | TYPE(Q6_K) | TYPE(IQ4_NL) | TYPE(IQ4_XS) | TYPE(TQ1_0) | TYPE(TQ2_0) | TYPE(MXFP4))
#define QUANTIZED_TYPES (ONLY_READ_TYPES | WRITTEN_TYPES)

static struct form in_blocks(struct form form) {
    return form_with_multiple_of(form, ggml_blck_size(form.type));
}

// DUP is what ggml_dup() makes of a tensor, CONT what ggml_cont() makes of one.
static struct ggml_tensor * build_duplicate(struct form form) {
    form                   = in_blocks(form);
    struct ggml_tensor * a = form_operand(form);
    return form_result(form, form.variant == 0 ? ggml_cont(form.ctx, a) : ggml_dup(form.ctx, a));
}

static struct ggml_tensor * build_reshaping_cont(struct form form) {
    form = in_blocks(form);
    return ggml_cont_2d(form.ctx, form_operand(form), form.ne[0] * form.ne[1], form.ne[2] * form.ne[3]);
}

// Contiguous, though the strides of its dimensions with one element are not those of the result.
static struct ggml_tensor * build_cont_of_column(struct form form) {
    return ggml_cont(form.ctx, ggml_transpose(form.ctx, form_operand_of(form, 1, form.ne[0], 1, form.ne[3])));
}

static struct ggml_tensor * build_copy(struct form form) {
    form                   = in_blocks(form);
    struct ggml_tensor * a = form_operand(form);
    return ggml_cpy(form.ctx, a, form_operand(form));
}

static struct ggml_tensor * build_reshaping_copy(struct form form) {
    form                   = in_blocks(form);
    struct ggml_tensor * a = form_operand(form);
    struct ggml_tensor * b = form_operand_of(form, form.ne[0] * form.ne[1] * form.ne[2], 1, 1, form.ne[3]);
    return ggml_cpy(form.ctx, a, b);
}

// Along the slowest dimension, so that each operand is one range of the result. The variant is the dimension.
static struct ggml_tensor * build_concat(struct form form) {
    int64_t * ne  = form.ne;
    int       dim = form.variant;
    for (int i = dim + 1; i < GGML_MAX_DIMS; i++) {
        ne[i] = 1;
    }
    form                      = in_blocks(form);
    struct ggml_tensor * a    = form_operand(form);
    struct form          next = form;
    next.ne[dim]              = ne[dim] / 2 + 1;
    return ggml_concat(form.ctx, a, form_operand(in_blocks(next)), dim);
}

static ptrdiff_t offset_in_concat(const struct ggml_tensor * node, int i) {
    return i == 0 ? 0 : (ptrdiff_t) ggml_nbytes(node->src[0]);
}

// A part of the form's shape, and where it goes: as far back as it can.
static struct ggml_tensor * part_of(struct form form, const struct ggml_tensor * a, size_t * offset) {
    struct ggml_tensor * part = form_operand_of(form, (form.ne[0] + 1) / 2, (form.ne[1] + 1) / 2, form.ne[2], 1);

    *offset = (size_t) (form.ne[0] - part->ne[0]) * a->nb[0] + (size_t) (form.ne[1] - part->ne[1]) * a->nb[1] +
              (size_t) (form.ne[3] - 1) * a->nb[3];
    return part;
}

static struct ggml_tensor * build_set(struct form form) {
    size_t               offset = 0;
    struct ggml_tensor * a      = form_operand(form);
    struct ggml_tensor * part   = part_of(form, a, &offset);
    return ggml_set(form.ctx, a, part, a->nb[1], a->nb[2], a->nb[3], offset);
}

static struct ggml_tensor * build_acc(struct form form) {
    size_t               offset = 0;
    struct ggml_tensor * a      = form_operand(form);
    struct ggml_tensor * part   = part_of(form, a, &offset);
    return ggml_acc(form.ctx, a, part, a->nb[1], a->nb[2], a->nb[3], offset);
}

static const struct rule RULES_OF_COPIES[] = {
    {
        .name = "CONT, DUP",
        .build = build_duplicate,
        .variants = 2,
        .sources = SOURCE(0),
        .types = PLAIN_TYPES,
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED | TRANSPOSED,
        .any_bytes = true,
    },
    {
        .name = "CONT, DUP of quantized types",
        .build = build_duplicate,
        .variants = 2,
        .sources = SOURCE(0),
        .types = QUANTIZED_TYPES,
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
        .any_bytes = true,
    },
    {
        .name = "CONT to another shape, both contiguous",
        .build = build_reshaping_cont,
        .sources = SOURCE(0),
        .types = PLAIN_TYPES | QUANTIZED_TYPES,
        .any_bytes = true,
    },
    {
        .name = "CONT of a transposed column",
        .build = build_cont_of_column,
        .sources = SOURCE(0),
        .types = PLAIN_TYPES,
        .any_bytes = true,
    },
    {
        .name = "CPY over its destination",
        .build = build_copy,
        .sources = SOURCE(0),
        .types = PLAIN_TYPES,
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED | TRANSPOSED,
        .any_bytes = true,
    },
    {
        .name = "CPY of quantized types over its destination",
        .build = build_copy,
        .sources = SOURCE(0),
        .types = WRITTEN_TYPES,
        .layouts = CONTIGUOUS | PADDED_ROWS | PERMUTED,
        .any_bytes = true,
    },
    {
        .name = "CPY to another shape, both contiguous",
        .build = build_reshaping_copy,
        .sources = SOURCE(0),
        .types = PLAIN_TYPES | WRITTEN_TYPES,
        .any_bytes = true,
    },
    {
        .name = "CONCAT along the slowest dimension",
        .build = build_concat,
        .variants = GGML_MAX_DIMS,
        .sources = SOURCE(0) | SOURCE(1),
        .together = true,
        .types = PLAIN_TYPES,
        .any_bytes = true,
        .offset = offset_in_concat,
    },
    {
        .name = "CONCAT of quantized types along the slowest dimension",
        .build = build_concat,
        .variants = GGML_MAX_DIMS,
        .sources = SOURCE(0) | SOURCE(1),
        .together = true,
        .types = QUANTIZED_TYPES,
        .since = VERSION(0, 26, 0),
        .any_bytes = true,
        .offset = offset_in_concat,
    },
    {
        .name = "SET",
        .build = build_set,
        .sources = SOURCE(0),
        .types = TYPE(F32) | TYPE(I32),
        .any_bytes = true,
    },
    {
        .name = "ACC",
        .build = build_acc,
        .sources = SOURCE(0),
        .types = TYPE(F32),
    },
};

const struct rules COPY_RULES = RULES("copies", RULES_OF_COPIES);
