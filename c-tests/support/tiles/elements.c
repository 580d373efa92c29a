// Operations that compute each element separately.

#include "tiles.h"

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

static const int64_t SHAPES[][GGML_MAX_DIMS] = {
    { 64, 16, 1, 1 }, { 67, 9, 4, 1 }, { 128, 5, 6, 3 }, { 24, 33, 2, 2 }, { 300, 1, 1, 1 },
};

// One row: its slices are contiguous.
static const int64_t VECTORS[][GGML_MAX_DIMS] = { { 64, 1, 1, 1 }, { 131, 1, 1, 1 }, { 512, 1, 1, 1 }, { 200, 1, 1, 1 } };

// The vector instructions of every machine divide a row into at most this number of elements at once.
#define ELEMENTS_AT_ONCE 64

static void take_all(struct tile * tile) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (tile->whole->src[i] != NULL && tile->whole->src[i]->ne[tile->dim] == tile->whole->ne[tile->dim]) {
            tile_slice(tile, i, tile->dim, tile->first, tile->count);
        }
    }
}

static bool keeps_vectors(const struct tile * tile) {
    return tile->first % ELEMENTS_AT_ONCE == 0;
}

// ---------------------------------------------------------------------------------------------------
// Binary
// ---------------------------------------------------------------------------------------------------

// The second operand: as large, one row, one element for each row, one for each plane, or half as many rows.
static struct ggml_tensor * other_operand(struct form form, int kind) {
    const int64_t * ne = form.ne;
    switch (kind) {
        case 0:  return form_operand(form);
        case 1:  return form_operand_of(form, ne[0], 1, 1, 1);
        case 2:  return form_operand_of(form, 1, ne[1], ne[2], ne[3]);
        case 3:  return form_operand_of(form, 1, 1, ne[2], 1);
        default: return form_operand_of(form, ne[0], ne[1] % 3 == 0 ? ne[1] / 3 : 1, ne[2], ne[3]);
    }
}

static struct ggml_tensor * build_binary(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    struct ggml_tensor * b = other_operand(form, form.variant % 5);
    switch (form.variant / 5) {
        case 0:  return ggml_add(form.ctx, a, b);
        case 1:  return ggml_sub(form.ctx, a, b);
        case 2:  return ggml_mul(form.ctx, a, b);
        default: return ggml_div(form.ctx, a, b);
    }
}

// An operand that is repeated is used whole by tiles that hold all of it, any number of times.
static bool keeps_repeated(const struct tile * tile) {
    int64_t n = tile->whole->src[1]->ne[tile->dim];
    return n == tile->whole->ne[tile->dim] || (tile->first % n == 0 && tile->count % n == 0);
}

#define BINARY                                                                                                \
    .build = build_binary, .variants = 20, .types = TYPE(F32) | TYPE(F16) | TYPE(BF16),                       \
    .layouts = CONTIGUOUS | PADDED_ROWS, .take = take_all, .keeps = keeps_repeated,                           \
    .strided_sources = SOURCE(0) | SOURCE(1), .strided_result = true, .positive = true, .shapes = SHAPES,     \
    .n_shapes = COUNT(SHAPES)

// ---------------------------------------------------------------------------------------------------
// Unary
// ---------------------------------------------------------------------------------------------------

static const enum ggml_unary_op UNARY_OPS[] = {
    GGML_UNARY_OP_ABS,        GGML_UNARY_OP_SGN,  GGML_UNARY_OP_NEG,        GGML_UNARY_OP_STEP,      GGML_UNARY_OP_TANH,
    GGML_UNARY_OP_ELU,        GGML_UNARY_OP_RELU, GGML_UNARY_OP_SIGMOID,    GGML_UNARY_OP_GELU,      GGML_UNARY_OP_GELU_QUICK,
    GGML_UNARY_OP_SILU,       GGML_UNARY_OP_EXP,  GGML_UNARY_OP_HARDSWISH,  GGML_UNARY_OP_GELU_ERF,  GGML_UNARY_OP_HARDSIGMOID,
};

#define N_UNARY COUNT(UNARY_OPS)

static struct ggml_tensor * build_unary(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    if (form.variant < N_UNARY) {
        return ggml_unary(form.ctx, a, UNARY_OPS[form.variant]);
    }
    switch (form.variant - N_UNARY) {
        case 0:  return ggml_sqr(form.ctx, a);
        case 1:  return ggml_sqrt(form.ctx, a);
        case 2:  return ggml_log(form.ctx, a);
        case 3:  return ggml_sin(form.ctx, a);
        default: return ggml_cos(form.ctx, a);
    }
}

