// Products of matrices.

#include "tiles.h"

#define EXPERTS 8

// Rows of the result, columns, planes, batches.
static const int64_t SHAPES[][GGML_MAX_DIMS] = {
    { 64, 48, 1, 1 }, { 48, 33, 4, 1 },  { 36, 9, 2, 3 }, { 30, 17, 4, 1 },  { 7, 16, 1, 1 },
    { 12, 1, 4, 1 },  { 192, 72, 2, 1 }, { 20, 5, 2, 1 }, { 128, 65, 1, 2 },
};

// One row for each expert in a token, and tokens enough for several in each expert.
static const int64_t ID_SHAPES[][GGML_MAX_DIMS] = { { 64, 2, 48, 1 }, { 30, 3, 7, 1 }, { 36, 8, 33, 1 } };

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

static bool is_float(enum ggml_type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
}

// ---------------------------------------------------------------------------------------------------
// MUL_MAT
// ---------------------------------------------------------------------------------------------------

enum product { PLAIN, ONE_MATRIX, SHARED_MATRICES, PERMUTED_COLUMNS, EQUAL_TYPES, N_PRODUCTS };

// A row length that is a multiple of the block, and of nothing else where the blocks allow it.
static int64_t row_length(enum ggml_type type, enum product product) {
    int64_t block = ggml_blck_size(type);
    return product == PLAIN ? 256 : block == 1 ? 100 : block == 256 ? 512 : 3 * block;
}

static struct ggml_tensor * build_mul_mat(struct form form) {
    struct ggml_context * ctx    = form.ctx;
    const int64_t *       ne     = form.ne;
    enum product          kind   = (enum product) form.variant;
    int64_t               k      = row_length(form.type, kind);
    int64_t               planes = kind == ONE_MATRIX ? 1 : kind == SHARED_MATRICES && ne[2] % 2 == 0 ? ne[2] / 2 : ne[2];
    struct ggml_tensor *  a = ggml_new_tensor_4d(ctx, form.type, k, ne[0], planes, kind == ONE_MATRIX ? 1 : ne[3]);
    enum ggml_type        type = kind == EQUAL_TYPES && is_float(form.type) ? form.type : GGML_TYPE_F32;
    struct ggml_tensor *  b    = kind == PERMUTED_COLUMNS
                                     ? ggml_permute(ctx, ggml_new_tensor_4d(ctx, type, k, ne[2], ne[1], ne[3]), 0, 2, 1, 3)
                                     : ggml_new_tensor_4d(ctx, type, k, ne[1], ne[2], ne[3]);
    return ggml_mul_mat(ctx, a, b);
}

// The columns that ggml has in the type of its dot products before it multiplies: whether they are contiguous then
// decides which kernel is used.
static bool columns_are_read_in_place(const struct ggml_tensor * node) {
    return is_float(node->src[0]->type) && node->src[1]->type == node->src[0]->type;
}

static void slice_columns(struct tile * tile, int dim) {
    bool strided = columns_are_read_in_place(tile->whole) && !ggml_is_contiguous(tile->whole->src[1]);
    tile->strided |= strided ? SOURCE(1) : 0;
    tile->copies   = tile->copies && !strided;
    tile_slice_along(tile, 1, dim);
}

static void take_rows(struct tile * tile) {
    tile_slice(tile, 0, 1, tile->first, tile->count);
}

static void take_columns(struct tile * tile) {
    slice_columns(tile, 1);
}

static void take_planes(struct tile * tile) {
    tile_slice_along(tile, 0, tile->dim);
    slice_columns(tile, tile->dim);
}

// Tiles of four rows, for two columns or more (eight on some machines). Whether they are used must not change.
static bool keeps_rows(const struct tile * tile) {
    const struct ggml_tensor * whole = tile->whole;
    return !is_float(whole->src[0]->type) || whole->ne[1] == 1 || (whole->ne[0] % 4 == 0) == (tile->count % 4 == 0);
}

static bool keeps_columns(const struct tile * tile) {
    const struct ggml_tensor * whole = tile->whole;
    return (is_float(whole->src[0]->type) && whole->ne[0] % 4 != 0) || tile->count >= 8;
}

static bool keeps_planes(const struct tile * tile) {
    int64_t matrices = tile->whole->src[0]->ne[tile->dim];
    int64_t shared   = tile->whole->ne[tile->dim] / matrices;
    bool    groups   = tile->first % shared == 0 && tile->count % shared == 0;
    bool    in_group = tile->first / shared == (tile->first + tile->count - 1) / shared;
    return matrices == 1 || groups || in_group;
}

// Types whose products have kernels of different kinds.
#define MATRIX_TYPES \
    (FLOAT_TYPES | TYPE(Q8_0) | TYPE(Q4_0) | TYPE(IQ4_NL) | TYPE(Q4_1) | TYPE(Q4_K) | TYPE(Q6_K) | TYPE(IQ4_XS))

#define MUL_MAT                                                                                    \
    .build = build_mul_mat, .variants = N_PRODUCTS, .types = MATRIX_TYPES, .strided_result = true, \
    .shapes = SHAPES, .n_shapes = COUNT(SHAPES)

