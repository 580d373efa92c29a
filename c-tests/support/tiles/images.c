// Operations on images: tiles read the rows around them too.

#include "tiles.h"

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

// A window that moves over rows of pixels.
struct window {
    int64_t size;
    int     stride;
    int     padding;
    int     dilation;
};

static const struct window WINDOWS[] = { { 3, 1, 1, 1 }, { 3, 2, 1, 1 }, { 1, 1, 0, 1 }, { 3, 1, 2, 2 }, { 5, 1, 2, 1 } };

#define N_WINDOWS COUNT(WINDOWS)

// Makes source `i` the rows that the tile's rows read, and returns the padding before them: what is above the image, or
// 0. Rows below the image are missing there as in the whole.
static int32_t slice_window(struct tile * tile, int i, int dim, struct window window) {
    int64_t rows   = tile->whole->src[i]->ne[dim];
    int64_t reach  = (window.size - 1) * window.dilation;
    int64_t begin  = tile->first * window.stride - window.padding;
    int64_t end    = (tile->first + tile->count - 1) * window.stride - window.padding + reach + 1;
    int64_t above  = begin < 0 ? -begin : 0;
    begin          = begin < 0 ? 0 : begin;
    end            = end > rows ? rows : end;
    tile_slice(tile, i, dim, begin, end - begin);
    return (int32_t) above;
}

// ---------------------------------------------------------------------------------------------------
// IM2COL and CONV_2D
// ---------------------------------------------------------------------------------------------------

// Columns, rows, channels and batches of the image.
static const int64_t IMAGES[][GGML_MAX_DIMS] = { { 16, 12, 3, 1 }, { 24, 17, 5, 2 }, { 9, 33, 2, 1 }, { 8, 16, 8, 1 } };

static struct window window_of(const struct ggml_tensor * node, int axis, int64_t size) {
    const int32_t * params = node->op_params;
    return (struct window){ .size = size, .stride = params[axis], .padding = params[2 + axis], .dilation = params[4 + axis] };
}

static struct ggml_tensor * build_im2col(struct form form) {
    struct ggml_context * ctx    = form.ctx;
    const int64_t *       ne     = form.ne;
    struct window         w      = WINDOWS[form.variant];
    struct ggml_tensor *  kernel = ggml_new_tensor_4d(ctx, GGML_TYPE_F16, w.size, w.size, ne[2], 4);
    struct ggml_tensor *  image  = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, ne[0], ne[1], ne[2], ne[3]);
    return ggml_im2col(ctx, kernel, image, w.stride, w.stride, w.padding, w.padding, w.dilation, w.dilation, true,
                       form.type);
}

static void take_im2col_rows(struct tile * tile) {
    tile->node->op_params[3] = slice_window(tile, 1, 1, window_of(tile->whole, 1, tile->whole->src[0]->ne[1]));
}

static struct ggml_tensor * build_im2col_1d(struct form form) {
    struct ggml_context * ctx    = form.ctx;
    const int64_t *       ne     = form.ne;
    struct window         w      = WINDOWS[form.variant];
    struct ggml_tensor *  kernel = ggml_new_tensor_3d(ctx, GGML_TYPE_F16, w.size, ne[2], 4);
    struct ggml_tensor *  line   = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, ne[0] * ne[1], ne[2], ne[3]);
    return ggml_im2col(ctx, kernel, line, w.stride, 0, w.padding, 0, w.dilation, 0, false, form.type);
}

static void take_im2col_columns(struct tile * tile) {
    tile->node->op_params[2] = slice_window(tile, 1, 0, window_of(tile->whole, 0, tile->whole->src[0]->ne[0]));
}

static void take_second(struct tile * tile) {
    tile_slice(tile, 1, tile->dim, tile->first, tile->count);
}

static struct ggml_tensor * build_conv(struct form form) {
    struct ggml_context * ctx    = form.ctx;
    const int64_t *       ne     = form.ne;
    struct window         w      = WINDOWS[form.variant % N_WINDOWS];
    int64_t               many   = form.variant < N_WINDOWS ? 24 : 10;
    struct ggml_tensor *  kernel = ggml_new_tensor_4d(ctx, form.type, w.size, w.size, ne[2], many);
    struct ggml_tensor *  image  = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, ne[0], ne[1], ne[2], ne[3]);
    return ggml_conv_2d_direct(ctx, kernel, image, w.stride, w.stride, w.padding, w.padding, w.dilation, w.dilation);
}

static void take_conv_rows(struct tile * tile) {
    tile->node->op_params[3] = slice_window(tile, 1, 1, window_of(tile->whole, 1, tile->whole->src[0]->ne[1]));
}

static void take_conv_channels(struct tile * tile) {
    tile_slice(tile, 0, 3, tile->first, tile->count);
}

// A matrix product of the pixels, as many as fit into its work memory, and the kernels: tiles of four kernels, for two
// pixels or more (eight on some machines).
static bool keeps_pixels(const struct tile * tile) {
    const struct ggml_tensor * whole  = tile->whole;
    int64_t                    pixels = tile->count;
    for (int dim = 0; dim < GGML_MAX_DIMS; dim++) {
        pixels *= dim == 2 || dim == tile->dim ? 1 : whole->ne[dim];
    }
    return whole->ne[2] % 4 != 0 || pixels >= 8;
}

static bool keeps_channels(const struct tile * tile) {
    return (tile->whole->ne[2] % 4 == 0) == (tile->count % 4 == 0);
}

#define IM2COL                                                                                                     \
    .build = build_im2col, .variants = N_WINDOWS, .types = TYPE(F32) | TYPE(F16), .strided_sources = SOURCE(1),   \
    .shapes = IMAGES, .n_shapes = COUNT(IMAGES)
