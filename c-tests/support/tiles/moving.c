// Operations that move elements, and change their type.

#include "tiles.h"

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

static const int64_t SHAPES[][GGML_MAX_DIMS] = {
    { 64, 16, 1, 1 }, { 66, 9, 4, 1 }, { 128, 5, 6, 3 }, { 32, 33, 2, 2 }, { 320, 1, 1, 1 },
};

static void take_first(struct tile * tile) {
    tile_slice(tile, 0, tile->dim, tile->first, tile->count);
}

static struct ggml_tensor * build_cont(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form.variant == 0 ? ggml_cont(form.ctx, a) : ggml_dup(form.ctx, a);
}

// The second source of a copy is its result.
static void take_copied(struct tile * tile) {
    take_first(tile);
    tile->node->src[1] = tile->node;
}

#define ALL_LAYOUTS (CONTIGUOUS | PADDED_ROWS | PERMUTED | TRANSPOSED)

#define CONT                                                                                                 \
    .build = build_cont, .variants = 2, .types = FLOAT_TYPES, .layouts = ALL_LAYOUTS, .take = take_first,    \
    .strided_sources = SOURCE(0), .strided_result = true, .shapes = SHAPES, .n_shapes = COUNT(SHAPES)

// Into another type.
static struct ggml_tensor * build_cast(struct form form) {
    static const enum ggml_type into[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 };
    return ggml_cast(form.ctx, form_operand(form), into[form.variant]);
}

#define CAST                                                                                                 \
    .build = build_cast, .variants = 3, .types = FLOAT_TYPES, .layouts = ALL_LAYOUTS, .take = take_copied,    \
    .strided_sources = SOURCE(0), .strided_result = true, .shapes = SHAPES, .n_shapes = COUNT(SHAPES)

static struct ggml_tensor * build_quantization(struct form form) {
    form.ne[0]           = (form.ne[0] + 31) / 32 * 32;
    struct ggml_tensor * a = form_operand_of((struct form){ .ctx = form.ctx, .type = GGML_TYPE_F32, .layout = form.layout },
                                             form.ne[0], form.ne[1], form.ne[2], form.ne[3]);
    return ggml_cast(form.ctx, a, form.type);
}

static bool keeps_blocks(const struct tile * tile) {
    int64_t block = ggml_blck_size(tile->whole->type);
    return tile->first % block == 0 && tile->count % block == 0;
}

#define QUANTIZE                                                                                              \
    .build = build_quantization, .types = TYPE(Q8_0) | TYPE(Q4_0), .take = take_copied,                        \
    .strided_sources = SOURCE(0), .shapes = SHAPES, .n_shapes = COUNT(SHAPES)

static struct ggml_tensor * build_concat(struct form form) {
    struct ggml_tensor * a   = form_operand(form);
    int64_t              ne[GGML_MAX_DIMS];
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        ne[i] = i == form.variant ? form.ne[i] + 2 : form.ne[i];
    }
    return ggml_concat(form.ctx, a, form_operand_of(form, ne[0], ne[1], ne[2], ne[3]), form.variant);
}

static void take_both(struct tile * tile) {
    if (tile->whole->op_params[0] != tile->dim) {
        tile_slice(tile, 0, tile->dim, tile->first, tile->count);
        tile_slice(tile, 1, tile->dim, tile->first, tile->count);
    }
}

// Along the dimension of the concatenation there are no tiles.
static bool keeps_other_dimensions(const struct tile * tile) {
    return tile->whole->op_params[0] != tile->dim || tile->count == tile->whole->ne[tile->dim];
}

#define CONCAT                                                                                               \
    .build = build_concat, .variants = 4, .types = TYPE(F32) | TYPE(F16), .layouts = CONTIGUOUS | PADDED_ROWS, \
    .take = take_both, .keeps = keeps_other_dimensions, .strided_sources = SOURCE(0) | SOURCE(1),            \
    .strided_result = true, .shapes = SHAPES, .n_shapes = COUNT(SHAPES)

// From one element, three times, and not along this dimension.
static struct ggml_tensor * build_repeat(struct form form) {
    const int64_t *      ne = form.ne;
    struct ggml_tensor * a  = form.variant == 0 ? form_operand_of(form, ne[0], ne[1], 1, 1) : form_operand(form);
    int                  n  = form.variant == 0 ? 1 : 3;
    return ggml_repeat_4d(form.ctx, a, ne[0], n * ne[1], n * ne[2], ne[3]);
}

static void take_repeated(struct tile * tile) {
    if (tile->whole->src[0]->ne[tile->dim] == tile->whole->ne[tile->dim]) {
        take_first(tile);
    }
}

static bool keeps_repeated(const struct tile * tile) {
    int64_t n = tile->whole->src[0]->ne[tile->dim];
    return n == tile->whole->ne[tile->dim] || (tile->first % n == 0 && tile->count % n == 0);
}

#define REPEAT                                                                                               \
    .build = build_repeat, .variants = 2, .types = TYPE(F32) | TYPE(F16), .take = take_repeated,             \
    .keeps = keeps_repeated, .strided_sources = SOURCE(0), .strided_result = true, .shapes = SHAPES,         \
    .n_shapes = COUNT(SHAPES)

static const struct tiled CUTS_OF_MOVES[] = {
    { .name = "CONT, DUP along rows", CONT, .dim = 0 },
    { .name = "CONT, DUP by rows", CONT, .dim = 1 },
    { .name = "CONT, DUP by planes", CONT, .dim = 2 },
    { .name = "CONT, DUP by batches", CONT, .dim = 3 },
    { .name = "CPY to another type along rows", CAST, .dim = 0 },
    { .name = "CPY to another type by rows", CAST, .dim = 1 },
    { .name = "CPY to another type by planes", CAST, .dim = 2 },
    { .name = "CPY to another type by batches", CAST, .dim = 3 },
    { .name = "CPY to blocks along rows", QUANTIZE, .dim = 0, .keeps = keeps_blocks },
    { .name = "CPY to blocks by rows", QUANTIZE, .dim = 1 },
    { .name = "CPY to blocks by planes", QUANTIZE, .dim = 2 },
    { .name = "CONCAT along rows", CONCAT, .dim = 0 },
    { .name = "CONCAT by rows", CONCAT, .dim = 1 },
    { .name = "CONCAT by planes", CONCAT, .dim = 2 },
    { .name = "CONCAT by batches", CONCAT, .dim = 3 },
    { .name = "REPEAT by rows", REPEAT, .dim = 1 },
    { .name = "REPEAT by planes", REPEAT, .dim = 2 },
    { .name = "REPEAT by batches", REPEAT, .dim = 3, .only_by_reading = true },
};

const struct tilings MOVING_CUTS = CUTS("moving", CUTS_OF_MOVES);