// Not of every type.
static struct ggml_tensor * build_scaled(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    switch (form.variant) {
        case 0:  return ggml_scale(form.ctx, a, 0.7f);
        case 1:  return ggml_scale_bias(form.ctx, a, 0.7f, 0.3f);
        default: return ggml_leaky_relu(form.ctx, a, 0.1f, false);
    }
}

#define UNARY                                                                            \
    .build = build_unary, .variants = N_UNARY + 5, .types = TYPE(F32) | TYPE(F16),       \
    .take = take_all, .positive = true
#define SCALE .build = build_scaled, .variants = 3, .types = TYPE(F32), .take = take_all
#define AS_TENSORS .shapes = SHAPES, .n_shapes = COUNT(SHAPES)
#define AS_VECTORS .dim = 0, .shapes = VECTORS, .n_shapes = COUNT(VECTORS), .keeps = keeps_vectors

// ---------------------------------------------------------------------------------------------------
// GLU
// ---------------------------------------------------------------------------------------------------

static const enum ggml_glu_op GLU_OPS[] = { GGML_GLU_OP_REGLU, GGML_GLU_OP_GEGLU, GGML_GLU_OP_SWIGLU,
                                            GGML_GLU_OP_GEGLU_ERF, GGML_GLU_OP_GEGLU_QUICK };

static struct ggml_tensor * build_glu_of_two(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_glu_split(form.ctx, a, form_operand(form), GLU_OPS[form.variant]);
}

static struct ggml_tensor * build_glu_of_one(struct form form) {
    struct ggml_tensor * a = form_operand_of(form, 2 * form.ne[0], form.ne[1], form.ne[2], form.ne[3]);
    return ggml_glu(form.ctx, a, GLU_OPS[form.variant / 2], form.variant % 2 == 1);
}

#define GLU_OF_TWO .build = build_glu_of_two, .variants = 5, .types = TYPE(F32) | TYPE(F16), .take = take_all
#define GLU_OF_ONE .build = build_glu_of_one, .variants = 10, .types = TYPE(F32) | TYPE(F16), .take = take_all

static const struct tiled CUTS_OF_ELEMENTS[] = {
    { .name = "ADD, SUB, MUL, DIV along rows", BINARY, .dim = 0, .only_by_reading = true },
    { .name = "ADD, SUB, MUL, DIV by rows", BINARY, .dim = 1 },
    { .name = "ADD, SUB, MUL, DIV by planes", BINARY, .dim = 2, .only_by_reading = true },
    { .name = "ADD, SUB, MUL, DIV by batches", BINARY, .dim = 3, .only_by_reading = true },
    { .name = "UNARY, SQR, SQRT, LOG, SIN, COS along one row", UNARY, AS_VECTORS, .views_by_reading = true },
    { .name = "UNARY, SQR, SQRT, LOG, SIN, COS by rows", UNARY, AS_TENSORS, .dim = 1, .views_needed_before = VERSION(0, 26, 0) },
    { .name = "UNARY, SQR, SQRT, LOG, SIN, COS by planes", UNARY, AS_TENSORS, .dim = 2, .views_needed_before = VERSION(0, 26, 0) },
    { .name = "UNARY, SQR, SQRT, LOG, SIN, COS by batches", UNARY, AS_TENSORS, .dim = 3, .views_by_reading = true },
    { .name = "SCALE, LEAKY_RELU along one row", SCALE, AS_VECTORS, .only_by_reading = true, .views_by_reading = true },
    { .name = "SCALE, LEAKY_RELU by rows", SCALE, AS_TENSORS, .dim = 1 },
    { .name = "SCALE, LEAKY_RELU by planes", SCALE, AS_TENSORS, .dim = 2 },
    { .name = "SCALE, LEAKY_RELU by batches", SCALE, AS_TENSORS, .dim = 3, .views_by_reading = true },
    { .name = "GLU of two sources along one row", GLU_OF_TWO, AS_VECTORS, .views_by_reading = true },
    { .name = "GLU of two sources by rows", GLU_OF_TWO, AS_TENSORS, .dim = 1 },
    { .name = "GLU of two sources by planes", GLU_OF_TWO, AS_TENSORS, .dim = 2 },
    { .name = "GLU of two sources by batches", GLU_OF_TWO, AS_TENSORS, .dim = 3, .views_by_reading = true },
    { .name = "GLU of one source by rows", GLU_OF_ONE, AS_TENSORS, .dim = 1 },
    { .name = "GLU of one source by planes", GLU_OF_ONE, AS_TENSORS, .dim = 2 },
    { .name = "GLU of one source by batches", GLU_OF_ONE, AS_TENSORS, .dim = 3, .views_by_reading = true },
};

const struct tilings ELEMENT_CUTS = CUTS("elements", CUTS_OF_ELEMENTS);