// ---------------------------------------------------------------------------------------------------
// MUL_MAT_ID
// ---------------------------------------------------------------------------------------------------

// All experts of a token have a separate column each, or share one.
static struct ggml_tensor * build_mul_mat_id(struct form form) {
    struct ggml_context * ctx = form.ctx;
    const int64_t *       ne  = form.ne;
    int64_t               k   = row_length(form.type, PLAIN);
    struct ggml_tensor *  a   = ggml_new_tensor_3d(ctx, form.type, k, ne[0], EXPERTS);
    struct ggml_tensor *  b   = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, k, form.variant == 0 ? ne[1] : 1, ne[2]);
    struct ggml_tensor *  ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, ne[1], ne[2]);
    ids->op_params[0]         = EXPERTS;
    return ggml_mul_mat_id(ctx, a, b, ids);
}

static void take_experts(struct tile * tile) {
    tile_slice(tile, 2, 0, tile->first, tile->count);
    tile_slice_along(tile, 1, 1);
}

static void take_tokens(struct tile * tile) {
    tile_slice(tile, 2, 1, tile->first, tile->count);
    tile_slice_along(tile, 1, 2);
}

// Tiles of K-quants where an expert has eight columns or more: known only when the graph runs.
static bool keeps_routed(const struct tile * tile) {
    enum ggml_type type = tile->whole->src[0]->type;
    return ggml_blck_size(type) < 256;
}

#define MUL_MAT_ID                                                                                \
    .build = build_mul_mat_id, .variants = 2, .types = MATRIX_TYPES, .strided_result = true,      \
    .strided_sources = SOURCE(0) | SOURCE(1) | SOURCE(2), .shapes = ID_SHAPES, .n_shapes = COUNT(ID_SHAPES)

// ---------------------------------------------------------------------------------------------------
// OUT_PROD
// ---------------------------------------------------------------------------------------------------

static struct ggml_tensor * build_out_prod(struct form form) {
    struct ggml_context * ctx   = form.ctx;
    const int64_t *       ne    = form.ne;
    int64_t               terms = form.variant == 0 ? 40 : 7;
    int64_t               block = ggml_blck_size(form.type);
    int64_t               width = (ne[0] + block - 1) / block * block;
    struct ggml_tensor *  a     = ggml_new_tensor_4d(ctx, form.type, width, terms, ne[2], ne[3]);
    struct ggml_tensor *  b     = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, ne[1], terms, ne[2], ne[3]);
    return ggml_out_prod(ctx, a, b);
}

static void take_first(struct tile * tile) {
    tile_slice(tile, 0, 0, tile->first, tile->count);
}

static void take_second(struct tile * tile) {
    tile_slice(tile, 1, 0, tile->first, tile->count);
}

static bool keeps_vectors(const struct tile * tile) {
    return tile->first % 64 == 0;
}

#define OUT_PROD                                                                        \
    .build = build_out_prod, .variants = 2, .types = TYPE(F32) | TYPE(Q8_0),            \
    .strided_sources = SOURCE(0) | SOURCE(1), .shapes = SHAPES, .n_shapes = COUNT(SHAPES)

static const struct tiled CUTS_OF_MATRICES[] = {
    { .name = "MUL_MAT by rows of its first source", MUL_MAT, .dim = 0, .take = take_rows, .keeps = keeps_rows,
      .strided_sources = SOURCE(0) },
    { .name = "MUL_MAT by columns", MUL_MAT, .dim = 1, .take = take_columns, .keeps = keeps_columns },
    { .name = "MUL_MAT by planes", MUL_MAT, .dim = 2, .take = take_planes, .keeps = keeps_planes,
      .strided_sources = SOURCE(0) },
    { .name = "MUL_MAT by batches", MUL_MAT, .dim = 3, .take = take_planes, .keeps = keeps_planes, .only_by_reading = true, .views_by_reading = true },
    { .name = "MUL_MAT_ID by rows of its first source", MUL_MAT_ID, .dim = 0, .take = take_rows },
    { .name = "MUL_MAT_ID by experts of a token", MUL_MAT_ID, .dim = 1, .take = take_experts, .keeps = keeps_routed, .only_by_reading = true },
    { .name = "MUL_MAT_ID by tokens", MUL_MAT_ID, .dim = 2, .take = take_tokens, .keeps = keeps_routed, .needed_since = VERSION(0, 26, 0) },
    { .name = "OUT_PROD along its first source", OUT_PROD, .dim = 0, .take = take_first, .keeps = keeps_vectors },
    { .name = "OUT_PROD along its second source", OUT_PROD, .dim = 1, .take = take_second },
    { .name = "OUT_PROD by planes", OUT_PROD, .dim = 2, .take = take_planes },
    { .name = "OUT_PROD by batches", OUT_PROD, .dim = 3, .take = take_planes, .views_by_reading = true },
};

const struct tilings MATRIX_CUTS = CUTS("matrices", CUTS_OF_MATRICES);
