// Nodes whose result has the shape of their first source.

#include <stdlib.h>

#include "check.h"
#include "constructions.h"
#include "graph_fields.h"
#include "leafs.h"
#include "overwriting.h"
#include "random.h"

struct ggml_tensor * make_unary(struct builder * b) {
    static const enum ggml_unary_op ops[] = { GGML_UNARY_OP_ABS,  GGML_UNARY_OP_SGN,     GGML_UNARY_OP_NEG,
                                              GGML_UNARY_OP_STEP, GGML_UNARY_OP_TANH,    GGML_UNARY_OP_ELU,
                                              GGML_UNARY_OP_RELU, GGML_UNARY_OP_SIGMOID, GGML_UNARY_OP_GELU,
                                              GGML_UNARY_OP_SILU, GGML_UNARY_OP_HARDSWISH };

    struct ggml_tensor * x     = pick_plain_f32(b);
    enum ggml_unary_op   op    = ops[random_below(&b->random, (int64_t) (sizeof(ops) / sizeof(ops[0])))];
    float                bound = *bound_of(b, x) + 1.0f;
    if (random_chance(&b->random, 15)) {
        return add_overwriting(b, ggml_unary_inplace(b->ctx, x, op), bound);
    }
    return add_value(b, ggml_unary(b->ctx, x, op), bound);
}

struct ggml_tensor * make_scale(struct builder * b) {
    struct ggml_tensor * x     = pick_plain_f32(b);
    float                by    = random_unit(&b->random);
    float                bound = *bound_of(b, x) + 1.0f;
    switch (random_below(&b->random, 5)) {
        case 0:  return add_overwriting(b, ggml_scale_inplace(b->ctx, x, by), bound);
        case 1:  return add_value(b, ggml_scale_bias(b->ctx, x, by, by), bound);
        case 2:  return add_result(b, ggml_clamp(b->ctx, x, -0.75f, 0.75f), 1.0f);
        case 3:  return add_value(b, ggml_fill(b->ctx, x, by), 1.0f);
        default: return add_value(b, ggml_scale(b->ctx, x, by), bound);
    }
}

// A tensor that can be the second operand of x: of its shape, or one that is repeated along some dimensions.
static struct ggml_tensor * pick_partner(struct builder * b, struct ggml_tensor * x) {
    for (int tries = 0; tries < 24; tries++) {
        struct ggml_tensor * y    = pick(b, is_f32_with_dense_rows);
        bool                 fits = y != NULL && ggml_can_repeat(y, x);
        if (fits && (ggml_are_same_shape(y, x) || random_chance(&b->random, 10))) {
            return y;
        }
    }
    int64_t ne[4];
    for (int i = 0; i < 4; i++) {
        ne[i] = random_chance(&b->random, 25) ? 1 : x->ne[i];
    }
    return new_reals(b, GGML_TYPE_F32, ne, 50);
}

static struct ggml_tensor * apply(struct builder * b, enum ggml_op op, struct ggml_tensor * x, struct ggml_tensor * y,
                                  bool inplace) {
    switch (op) {
        case GGML_OP_SUB: return inplace ? ggml_sub_inplace(b->ctx, x, y) : ggml_sub(b->ctx, x, y);
        case GGML_OP_MUL: return inplace ? ggml_mul_inplace(b->ctx, x, y) : ggml_mul(b->ctx, x, y);
        case GGML_OP_DIV: return inplace ? ggml_div_inplace(b->ctx, x, y) : ggml_div(b->ctx, x, y);
        default:          return inplace ? ggml_add_inplace(b->ctx, x, y) : ggml_add(b->ctx, x, y);
    }
}

// Notes a value that `node` could read in place of y. One with a larger bound could make values that
// are computed from the node infinite.
static void note_rewiring(struct builder * b, struct ggml_tensor * node, struct ggml_tensor * y) {
    struct ggml_tensor * other = pick(b, is_plain_f32);
    if (other == NULL || other == y || other == node || other == node->src[0] || !ggml_are_same_layout(other, y) ||
        *bound_of(b, other) > *bound_of(b, y)) {
        return;
    }
    struct random_graph_detail * d = b->d;

    d->rewirings = realloc(d->rewirings, (size_t) (d->n_rewirings + 1) * sizeof(*d->rewirings));
    CHECK(d->rewirings != NULL, "out of memory");
    d->rewirings[d->n_rewirings++] = (struct rewiring){ .node = node, .other = other };
}

