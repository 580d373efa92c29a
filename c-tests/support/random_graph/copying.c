// Results that are computed for a copy alone: into memory that others read and write before, in between and behind.

#include "constructions.h"
#include "leafs.h"
#include "overwriting.h"
#include "random.h"

// A result that only its copy will read: it is not among the values that others pick.
struct produced {
    struct ggml_tensor * result;
    float                bound;
};

// Copies of copies would grow without end.
static struct ggml_tensor * pick_small(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    return ggml_nelements(x) <= b->options.max_elements ? x : new_random_leaf(b);
}

// Something plain to compute from: a value, or rows of it, which may be rows of memory that is written to later.
static struct ggml_tensor * pick_operand(struct builder * b) {
    struct ggml_tensor * x = pick_small(b);
    if (x->ne[1] == 1 || x->ne[2] != 1 || x->ne[3] != 1 || random_chance(&b->random, 40)) {
        return x;
    }
    int64_t rows  = random_between(&b->random, 1, x->ne[1]);
    size_t  first = (size_t) random_between(&b->random, 0, x->ne[1] - rows);
    return ggml_view_2d(b->ctx, x, x->ne[0], rows, x->nb[1], first * x->nb[1]);
}

static struct ggml_tensor * normalized_product(struct builder * b, struct ggml_tensor * x) {
    struct ggml_tensor * by = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ x->ne[0], 1, 1, 1 }, 90);
    return ggml_mul(b->ctx, ggml_rms_norm(b->ctx, x, 1e-5f), by);
}

static struct produced produce(struct builder * b, struct ggml_tensor * x) {
    float bound = *bound_of(b, x);
    switch (random_below(&b->random, 7)) {
        case 0:  return (struct produced){ ggml_scale(b->ctx, x, 0.5f), bound };
        case 1:  return (struct produced){ ggml_tanh(b->ctx, x), 1.0f };
        case 2:  return (struct produced){ ggml_add(b->ctx, x, new_reals(b, GGML_TYPE_F32, x->ne, 30)), bound + 1.0f };
        case 3:  return (struct produced){ ggml_mul(b->ctx, new_reals(b, GGML_TYPE_F32, x->ne, 30), x), bound };
        case 4:  return (struct produced){ ggml_soft_max(b->ctx, x), 1.0f };
        case 5:  return (struct produced){ normalized_product(b, x), 17.0f };
        default: break;
    }
    struct ggml_tensor * a = new_matrix(b, x->ne[0], random_between(&b->random, 1, 12));
    return (struct produced){ ggml_mul_mat(b->ctx, a, x), bound * (float) x->ne[0] };
}

static struct ggml_tensor * turn_once(struct builder * b, struct ggml_tensor * t) {
    static const int orders[][4] = { { 0, 2, 1, 3 }, { 1, 0, 2, 3 }, { 2, 0, 1, 3 }, { 0, 1, 3, 2 } };

    const int * order = orders[random_below(&b->random, 4)];
    int64_t     n     = ggml_nelements(t);
    int64_t     rows  = n % 4 == 0 ? 4 : n % 3 == 0 ? 3 : 1;
    switch (random_below(&b->random, 3)) {
        case 0:  return ggml_permute(b->ctx, t, order[0], order[1], order[2], order[3]);
        case 1:  return is_plain(t) ? ggml_reshape_3d(b->ctx, t, n / rows, rows, 1) : t;
        default: return ggml_transpose(b->ctx, t);
    }
}

// Uses all of a result, or, now and then, at a part of it.
static struct ggml_tensor * turn(struct builder * b, struct ggml_tensor * t) {
    int times = (int) random_below(&b->random, 4);
    for (int i = 0; i < times; i++) {
        t = turn_once(b, t);
    }
    if (t->ne[1] > 1 && random_chance(&b->random, 10)) {
        return ggml_view_4d(b->ctx, t, t->ne[0], t->ne[1] - 1, t->ne[2], t->ne[3], t->nb[1], t->nb[2], t->nb[3], 0);
    }
    return t;
}

// Memory for that many elements, usually some that is used already.
static struct ggml_tensor * pick_memory(struct builder * b, int64_t n) {
    for (int tries = 0; tries < 8 && random_chance(&b->random, 90); tries++) {
        struct ggml_tensor * t = pick(b, is_plain_f32);
        if (t != NULL && ggml_nelements(t) >= n) {
            return t;
        }
    }
    return new_reals(b, GGML_TYPE_F32, (int64_t[4]){ n * random_between(&b->random, 1, 4), 1, 1, 1 }, 80);
}

// A place for all of x: in one piece, in rows with gaps, or in columns.
static struct ggml_tensor * pick_place(struct builder * b, struct ggml_tensor * memory, const struct ggml_tensor * x) {
    int64_t n    = ggml_nelements(x);
    int64_t room = ggml_nelements(memory);
    int64_t rows = n / x->ne[0];
    int64_t step = room / rows;
    int64_t at   = random_between(&b->random, 0, room - n);
    if (random_chance(&b->random, 50) || step < x->ne[0]) {
        return ggml_view_1d(b->ctx, memory, n, (size_t) at * sizeof(float));
    }
    at = random_between(&b->random, 0, step - x->ne[0]);
    struct ggml_tensor * place = ggml_view_2d(b->ctx, memory, x->ne[0], rows, (size_t) step * sizeof(float),
                                              (size_t) at * sizeof(float));
    return random_chance(&b->random, 20) ? ggml_transpose(b->ctx, place) : place;
}

