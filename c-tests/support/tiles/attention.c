// Attention: soft maximum, and the fused operation.

#include <string.h>

#include "tiles.h"

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

// Repeated every `ne[dim]` elements, not each element several times.
static void slice_repeated(struct tile * tile, int i, int dim) {
    const struct ggml_tensor * source = tile->whole->src[i];
    if (source != NULL && source->ne[dim] == tile->whole->ne[tile->dim]) {
        tile_slice(tile, i, dim, tile->first, tile->count);
    }
}

// ---------------------------------------------------------------------------------------------------
// SOFT_MAX
// ---------------------------------------------------------------------------------------------------

static const int64_t SCORES[][GGML_MAX_DIMS] = {
    { 64, 16, 1, 1 }, { 67, 9, 4, 1 }, { 128, 5, 6, 3 }, { 33, 70, 8, 1 }, { 1, 7, 2, 2 },
};

enum soft_max { NO_MASK, ONE_MASK, OTHER_MASKS, SINKS, SINKS_ALONE, ALIBI, N_SOFT_MAXES };

static struct ggml_tensor * build_scores(struct form form, enum soft_max kind) {
    struct ggml_context * ctx  = form.ctx;
    const int64_t *       ne   = form.ne;
    struct ggml_tensor *  a    = form_operand_of(form, ne[0], ne[1], ne[2], ne[3]);
    struct ggml_tensor *  mask = NULL;
    if (kind == OTHER_MASKS) {
        mask = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, ne[0], ne[1], ne[2], ne[3]);
    } else if (kind != NO_MASK && kind != SINKS_ALONE) {
        mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, ne[0], ne[1] + 3);
    }
    if (mask != NULL) {
        ggml_set_name(mask, "mask");
    }
    struct ggml_tensor * node = ggml_soft_max_ext(ctx, a, mask, 0.5f, kind == ALIBI ? 8.0f : 0.0f);
    if (kind == SINKS || kind == SINKS_ALONE) {
        ggml_soft_max_add_sinks(node, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, ne[2]));
    }
    return node;
}

static struct ggml_tensor * build_soft_max(struct form form) {
    return build_scores(form, (enum soft_max) form.variant);
}

static void take_scores(struct tile * tile) {
    tile_slice(tile, 0, tile->dim, tile->first, tile->count);
    if (tile->dim == 1) {
        if (tile->whole->src[1] != NULL) {
            tile_slice(tile, 1, 1, tile->first, tile->count);
        }
        return;
    }
    slice_repeated(tile, 1, tile->dim);
    if (tile->dim == 2 && tile->whole->src[2] != NULL) {
        tile_slice(tile, 2, 0, tile->first, tile->count);
    }
}

// The slope of ALiBi depends on the number of the head and of all heads.
static bool keeps_heads(const struct tile * tile) {
    float max_bias = 0.0f;
    memcpy(&max_bias, (const char *) tile->whole->op_params + sizeof(float), sizeof(max_bias));
    return max_bias == 0.0f;
}

#define SOFT_MAX                                                                                       \
    .build = build_soft_max, .variants = N_SOFT_MAXES, .types = TYPE(F32),                             \
    .take = take_scores, .strided_sources = SOURCE(0) | SOURCE(1), \
    .shapes = SCORES, .n_shapes = COUNT(SCORES)

// ---------------------------------------------------------------------------------------------------
// FLASH_ATTN_EXT
// ---------------------------------------------------------------------------------------------------

// Width, heads, rows of queries, batches.
static const int64_t HEADS[][GGML_MAX_DIMS] = {
    { 64, 4, 192, 1 }, { 64, 6, 33, 1 }, { 40, 2, 130, 2 }, { 32, 4, 7, 1 }, { 64, 4, 1, 2 }, { 64, 4, 1, 1 },
};

enum flash { PLAIN_FLASH, MASKED, SHARED_KEYS, LONG_MASKED, FLASH_SINKS, FLASH_ALIBI, N_FLASHES };