struct ggml_tensor * make_arithmetic(struct builder * b) {
    static const enum ggml_op ops[] = { GGML_OP_ADD, GGML_OP_ADD, GGML_OP_SUB, GGML_OP_MUL, GGML_OP_DIV };

    struct ggml_tensor * x  = pick(b, is_f32_with_dense_rows);
    enum ggml_op         op = ops[random_below(&b->random, 5)];
    x                       = x != NULL ? x : new_random_leaf(b);
    struct ggml_tensor * y  = random_chance(&b->random, 8) ? x : pick_partner(b, x);
    if (op == GGML_OP_DIV) {
        // the divisor: between 0.5 and 1.5
        y = add_value(b, ggml_sigmoid(b->ctx, make_plain(b, y)), 1.0f);
        y = add_value(b, ggml_scale_bias(b->ctx, y, 1.0f, 0.5f), 2.0f);
    }
    float bound_x = *bound_of(b, x);
    float bound_y = *bound_of(b, y);
    float bound   = op == GGML_OP_MUL ? bound_x * bound_y : op == GGML_OP_DIV ? bound_x * 2.0f : bound_x + bound_y;
    if (random_chance(&b->random, 15) && may_overwrite(x, y)) {
        return add_overwriting(b, apply(b, op, x, y, true), bound);
    }
    struct ggml_tensor * node = add_value(b, apply(b, op, x, y, false), bound);
    if (op == GGML_OP_ADD && x != y && is_plain_f32(y)) {
        note_rewiring(b, node, y);
    }
    return node;
}

struct ggml_tensor * make_norm(struct builder * b) {
    struct ggml_tensor * x     = pick_plain_f32(b);
    const float          eps   = 1e-5f;
    float                bound = 17.0f; // the root of the longest row, rounded up
    if (x->ne[0] > 256) {
        return NULL;
    }
    switch (random_below(&b->random, 6)) {
        case 0:  return add_value(b, ggml_norm(b->ctx, x, eps), bound);
        case 1:  return add_value(b, ggml_l2_norm(b->ctx, x, eps), bound);
        case 2:  return add_overwriting(b, ggml_rms_norm_inplace(b->ctx, x, eps), bound);
        default: break;
    }
    struct ggml_tensor * normed = add_value(b, ggml_rms_norm(b->ctx, x, eps), bound);
    if (random_chance(&b->random, 70)) {
        // the pair that the CPU backend fuses
        struct ggml_tensor * by = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ x->ne[0], 1, 1, 1 }, 90);
        normed                  = add_value(b, ggml_mul(b->ctx, normed, by), bound);
    }
    return normed;
}

struct ggml_tensor * make_soft_max(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    if (random_chance(&b->random, 20)) {
        return add_overwriting(b, ggml_soft_max_inplace(b->ctx, x), 1.0f);
    }
    struct ggml_tensor * mask = NULL;
    if (random_chance(&b->random, 60)) {
        enum ggml_type type = random_chance(&b->random, 50) ? GGML_TYPE_F16 : GGML_TYPE_F32;
        mask                = new_reals(b, type, (int64_t[4]){ x->ne[0], x->ne[1], 1, 1 }, 10);
    }
    return add_value(b, ggml_soft_max_ext(b->ctx, x, mask, 0.5f, 0.0f), 1.0f);
}

struct ggml_tensor * make_rope(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    if (x->ne[0] % 2 != 0) {
        return NULL;
    }
    struct ggml_tensor * positions = new_indices(b, GGML_TYPE_I32, x->ne[2], 100, false);
    float                bound     = *bound_of(b, x) * 1.5f;
    int                  n_dims    = (int) x->ne[0];
    if (random_chance(&b->random, 20)) {
        return add_overwriting(b, ggml_rope_inplace(b->ctx, x, positions, n_dims, 0), bound);
    }
    return add_value(b, ggml_rope(b->ctx, x, positions, n_dims, GGML_ROPE_TYPE_NEOX), bound);
}

struct ggml_tensor * make_masked(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    if (random_chance(&b->random, 30)) {
        return add_overwriting(b, ggml_diag_mask_zero_inplace(b->ctx, x, 1), *bound_of(b, x));
    }
    return add_value(b, ggml_diag_mask_zero(b->ctx, x, 0), *bound_of(b, x));
}