#define IM2COL_1D                                                                                                  \
    .build = build_im2col_1d, .variants = N_WINDOWS, .types = TYPE(F32) | TYPE(F16), .strided_sources = SOURCE(1), \
    .shapes = IMAGES, .n_shapes = COUNT(IMAGES)
#define CONV_2D                                                                                                    \
    .build = build_conv, .variants = 2 * N_WINDOWS, .types = TYPE(F32) | TYPE(F16), .strided_sources = SOURCE(1), \
    .strided_result = true, .shapes = IMAGES, .n_shapes = COUNT(IMAGES)

// ---------------------------------------------------------------------------------------------------
// POOL_2D, UPSCALE, PAD
// ---------------------------------------------------------------------------------------------------

static struct ggml_tensor * build_pool(struct form form) {
    struct ggml_tensor * image = form_operand(form);
    enum ggml_op_pool    op    = form.variant % 2 == 0 ? GGML_OP_POOL_AVG : GGML_OP_POOL_MAX;
    struct window        w     = WINDOWS[form.variant / 2];
    return ggml_pool_2d(form.ctx, image, op, (int) w.size, (int) w.size, w.stride, w.stride, (float) w.padding,
                        (float) w.padding);
}

static void take_first(struct tile * tile) {
    tile_slice(tile, 0, tile->dim, tile->first, tile->count);
}

static void take_pool_rows(struct tile * tile) {
    const int32_t * params = tile->whole->op_params;
    struct window   window = { .size = params[2], .stride = params[4], .padding = params[6], .dilation = 1 };
    tile->node->op_params[6] = slice_window(tile, 0, 1, window);
}

// Twice and three times as large, the nearest pixel; and in between, by two pixels in each direction.
static struct ggml_tensor * build_upscale(struct form form) {
    struct ggml_tensor * image = form_operand(form);
    const int64_t *      ne    = form.ne;
    if (form.variant < 2) {
        return ggml_upscale(form.ctx, image, form.variant + 2, GGML_SCALE_MODE_NEAREST);
    }
    return ggml_interpolate(form.ctx, image, 2 * ne[0], 2 * ne[1], ne[2], ne[3], GGML_SCALE_MODE_BILINEAR);
}

static void take_scaled(struct tile * tile) {
    tile_slice_along(tile, 0, tile->dim);
}

static bool keeps_scaled(const struct tile * tile) {
    bool    nearest = tile->whole->op_params[0] == GGML_SCALE_MODE_NEAREST;
    int64_t ratio   = tile->whole->ne[tile->dim] / tile->whole->src[0]->ne[tile->dim];
    return (nearest || tile->dim > 1) && tile->first % ratio == 0 && tile->count % ratio == 0;
}

static struct ggml_tensor * build_pad(struct form form) {
    return ggml_pad(form.ctx, form_operand(form), 3, form.variant == 0 ? 2 : 0, 0, 0);
}

#define POOL_2D                                                                                          \
    .build = build_pool, .variants = 6, .types = TYPE(F32), .strided_sources = 0, .shapes = IMAGES,      \
    .n_shapes = COUNT(IMAGES)
#define UPSCALE                                                                                          \
    .build = build_upscale, .variants = 3, .types = TYPE(F32), .take = take_scaled, .keeps = keeps_scaled, \
    .strided_sources = SOURCE(0), .strided_result = true, .shapes = IMAGES, .n_shapes = COUNT(IMAGES)
#define PAD                                                                                              \
    .build = build_pad, .variants = 2, .types = TYPE(F32), .take = take_first, .strided_sources = SOURCE(0), \
    .shapes = IMAGES, .n_shapes = COUNT(IMAGES)

static const struct tiled CUTS_OF_IMAGES[] = {
    { .name = "IM2COL by rows of pixels", IM2COL, .dim = 2, .take = take_im2col_rows },
    { .name = "IM2COL by batches", IM2COL, .dim = 3, .take = take_second, .views_by_reading = true },
    { .name = "IM2COL of one dimension by columns", IM2COL_1D, .dim = 1, .take = take_im2col_columns },
    { .name = "CONV_2D by rows of pixels", CONV_2D, .dim = 1, .take = take_conv_rows, .keeps = keeps_pixels, .only_by_reading = true },
    { .name = "CONV_2D by kernels", CONV_2D, .dim = 2, .take = take_conv_channels, .keeps = keeps_channels, .needed_since = VERSION(0, 26, 0) },
    { .name = "CONV_2D by batches", CONV_2D, .dim = 3, .take = take_second, .keeps = keeps_pixels, .only_by_reading = true },
    { .name = "POOL_2D by rows of pixels", POOL_2D, .dim = 1, .take = take_pool_rows },
    { .name = "POOL_2D by channels", POOL_2D, .dim = 2, .take = take_first, .views_by_reading = true },
    { .name = "POOL_2D by batches", POOL_2D, .dim = 3, .take = take_first, .views_by_reading = true },
    { .name = "UPSCALE along rows of pixels", UPSCALE, .dim = 0 },
    { .name = "UPSCALE by rows of pixels", UPSCALE, .dim = 1 },
    { .name = "UPSCALE by channels", UPSCALE, .dim = 2, .only_by_reading = true },
    { .name = "UPSCALE by batches", UPSCALE, .dim = 3, .only_by_reading = true },
    { .name = "PAD by channels", PAD, .dim = 2 },
    { .name = "PAD by batches", PAD, .dim = 3, .views_by_reading = true },
};

const struct tilings IMAGE_CUTS = CUTS("images", CUTS_OF_IMAGES);
