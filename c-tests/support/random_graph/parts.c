// Nodes that read or write parts of a tensor.

#include "constructions.h"
#include "leafs.h"
#include "overwriting.h"
#include "random.h"

struct ggml_tensor * make_copy(struct builder * b) {
    struct ggml_tensor * target = random_chance(&b->random, 70) ? make_slice(b) : pick(b, is_real);
    struct ggml_tensor * from   = NULL;
    if (target == NULL) {
        return NULL;
    }
    for (int tries = 0; tries < 16 && from == NULL; tries++) {
        struct ggml_tensor * x = pick(b, is_real);
        if (x != NULL && ggml_nelements(x) == ggml_nelements(target) && may_overwrite(target, x)) {
            from = x;
        }
    }
    from = from != NULL ? from : new_reals(b, GGML_TYPE_F32, target->ne, 10);
    return add_overwriting(b, ggml_cpy(b->ctx, from, target), *bound_of(b, from));
}

struct ggml_tensor * make_get_rows(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_dense_matrix);
    if (x == NULL) {
        return NULL;
    }
    int64_t              n    = random_between(&b->random, 1, x->ne[1] + 2);
    struct ggml_tensor * rows = new_indices(b, GGML_TYPE_I32, n, x->ne[1], false);
    return add_value(b, ggml_get_rows(b->ctx, x, rows), *bound_of(b, x));
}

struct ggml_tensor * make_set_rows(struct builder * b) {
    struct ggml_tensor * target = pick(b, is_dense_matrix);
    if (target == NULL || random_chance(&b->random, 50)) {
        target = new_matrix(b, random_between(&b->random, 1, 40), random_between(&b->random, 2, 30));
    }
    int64_t              n    = random_between(&b->random, 1, target->ne[1]);
    struct ggml_tensor * rows = new_indices(b, GGML_TYPE_I64, n, target->ne[1], true);
    struct ggml_tensor * from = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ target->ne[0], n, 1, 1 }, 10);
    if (random_chance(&b->random, 60)) {
        from = add_value(b, ggml_scale(b->ctx, from, 0.5f), 1.0f);
    }
    struct ggml_tensor * node = add_overwriting(b, ggml_set_rows(b->ctx, target, from, rows), 1.0f);
    if (random_chance(&b->random, 50)) {
        return node;
    }
    // read what was written by way of another view
    struct ggml_tensor * read = ggml_view_2d(b->ctx, target, target->ne[0], n, target->nb[1], 0);
    return add_value(b, ggml_cont(b->ctx, add_value(b, read, *bound_of(b, target))), *bound_of(b, target));
}

struct ggml_tensor * make_set(struct builder * b) {
    struct ggml_tensor * x     = pick_plain_f32(b);
    int64_t              start = random_below(&b->random, x->ne[0]);
    int64_t              n     = random_between(&b->random, 1, x->ne[0] - start);
    struct ggml_tensor * part  = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ n, x->ne[1], 1, 1 }, 30);
    float                bound = *bound_of(b, x) + 1.0f;
    size_t               at    = (size_t) start * x->nb[0];
    switch (random_below(&b->random, 3)) {
        case 0:  return add_overwriting(b, ggml_set_2d_inplace(b->ctx, x, part, x->nb[1], at), bound);
        case 1:  return add_value(b, ggml_acc(b->ctx, x, part, x->nb[1], x->nb[2], x->nb[3], at), bound);
        default: return add_value(b, ggml_set_2d(b->ctx, x, part, x->nb[1], at), bound);
    }
}

struct ggml_tensor * make_argmax(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    if (x->ne[2] != 1 || x->ne[3] != 1) {
        return NULL;
    }
    struct ggml_tensor * best = add_value(b, ggml_argmax(b->ctx, x), 0.0f);
    struct ggml_tensor * from = new_matrix(b, random_between(&b->random, 1, 20), x->ne[0]);
    return add_value(b, ggml_get_rows(b->ctx, from, best), 1.0f);
}
