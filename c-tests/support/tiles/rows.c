// Operations that compute each row, or each group of planes, separately.

#include "tiles.h"

#define EPS 1e-5f

static const int64_t SHAPES[][GGML_MAX_DIMS] = {
    { 64, 16, 1, 1 }, { 67, 9, 4, 1 }, { 128, 5, 6, 3 }, { 20, 33, 2, 2 }, { 512, 3, 1, 1 },
};

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

// The first source along the dimension of the result.
static void take_first(struct tile * tile) {
    tile_slice(tile, 0, tile->dim, tile->first, tile->count);
}

static void take_both(struct tile * tile) {
    take_first(tile);
    tile_slice(tile, 1, tile->dim, tile->first, tile->count);
}

static struct ggml_tensor * build_norm(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    switch (form.variant) {
        case 0:  return ggml_norm(form.ctx, a, EPS);
        case 1:  return ggml_rms_norm(form.ctx, a, EPS);
        case 2:  return ggml_l2_norm(form.ctx, a, EPS);
        case 3:  return ggml_sum_rows(form.ctx, a);
        default: return ggml_mean(form.ctx, a);
    }
}

#define NORMS                                                                                     \
    .build = build_norm, .variants = 5, .types = TYPE(F32), .layouts = CONTIGUOUS | PADDED_ROWS,  \
    .take = take_first, .strided_sources = SOURCE(0), .strided_result = true, .shapes = SHAPES,   \
    .n_shapes = COUNT(SHAPES)

static struct ggml_tensor * build_back(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    struct ggml_tensor * b = form_operand(form);
    return form.variant == 0 ? ggml_soft_max_ext_back(form.ctx, a, b, 0.5f, 0.0f) : ggml_rms_norm_back(form.ctx, a, b, EPS);
}

#define BACKWARD                                                                                 \
    .build = build_back, .variants = 2, .types = TYPE(F32), .take = take_both, .shapes = SHAPES, \
    .n_shapes = COUNT(SHAPES)

static struct ggml_tensor * build_rope(struct form form) {
    form.ne[0]                    = (form.ne[0] + 3) / 4 * 4;
    struct ggml_tensor * a        = form_operand(form);
    struct ggml_tensor * position = form_indices(form, form.ne[2], 1000);
    struct ggml_tensor * factors  = form.variant < 2 ? NULL : ggml_new_tensor_1d(form.ctx, GGML_TYPE_F32, form.ne[0] / 2);
    int                  mode     = form.variant % 2 == 0 ? GGML_ROPE_TYPE_NORMAL : GGML_ROPE_TYPE_NEOX;
    return ggml_rope_ext(form.ctx, a, position, factors, (int) form.ne[0] / 2, mode, 512, 10000.0f, 0.9f, 1.0f, 1.1f,
                         32.0f, 1.0f);
}

static void take_positions(struct tile * tile) {
    take_first(tile);
    tile_slice(tile, 1, 0, tile->first, tile->count);
}

#define ROPE                                                                                             \
    .build = build_rope, .variants = 4, .types = TYPE(F32) | TYPE(F16), .layouts = CONTIGUOUS | PADDED_ROWS, \
    .strided_sources = SOURCE(0), .strided_result = true, .shapes = SHAPES, .n_shapes = COUNT(SHAPES)

// Rows of a table of 11 for each plane.
static struct ggml_tensor * build_get_rows(struct form form) {
    form                         = form_with_multiple_of(form, ggml_blck_size(form.type));
    struct ggml_tensor * table   = ggml_new_tensor_3d(form.ctx, form.type, form.ne[0], 11, form.ne[2]);
    struct ggml_tensor * indices = ggml_new_tensor_2d(form.ctx, GGML_TYPE_I32, form.ne[1], form.ne[2]);
    indices->op_params[0]        = 11;
    return ggml_get_rows(form.ctx, table, indices);
}

static void take_indices(struct tile * tile) {
    tile_slice(tile, 1, tile->dim - 1, tile->first, tile->count);
    if (tile->dim == 2) {
        tile_slice(tile, 0, 2, tile->first, tile->count);
    }
}

#define GET_ROWS                                                                                      \
    .build = build_get_rows, .types = FLOAT_TYPES | TYPE(Q8_0) | TYPE(Q4_0) | TYPE(Q4_K),             \
    .take = take_indices, .strided_sources = SOURCE(1), .strided_result = true, .shapes = SHAPES,     \
    .n_shapes = COUNT(SHAPES)

// Groups of whole planes: as many planes in each.
static struct ggml_tensor * build_group_norm(struct form form) {
    return ggml_group_norm(form.ctx, form_operand(form), (int) form.ne[2] / (form.variant + 1), EPS);
}

static int64_t planes_in_group(const struct ggml_tensor * node) {
    return (node->ne[2] + node->op_params[0] - 1) / node->op_params[0];
}

static void take_groups(struct tile * tile) {
    take_first(tile);
    int64_t planes           = planes_in_group(tile->whole);
    tile->node->op_params[0] = (int32_t) ((tile->count + planes - 1) / planes);
}

static bool keeps_groups(const struct tile * tile) {
    return tile->first % planes_in_group(tile->whole) == 0;
}

static const int64_t GROUP_SHAPES[][GGML_MAX_DIMS] = { { 16, 7, 8, 1 }, { 33, 5, 16, 3 }, { 3, 2, 24, 2 } };

#define GROUP_NORM                                                                                   \
    .build = build_group_norm, .variants = 2, .types = TYPE(F32), .strided_sources = SOURCE(0),      \
    .strided_result = true, .shapes = GROUP_SHAPES, .n_shapes = COUNT(GROUP_SHAPES)

static const struct tiled CUTS_OF_ROWS[] = {
    { .name = "NORM, RMS_NORM, L2_NORM, SUM_ROWS, MEAN by rows", NORMS, .dim = 1 },
    { .name = "NORM, RMS_NORM, L2_NORM, SUM_ROWS, MEAN by planes", NORMS, .dim = 2 },
    { .name = "NORM, RMS_NORM, L2_NORM, SUM_ROWS, MEAN by batches", NORMS, .dim = 3 },
    { .name = "SOFT_MAX_BACK, RMS_NORM_BACK by rows", BACKWARD, .dim = 1 },
    { .name = "SOFT_MAX_BACK, RMS_NORM_BACK by planes", BACKWARD, .dim = 2 },
    { .name = "SOFT_MAX_BACK, RMS_NORM_BACK by batches", BACKWARD, .dim = 3, .views_by_reading = true },
    { .name = "ROPE by heads", ROPE, .dim = 1, .take = take_first },
    { .name = "ROPE by positions", ROPE, .dim = 2, .take = take_positions },
    { .name = "ROPE by batches", ROPE, .dim = 3, .take = take_first },
    { .name = "GET_ROWS by rows", GET_ROWS, .dim = 1 },
    { .name = "GET_ROWS by planes", GET_ROWS, .dim = 2 },
    { .name = "GROUP_NORM by groups", GROUP_NORM, .dim = 2, .take = take_groups, .keeps = keeps_groups },
    { .name = "GROUP_NORM by batches", GROUP_NORM, .dim = 3, .take = take_first },
};

const struct tilings ROW_CUTS = CUTS("rows", CUTS_OF_ROWS);
