// Nodes that give the values of their sources another shape, layout or type.

#include "constructions.h"
#include "leafs.h"
#include "overwriting.h"
#include "random.h"

struct ggml_tensor * make_plain(struct builder * b, struct ggml_tensor * t) {
    return is_plain(t) ? t : add_value(b, ggml_cont(b->ctx, t), *bound_of(b, t));
}

struct ggml_tensor * pick_plain_f32(struct builder * b) {
    struct ggml_tensor * t = pick(b, is_f32);
    return t != NULL ? make_plain(b, t) : new_random_leaf(b);
}

struct ggml_tensor * make_slice(struct builder * b) {
    struct ggml_tensor * x = pick(b, has_dense_rows);
    if (x == NULL || !is_real(x)) {
        return NULL;
    }
    int64_t ne[4];
    size_t  offset = 0;
    int     whole  = random_chance(&b->random, 20) ? 100 : 50;
    for (int i = 0; i < 4; i++) {
        ne[i] = random_chance(&b->random, whole) ? x->ne[i] : random_between(&b->random, 1, x->ne[i]);
        offset += (size_t) random_between(&b->random, 0, x->ne[i] - ne[i]) * x->nb[i];
    }
    struct ggml_tensor * view =
        ggml_view_4d(b->ctx, x, ne[0], ne[1], ne[2], ne[3], x->nb[1], x->nb[2], x->nb[3], offset);
    return add_value(b, view, *bound_of(b, x));
}

static int64_t random_divisor(struct builder * b, int64_t of) {
    static const int64_t candidates[] = { 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 64 };

    int64_t divisor = candidates[random_below(&b->random, (int64_t) (sizeof(candidates) / sizeof(candidates[0])))];
    return of % divisor == 0 ? divisor : 1;
}

struct ggml_tensor * make_reshape(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_plain_real);
    if (x == NULL) {
        return NULL;
    }
    int64_t n     = ggml_nelements(x);
    float   bound = *bound_of(b, x);
    int64_t rows  = random_divisor(b, n);
    int64_t deep  = random_divisor(b, n / rows);
    switch (random_below(&b->random, 4)) {
        case 0:  return add_value(b, ggml_reshape_1d(b->ctx, x, n), bound);
        case 1:  return add_value(b, ggml_reshape_2d(b->ctx, x, n / rows, rows), bound);
        case 2:  return add_value(b, ggml_view_1d(b->ctx, x, n / rows, 0), bound);
        default: return add_value(b, ggml_reshape_3d(b->ctx, x, n / rows / deep, rows, deep), bound);
    }
}

struct ggml_tensor * make_permutation(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_real);
    if (x == NULL) {
        return NULL;
    }
    if (random_chance(&b->random, 40)) {
        return add_value(b, ggml_transpose(b->ctx, x), *bound_of(b, x));
    }
    int axes[4] = { 0, 1, 2, 3 };
    for (int i = 3; i > 0; i--) {
        int j    = (int) random_below(&b->random, i + 1);
        int axis = axes[i];
        axes[i]  = axes[j];
        axes[j]  = axis;
    }
    return add_value(b, ggml_permute(b->ctx, x, axes[0], axes[1], axes[2], axes[3]), *bound_of(b, x));
}

struct ggml_tensor * make_cont(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_real);
    return x != NULL ? add_value(b, ggml_cont(b->ctx, x), *bound_of(b, x)) : NULL;
}

struct ggml_tensor * make_cast(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_real);
    if (x == NULL) {
        return NULL;
    }
    enum ggml_type type = x->type == GGML_TYPE_F16 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    return add_value(b, ggml_cast(b->ctx, x, type), *bound_of(b, x));
}

struct ggml_tensor * make_concat(struct builder * b) {
    struct ggml_tensor * x   = pick_plain_f32(b);
    int                  dim = (int) random_below(&b->random, 4);
    for (int tries = 0; tries < 8; tries++) {
        struct ggml_tensor * y = pick(b, is_plain_f32);
        if (y != NULL && ggml_are_same_shape(x, y)) {
            float bound = *bound_of(b, x) + *bound_of(b, y);
            return add_value(b, ggml_concat(b->ctx, x, y, dim), bound);
        }
    }
    int64_t ne[4] = { x->ne[0], x->ne[1], x->ne[2], x->ne[3] };
    ne[dim]       = random_between(&b->random, 1, 5);
    return add_value(b, ggml_concat(b->ctx, x, new_reals(b, GGML_TYPE_F32, ne, 30), dim), *bound_of(b, x) + 1.0f);
}

struct ggml_tensor * make_resized(struct builder * b) {
    struct ggml_tensor * x     = pick_plain_f32(b);
    float                bound = *bound_of(b, x);
    bool                 small = ggml_nelements(x) <= b->options.max_elements;
    switch (random_below(&b->random, 4)) {
        case 0:  return add_value(b, ggml_sum_rows(b->ctx, x), bound * (float) x->ne[0]);
        case 1:  return add_value(b, ggml_mean(b->ctx, x), bound);
        case 2:  return small ? add_value(b, ggml_pad(b->ctx, x, 3, 1, 0, 0), bound) : NULL;
        default: break;
    }
    return small ? add_value(b, ggml_repeat_4d(b->ctx, x, x->ne[0], x->ne[1] * 2, x->ne[2], x->ne[3]), bound) : NULL;
}

struct ggml_tensor * make_empty(struct builder * b) {
    struct ggml_tensor * x    = pick_plain_f32(b);
    struct ggml_tensor * none = add_value(b, ggml_view_2d(b->ctx, x, x->ne[0], 0, x->nb[1], 0), 0.0f);
    return add_value(b, ggml_scale(b->ctx, none, 2.0f), 0.0f);
}
