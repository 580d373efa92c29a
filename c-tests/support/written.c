#include "written.h"

#include <string.h>

const char * const WRITES_NAMES[WRITES_COUNT] = { "CONTIGUOUS", "PADDED_ROWS", "ROWS", "ANYTHING" };

// A larger tensor in which `result` would fit with its dimensions in another order; numbers are bytes of any kind.
static struct ggml_tensor * surroundings(struct ggml_context * ctx, const struct ggml_tensor * result,
                                         const int * order, const int64_t * more) {
    int64_t ne[GGML_MAX_DIMS];
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        ne[i] = result->ne[order[i]] + more[i];
    }
    struct ggml_tensor * root = ggml_new_tensor(ctx, result->type, GGML_MAX_DIMS, ne);
    root->op_params[0]        = 1000;
    return root;
}

// `result` inside `root`, with dimension order[i] of the result along dimension i.
static struct ggml_tensor * inside(struct ggml_context * ctx, const struct ggml_tensor * result,
                                   struct ggml_tensor * root, const int * order, const int64_t * start) {
    size_t nb[GGML_MAX_DIMS];
    size_t offset = 0;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        nb[order[i]] = root->nb[i];
        offset += (size_t) start[i] * root->nb[i];
    }
    const int64_t *      ne   = result->ne;
    struct ggml_tensor * view = ggml_view_4d(ctx, root, ne[0], ne[1], ne[2], ne[3], nb[1], nb[2], nb[3], offset);
    view->nb[0]               = nb[0];
    return view;
}

static struct ggml_tensor * contiguous(struct ggml_context * ctx, const struct ggml_tensor * result) {
    struct ggml_tensor * root = ggml_new_tensor_1d(ctx, result->type, ggml_nelements(result) + 13);
    const int64_t *      ne   = result->ne;
    const size_t *       nb   = result->nb;
    root->op_params[0]        = 1000;
    return ggml_view_4d(ctx, root, ne[0], ne[1], ne[2], ne[3], nb[1], nb[2], nb[3], 3 * nb[0]);
}

// Every second element.
static struct ggml_tensor * spread(struct ggml_context * ctx, const struct ggml_tensor * result) {
    int64_t twice[GGML_MAX_DIMS];
    memcpy(twice, result->ne, sizeof(twice));
    twice[0] *= 2;
    struct ggml_tensor * root = ggml_new_tensor(ctx, result->type, GGML_MAX_DIMS, twice);
    const int64_t *      ne   = result->ne;
    root->op_params[0]        = 1000;
    struct ggml_tensor * view =
        ggml_view_4d(ctx, root, ne[0], ne[1], ne[2], ne[3], root->nb[1], root->nb[2], root->nb[3], root->nb[0]);
    view->nb[0] = 2 * root->nb[0];
    return view;
}

struct ggml_tensor * dst_tensor(struct ggml_context * ctx, const struct ggml_tensor * result, int layout) {
    static const struct {
        int     order[GGML_MAX_DIMS];
        int64_t more[GGML_MAX_DIMS];
        int64_t start[GGML_MAX_DIMS];
    } kinds[] = {
        { { 0, 1, 2, 3 }, { 3, 0, 0, 0 }, { 0, 0, 0, 0 } }, // a gap behind each row
        { { 0, 1, 2, 3 }, { 7, 2, 1, 1 }, { 2, 1, 1, 1 } }, // gaps everywhere
        { { 0, 2, 1, 3 }, { 1, 0, 2, 0 }, { 1, 0, 1, 0 } }, // rows and planes swapped
        { { 0, 3, 2, 1 }, { 0, 1, 0, 0 }, { 0, 1, 0, 0 } }, // rows and volumes swapped
        { { 1, 0, 2, 3 }, { 2, 1, 0, 0 }, { 1, 0, 0, 0 } }, // columns and rows swapped
    };
    if (layout == 0) {
        return contiguous(ctx, result);
    }
    if (layout == WANTED_LAYOUTS - 1) {
        return spread(ctx, result);
    }
    struct ggml_tensor * root = surroundings(ctx, result, kinds[layout - 1].order, kinds[layout - 1].more);
    return inside(ctx, result, root, kinds[layout - 1].order, kinds[layout - 1].start);
}

enum writes writes_needed(const struct ggml_tensor * result, const struct ggml_tensor * dst) {
    bool   same   = true;
    bool   rising = true;
    size_t last   = 0;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        if (result->ne[i] > 1) {
            same   = same && result->nb[i] == dst->nb[i];
            rising = rising && dst->nb[i] >= last;
            last   = dst->nb[i];
        }
    }
    bool whole_rows = result->ne[0] == 1 || result->nb[0] == dst->nb[0];
    return same ? WRITES_CONTIGUOUS : !whole_rows ? WRITES_ANYTHING : rising ? WRITES_PADDED_ROWS : WRITES_ROWS;
}
