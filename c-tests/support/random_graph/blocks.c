// Matrix products, and the blocks of a language model that consist of them.

#include "constructions.h"
#include "leafs.h"
#include "overwriting.h"
#include "random.h"

static bool can_multiply(const struct ggml_tensor * a, const struct ggml_tensor * x) {
    bool broadcasts = x->ne[2] % a->ne[2] == 0 && x->ne[3] % a->ne[3] == 0;
    return a->ne[0] == x->ne[0] && broadcasts && !ggml_is_transposed(a) && has_dense_rows(a) && is_real(a);
}

static struct ggml_tensor * multiply(struct builder * b, struct ggml_tensor * a, struct ggml_tensor * x) {
    float bound = (float) x->ne[0] * *bound_of(b, a) * *bound_of(b, x);
    return add_value(b, ggml_mul_mat(b->ctx, a, x), bound);
}

struct ggml_tensor * make_mul_mat(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_f32_with_dense_rows);
    if (x == NULL) {
        return NULL;
    }
    for (int tries = 0; tries < 6; tries++) {
        struct ggml_tensor * a = pick(b, is_real);
        if (a != NULL && can_multiply(a, x)) {
            return multiply(b, a, x);
        }
    }
    return multiply(b, new_matrix(b, x->ne[0], random_between(&b->random, 1, 40)), x);
}

struct ggml_tensor * make_feed_forward(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    if (x->ne[0] > 256) {
        return NULL;
    }
    int64_t              wide  = random_between(&b->random, 1, 3) * x->ne[0];
    struct ggml_tensor * in    = add_value(b, ggml_rms_norm(b->ctx, x, 1e-5f), 17.0f);
    struct ggml_tensor * by    = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ x->ne[0], 1, 1, 1 }, 90);
    in                         = add_value(b, ggml_mul(b->ctx, in, by), 17.0f);
    struct ggml_tensor * gate  = multiply(b, new_matrix(b, x->ne[0], wide), in);
    struct ggml_tensor * up    = multiply(b, new_matrix(b, x->ne[0], wide), in);
    float                bound = *bound_of(b, gate) * *bound_of(b, up);
    struct ggml_tensor * mixed = NULL;
    if (random_chance(&b->random, 50)) {
        mixed = add_value(b, ggml_swiglu_split(b->ctx, gate, up), bound);
    } else {
        gate  = add_value(b, ggml_silu(b->ctx, gate), *bound_of(b, gate));
        mixed = add_value(b, ggml_mul(b->ctx, gate, up), bound);
    }
    // back to values that half precision can hold
    mixed                     = add_value(b, ggml_scale(b->ctx, mixed, 1.0f / bound), 1.0f);
    struct ggml_tensor * down = multiply(b, new_matrix(b, wide, x->ne[0]), mixed);
    return add_value(b, ggml_add(b->ctx, down, x), *bound_of(b, down) + *bound_of(b, x));
}

// [width, tokens] as [head, tokens, heads]
static struct ggml_tensor * split_heads(struct builder * b, struct ggml_tensor * x, int64_t heads) {
    float bound = *bound_of(b, x);
    x           = add_value(b, ggml_reshape_3d(b->ctx, x, x->ne[0] / heads, heads, x->ne[1]), bound);
    return add_value(b, ggml_permute(b->ctx, x, 0, 2, 1, 3), bound);
}

// Writes keys into a cache and returns a view of its content.
static struct ggml_tensor * through_cache(struct builder * b, struct ggml_tensor * keys) {
    int64_t              n     = ggml_nelements(keys);
    struct ggml_tensor * cache = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ n * 2, 1, 1, 1 }, 85);
    struct ggml_tensor * place = add_value(b, ggml_view_1d(b->ctx, cache, n, (size_t) n * sizeof(float)), 1.0f);
    add_overwriting(b, ggml_cpy(b->ctx, keys, place), *bound_of(b, keys));
    float bound = *bound_of(b, cache);
    return add_value(b, ggml_view_2d(b->ctx, cache, keys->ne[0], keys->ne[1], keys->nb[1], 0), bound);
}

struct ggml_tensor * make_attention(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    if (x->ne[0] > 64 || x->ne[1] > 64 || x->ne[2] != 1 || x->ne[3] != 1) {
        return NULL;
    }
    int64_t              width  = x->ne[0];
    int64_t              tokens = x->ne[1];
    int64_t              heads  = width % 4 == 0 ? 4 : 1;
    struct ggml_tensor * in     = add_value(b, ggml_norm(b->ctx, x, 1e-5f), 9.0f);
    struct ggml_tensor * q      = multiply(b, new_matrix(b, width, width), in);
    struct ggml_tensor * k      = multiply(b, new_matrix(b, width, width), in);
    struct ggml_tensor * v      = multiply(b, new_matrix(b, width, width), in);
    if (random_chance(&b->random, 50)) {
        k = through_cache(b, k);
    }
    q                         = split_heads(b, q, heads);
    k                         = split_heads(b, k, heads);
    float bound               = *bound_of(b, v);
    v                         = add_value(b, ggml_permute(b->ctx, split_heads(b, v, heads), 1, 0, 2, 3), bound);
    v                         = add_value(b, ggml_cont(b->ctx, v), bound);
    struct ggml_tensor * mask = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ tokens, tokens, 1, 1 }, 0);
    struct ggml_tensor * kq   = multiply(b, k, q);
    kq                        = add_value(b, ggml_soft_max_ext(b->ctx, kq, mask, 0.1f, 0.0f), 1.0f);
    struct ggml_tensor * kqv  = multiply(b, v, kq);
    bound                     = *bound_of(b, kqv);
    kqv                       = add_value(b, ggml_permute(b->ctx, kqv, 0, 2, 1, 3), bound);
    kqv                       = add_value(b, ggml_cont_2d(b->ctx, kqv, width, tokens), bound);
    return add_value(b, ggml_add(b->ctx, kqv, x), bound + *bound_of(b, x));
}