static struct ggml_tensor * build_flash(struct form form) {
    struct ggml_context * ctx   = form.ctx;
    const int64_t *       ne    = form.ne;
    enum flash            kind  = (enum flash) form.variant;
    int64_t               block = ggml_blck_size(form.type);
    int64_t               width = (ne[0] + block - 1) / block * block;
    int64_t               keys  = kind == LONG_MASKED ? 576 : 96;
    int64_t               heads = kind == SHARED_KEYS ? ne[1] / 2 : ne[1];
    struct ggml_tensor *  q     = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, width, ne[2], ne[1], ne[3]);
    struct ggml_tensor *  k     = ggml_new_tensor_4d(ctx, form.type, width, keys, heads, ne[3]);
    struct ggml_tensor *  v     = ggml_new_tensor_4d(ctx, form.type, width, keys, heads, ne[3]);
    struct ggml_tensor *  mask  = NULL;
    if (kind != PLAIN_FLASH) {
        mask = ggml_new_tensor_4d(ctx, GGML_TYPE_F16, keys, GGML_PAD(ne[2], 64), 1, kind == MASKED ? ne[3] : 1);
        ggml_set_name(mask, "mask");
    }
    struct ggml_tensor * node =
        ggml_flash_attn_ext(ctx, q, k, v, mask, 0.125f, kind == FLASH_ALIBI ? 8.0f : 0.0f, 0.0f);
    if (kind == FLASH_SINKS) {
        ggml_flash_attn_ext_add_sinks(node, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, ne[1]));
    }
    return node;
}

static void take_flash_heads(struct tile * tile) {
    tile_slice(tile, 0, 2, tile->first, tile->count);
    tile_slice_along(tile, 1, 2);
    tile_slice_along(tile, 2, 2);
    if (tile->whole->src[4] != NULL) {
        tile_slice(tile, 4, 0, tile->first, tile->count);
    }
}

static void take_queries(struct tile * tile) {
    tile_slice(tile, 0, 1, tile->first, tile->count);
    if (tile->whole->src[3] != NULL) {
        tile_slice(tile, 3, 1, tile->first, tile->count);
    }
}

static void take_flash_batches(struct tile * tile) {
    for (int i = 0; i < 3; i++) {
        tile_slice(tile, i, 3, tile->first, tile->count);
    }
    slice_repeated(tile, 3, 3);
}

static bool keeps_flash_heads(const struct tile * tile) {
    float max_bias = 0.0f;
    memcpy(&max_bias, (const char *) tile->whole->op_params + sizeof(float), sizeof(max_bias));
    int64_t shared = tile->whole->src[0]->ne[2] / tile->whole->src[1]->ne[2];
    return max_bias == 0.0f && ((tile->first % shared == 0 && tile->count % shared == 0) || tile->count == 1);
}

// Tiles of 64 rows from 64 rows on; one row is divided by keys between threads where there are 512 keys.
static bool keeps_queries(const struct tile * tile) {
    int64_t rows = tile->whole->ne[2];
    return rows >= 64 ? tile->count >= 64 : tile->count > 1 || rows == 1;
}

// One row of one batch is divided by keys between threads.
static bool keeps_flash_batches(const struct tile * tile) {
    return tile->whole->ne[2] > 1 || tile->count > 1 || tile->whole->ne[3] == 1;
}

#define FLASH                                                                                             \
    .build = build_flash, .variants = N_FLASHES, .types = TYPE(F32) | TYPE(F16) | TYPE(BF16) | TYPE(Q8_0), \
    .strided_sources = SOURCE(0) | SOURCE(1) | SOURCE(2) | SOURCE(3), .shapes = HEADS, .n_shapes = COUNT(HEADS)

static const struct tiled CUTS_OF_ATTENTION[] = {
    { .name = "SOFT_MAX by rows", SOFT_MAX, .dim = 1, .views_by_reading = true },
    { .name = "SOFT_MAX by heads", SOFT_MAX, .dim = 2, .keeps = keeps_heads, .views_by_reading = true },
    { .name = "SOFT_MAX by batches", SOFT_MAX, .dim = 3, .views_by_reading = true },
    { .name = "FLASH_ATTN_EXT by heads", FLASH, .dim = 1, .take = take_flash_heads, .keeps = keeps_flash_heads },
    { .name = "FLASH_ATTN_EXT by rows of queries", FLASH, .dim = 2, .take = take_queries, .keeps = keeps_queries, .needed_since = VERSION(0, 26, 0) },
    { .name = "FLASH_ATTN_EXT by batches", FLASH, .dim = 3, .take = take_flash_batches, .keeps = keeps_flash_batches, .views_by_reading = true, .only_by_reading = true },
};

const struct tilings ATTENTION_CUTS = CUTS("attention", CUTS_OF_ATTENTION);