// Somebody uses the memory, or a part of it, between the result and its copy.
static void use_between(struct builder * b, struct ggml_tensor * memory) {
    int64_t              room = ggml_nelements(memory);
    int64_t              n    = random_between(&b->random, 1, room);
    size_t               at   = (size_t) random_between(&b->random, 0, room - n) * sizeof(float);
    struct ggml_tensor * part = ggml_view_1d(b->ctx, memory, n, at);
    float                bound = *bound_of(b, memory);
    if (random_chance(&b->random, 50)) {
        ggml_build_forward_expand(b->g->graph, add_value(b, ggml_scale(b->ctx, part, 0.5f), bound));
    } else {
        add_overwriting(b, ggml_scale_inplace(b->ctx, part, 0.5f), bound);
    }
}

static struct ggml_tensor * copy_into_memory(struct builder * b) {
    struct produced      made   = produce(b, pick_operand(b));
    struct ggml_tensor * source = turn(b, made.result);
    struct ggml_tensor * memory = pick_memory(b, ggml_nelements(source));
    struct ggml_tensor * place  = pick_place(b, memory, source);
    if (random_chance(&b->random, 50)) {
        ggml_build_forward_expand(b->g->graph, made.result);
        if (random_chance(&b->random, 40)) {
            use_between(b, memory);
        }
    }
    struct ggml_tensor * copy = add_overwriting(b, ggml_cpy(b->ctx, source, place), made.bound);
    if (random_chance(&b->random, 15)) {
        add_value(b, ggml_sqr(b->ctx, made.result), made.bound * made.bound);
    }
    return copy;
}

// A result computed from a part of the memory is written back there, or next to it.
static struct ggml_tensor * update_state(struct builder * b) {
    struct ggml_tensor * memory = pick_memory(b, 64);
    int64_t              room   = ggml_nelements(memory);
    int64_t              n      = random_between(&b->random, 1, room);
    int64_t              from   = random_between(&b->random, 0, room - n);
    int64_t              to     = random_chance(&b->random, 60) ? from : random_between(&b->random, 0, room - n);
    struct ggml_tensor * state  = ggml_view_1d(b->ctx, memory, n, (size_t) from * sizeof(float));
    struct ggml_tensor * place  = ggml_view_1d(b->ctx, memory, n, (size_t) to * sizeof(float));
    struct produced      made   = produce(b, state);
    if (ggml_nelements(made.result) != n) {
        return NULL;
    }
    return add_overwriting(b, ggml_cpy(b->ctx, made.result, place), made.bound);
}

static struct ggml_tensor * copy_to_new_memory(struct builder * b) {
    struct produced      made   = produce(b, pick_operand(b));
    struct ggml_tensor * source = turn(b, made.result);
    return add_value(b, random_chance(&b->random, 80) ? ggml_cont(b->ctx, source) : ggml_dup(b->ctx, source),
                     made.bound);
}

static struct ggml_tensor * join(struct builder * b) {
    struct ggml_tensor * x      = pick_small(b);
    float                bound  = *bound_of(b, x);
    int                  dim    = (int) random_below(&b->random, 4);
    struct ggml_tensor * first  = ggml_scale(b->ctx, x, 0.25f);
    struct ggml_tensor * second = random_chance(&b->random, 50) ? ggml_tanh(b->ctx, x) : ggml_scale(b->ctx, x, 2.0f);
    if (random_chance(&b->random, 50)) {
        ggml_build_forward_expand(b->g->graph, first);
    }
    struct ggml_tensor * both = ggml_concat(b->ctx, first, second, dim);
    if (random_chance(&b->random, 30)) {
        both = ggml_concat(b->ctx, both, ggml_scale(b->ctx, both->src[0], 0.5f), dim);
    } else if (random_chance(&b->random, 30)) {
        both = ggml_concat(b->ctx, both, ggml_scale(b->ctx, x, 0.5f), dim);
    }
    if (random_chance(&b->random, 30)) {
        struct ggml_tensor * memory = pick_memory(b, ggml_nelements(both));
        struct ggml_tensor * place  = pick_place(b, memory, both);
        return add_overwriting(b, ggml_cpy(b->ctx, both, place), 2.0f * bound + 1.0f);
    }
    return add_value(b, both, 2.0f * bound + 1.0f);
}

struct ggml_tensor * make_produced_copy(struct builder * b) {
    switch (random_below(&b->random, 5)) {
        case 0:
        case 1:  return copy_into_memory(b);
        case 2:  return update_state(b);
        case 3:  return copy_to_new_memory(b);
        default: return join(b);
    }
}
