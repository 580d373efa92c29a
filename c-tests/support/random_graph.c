#include "random_graph.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ggml-alloc.h"

// The list of nodes and the hash table of a graph; the functions there are not all needed here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "ggml-impl.h"
#pragma GCC diagnostic pop

// Graphs stay far smaller than this; a graph's hash table is as large as its capacity wants.
#define GRAPH_CAPACITY 2048
// A tensor whose values can be larger than this in magnitude is only read by a node that scales it down.
#define READ_BOUND 100.0f

// ---------------------------------------------------------------------------------------------------
// Random numbers
// ---------------------------------------------------------------------------------------------------

// splitmix64
static uint64_t next_random(uint64_t * state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z          = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// In [0, n).
static int64_t random_below(uint64_t * state, int64_t n) {
    return (int64_t) (next_random(state) % (uint64_t) n);
}

// In [low, high].
static int64_t random_between(uint64_t * state, int64_t low, int64_t high) {
    return low + random_below(state, high - low + 1);
}

static bool random_chance(uint64_t * state, int percent) {
    return random_below(state, 100) < percent;
}

// In [-1, 1).
static float random_unit(uint64_t * state) {
    return (float) (next_random(state) >> 40) / (float) (1 << 23) - 1.0f;
}

// ---------------------------------------------------------------------------------------------------
// What is known while a graph grows
// ---------------------------------------------------------------------------------------------------

static void list_add(struct tensor_list * list, struct ggml_tensor * tensor) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 16;
        list->items    = realloc(list->items, (size_t) list->capacity * sizeof(*list->items));
        CHECK(list->items != NULL, "out of memory");
    }
    list->items[list->count++] = tensor;
}

static bool list_has(const struct tensor_list * list, const struct ggml_tensor * tensor) {
    for (int i = 0; i < list->count; i++) {
        if (list->items[i] == tensor) {
            return true;
        }
    }
    return false;
}

// A tensor without operation: how its values are drawn.
struct leaf {
    struct ggml_tensor * tensor;
    int64_t              limit;  // values of an integer tensor lie in [0, limit)
    bool                 unique; // and are all different
};

// `node` may read `other` in place of its second source.
struct rewiring {
    struct ggml_tensor * node;
    struct ggml_tensor * other;
};

struct random_graph_detail {
    struct ggml_context * early_ctx; // weights that have memory while the graph is built
    struct ggml_context * late_ctx;  // weights that get it when the graph is complete

    ggml_backend_buffer_t * buffers;
    int                     n_buffers;

    struct leaf *      leafs;
    int                n_leafs;
    struct rewiring *  rewirings;
    int                n_rewirings;
    struct tensor_list overwritten; // roots that some node overwrites explicitly
};

struct builder {
    struct random_graph *        g;
    struct random_graph_options  options;
    struct random_graph_detail * d;
    struct ggml_context *        ctx;
    uint64_t                     random;

    struct tensor_list values; // everything made so far, in order
    float *            bounds; // for each value that is not a view: largest magnitude
    int                capacity;
};

static struct ggml_tensor * root_of(struct ggml_tensor * tensor) {
    return tensor->view_src != NULL ? tensor->view_src : tensor;
}

static float * bound_of(struct builder * b, struct ggml_tensor * tensor) {
    for (int i = b->values.count - 1; i >= 0; i--) {
        if (b->values.items[i] == root_of(tensor)) {
            return &b->bounds[i];
        }
    }
    CHECK(false, "%s is not known", tensor->name);
    return NULL;
}

// Takes a new tensor into the list of values. What is written through a view raises its root's bound.
static struct ggml_tensor * add_value(struct builder * b, struct ggml_tensor * tensor, float bound) {
    if (b->values.count == b->capacity) {
        b->capacity = b->capacity * 2 + 64;
        b->bounds   = realloc(b->bounds, (size_t) b->capacity * sizeof(*b->bounds));
        CHECK(b->bounds != NULL, "out of memory");
    }
    b->bounds[b->values.count] = bound;
    ggml_format_name(tensor, "%s_%d", ggml_op_name(tensor->op), b->values.count);
    list_add(&b->values, tensor);
    if (tensor->view_src != NULL) {
        float * root_bound = bound_of(b, tensor);
        *root_bound        = *root_bound > bound ? *root_bound : bound;
    }
    return tensor;
}

static bool is_f32(const struct ggml_tensor * t) {
    return t->type == GGML_TYPE_F32;
}

static bool has_dense_rows(const struct ggml_tensor * t) {
    return t->nb[0] == ggml_type_size(t->type);
}

static bool is_f32_with_dense_rows(const struct ggml_tensor * t) {
    return is_f32(t) && has_dense_rows(t);
}

// Stricter than ggml_is_contiguous(), which does not look at the strides of dimensions of size 1; some
// operations do.
static bool is_plain(const struct ggml_tensor * t) {
    size_t stride = ggml_row_size(t->type, t->ne[0]);
    bool   plain  = t->nb[0] == ggml_type_size(t->type);
    for (int i = 1; i < GGML_MAX_DIMS; i++) {
        plain = plain && t->nb[i] == stride;
        stride *= (size_t) t->ne[i];
    }
    return plain;
}

static bool is_plain_f32(const struct ggml_tensor * t) {
    return is_f32(t) && is_plain(t);
}

static bool is_real(const struct ggml_tensor * t) {
    return t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_F16;
}

static bool is_dense_matrix(const struct ggml_tensor * t) {
    return is_real(t) && has_dense_rows(t) && t->ne[2] == 1 && t->ne[3] == 1 && !ggml_is_transposed(t);
}

static bool is_plain_real(const struct ggml_tensor * t) {
    return is_real(t) && is_plain(t);
}

typedef bool (*tensor_property)(const struct ggml_tensor * tensor);

static bool is_readable(struct builder * b, struct ggml_tensor * t, tensor_property wanted) {
    return !ggml_is_empty(t) && wanted(t) && *bound_of(b, t) <= READ_BOUND;
}

// A random value with the property, mostly one of the latest, or NULL.
static struct ggml_tensor * pick(struct builder * b, tensor_property wanted) {
    int n      = b->values.count;
    int window = random_chance(&b->random, 70) && n > 8 ? 8 : n;
    for (int tries = 0; tries < 12 && n > 0; tries++) {
        struct ggml_tensor * t = b->values.items[n - 1 - (int) random_below(&b->random, window)];
        if (is_readable(b, t, wanted)) {
            return t;
        }
    }
    return NULL;
}

// ---------------------------------------------------------------------------------------------------
// Tensors without operation
// ---------------------------------------------------------------------------------------------------

static void add_leaf(struct builder * b, struct ggml_tensor * tensor, int64_t limit, bool unique) {
    struct random_graph_detail * d = b->d;

    d->leafs = realloc(d->leafs, (size_t) (d->n_leafs + 1) * sizeof(*d->leafs));
    CHECK(d->leafs != NULL, "out of memory");
    d->leafs[d->n_leafs++] = (struct leaf){ .tensor = tensor, .limit = limit, .unique = unique };
    add_value(b, tensor, 1.0f);
    ggml_format_name(tensor, "leaf_%d_%s", b->values.count - 1, ggml_type_name(tensor->type));
}

static void add_buffer(struct random_graph_detail * d, ggml_backend_buffer_t buffer) {
    d->buffers = realloc(d->buffers, (size_t) (d->n_buffers + 1) * sizeof(*d->buffers));
    CHECK(d->buffers != NULL, "out of memory");
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    d->buffers[d->n_buffers++] = buffer;
}

// A weight that has memory before anything reads it: views of it are born with an address.
static struct ggml_tensor * new_early_weight(struct builder * b, enum ggml_type type, const int64_t * ne) {
    struct ggml_tensor *       tensor = ggml_new_tensor(b->d->early_ctx, type, 4, ne);
    ggml_backend_buffer_type_t buft   = ggml_backend_cpu_buffer_type();
    ggml_backend_buffer_t      buffer = ggml_backend_buft_alloc_buffer(buft, ggml_nbytes(tensor));
    CHECK(buffer != NULL, "no memory for a weight");
    add_buffer(b->d, buffer);
    ggml_backend_tensor_alloc(buffer, tensor, ggml_backend_buffer_get_base(buffer));
    return tensor;
}

static struct ggml_tensor * new_weight(struct builder * b, enum ggml_type type, const int64_t * ne) {
    struct ggml_tensor * tensor = random_chance(&b->random, 50) ? new_early_weight(b, type, ne)
                                                                : ggml_new_tensor(b->d->late_ctx, type, 4, ne);
    list_add(&b->g->weights, tensor);
    return tensor;
}

static struct ggml_tensor * new_input(struct builder * b, enum ggml_type type, const int64_t * ne) {
    struct ggml_tensor * tensor = ggml_new_tensor(b->ctx, type, 4, ne);
    if (random_chance(&b->random, 70)) {
        ggml_set_input(tensor);
    }
    list_add(&b->g->inputs, tensor);
    return tensor;
}

// An integer tensor with values in [0, limit).
static struct ggml_tensor * new_indices(struct builder * b, enum ggml_type type, int64_t n, int64_t limit,
                                        bool unique) {
    struct ggml_tensor * tensor = new_input(b, type, (int64_t[4]){ n, 1, 1, 1 });
    add_leaf(b, tensor, limit, unique);
    return tensor;
}

// A tensor of reals in [-1, 1].
static struct ggml_tensor * new_reals(struct builder * b, enum ggml_type type, const int64_t * ne,
                                      int weight_percent) {
    bool                 weight = random_chance(&b->random, weight_percent);
    struct ggml_tensor * tensor = weight ? new_weight(b, type, ne) : new_input(b, type, ne);
    add_leaf(b, tensor, 0, false);
    return tensor;
}

static struct ggml_tensor * new_matrix(struct builder * b, int64_t columns, int64_t rows) {
    enum ggml_type type = random_chance(&b->random, 30) ? GGML_TYPE_F16 : GGML_TYPE_F32;
    return new_reals(b, type, (int64_t[4]){ columns, rows, 1, 1 }, 80);
}

static struct ggml_tensor * new_random_leaf(struct builder * b) {
    static const int64_t sizes[] = { 1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 24, 31, 32, 33, 48, 64, 100, 128, 257 };

    int64_t ne[4]    = { 1, 1, 1, 1 };
    int64_t elements = 1;
    int     n_dims   = (int) random_between(&b->random, 1, 4);
    for (int i = 0; i < n_dims; i++) {
        int64_t size = sizes[random_below(&b->random, (int64_t) (sizeof(sizes) / sizeof(sizes[0])))];
        if (elements * size <= b->options.max_elements) {
            ne[i] = size;
            elements *= size;
        }
    }
    return new_reals(b, GGML_TYPE_F32, ne, 25);
}

// ---------------------------------------------------------------------------------------------------
// Explicit overwriting
// ---------------------------------------------------------------------------------------------------

static bool is_in_graph(struct builder * b, const struct ggml_tensor * tensor) {
    struct ggml_hash_set * set = &b->g->graph->visited_hash_set;
    return ggml_bitset_get(set->used, ggml_hash_find(set, tensor));
}

static bool touches(struct ggml_tensor * tensor, const struct ggml_tensor * root) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (tensor->src[i] != NULL && root_of(tensor->src[i]) == root) {
            return true;
        }
    }
    return root_of(tensor) == root;
}

// A node that reads what it writes races with itself. Sources of `other` count as well: the CPU
// backend computes a normalization and the product behind it in one go.
static bool may_overwrite(struct ggml_tensor * target, struct ggml_tensor * other) {
    return other == NULL || !touches(other, root_of(target));
}

// Takes in a node that overwrites its view_src. All that reads the old values enters the graph before
// it, so that the order of reading and writing is the same however the rest is expanded.
static struct ggml_tensor * add_overwriting(struct builder * b, struct ggml_tensor * node, float bound) {
    struct ggml_tensor * root = root_of(node);
    for (int i = 0; i < b->values.count; i++) {
        struct ggml_tensor * t = b->values.items[i];
        if (t->op != GGML_OP_NONE && touches(t, root) && !is_in_graph(b, t)) {
            ggml_build_forward_expand(b->g->graph, t);
        }
    }
    add_value(b, node, bound);
    list_add(&b->d->overwritten, root);
    ggml_build_forward_expand(b->g->graph, node);
    return node;
}

// For functions of ggml that give a new tensor in one version and a view in another.
static struct ggml_tensor * add_result(struct builder * b, struct ggml_tensor * node, float bound) {
    return node->view_src != NULL ? add_overwriting(b, node, bound) : add_value(b, node, bound);
}

// ---------------------------------------------------------------------------------------------------
// Constructions: each takes values and adds one or more nodes; NULL when nothing fits
// ---------------------------------------------------------------------------------------------------

static struct ggml_tensor * make_plain(struct builder * b, struct ggml_tensor * t) {
    return is_plain(t) ? t : add_value(b, ggml_cont(b->ctx, t), *bound_of(b, t));
}

static struct ggml_tensor * pick_plain_f32(struct builder * b) {
    struct ggml_tensor * t = pick(b, is_f32);
    return t != NULL ? make_plain(b, t) : new_random_leaf(b);
}

static struct ggml_tensor * make_unary(struct builder * b) {
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

static struct ggml_tensor * make_scale(struct builder * b) {
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

// A tensor that can stand beside x: of its shape, or one that is repeated along some dimensions.
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

static struct ggml_tensor * make_arithmetic(struct builder * b) {
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

static struct ggml_tensor * make_norm(struct builder * b) {
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
        // the pair that the CPU backend computes in one go
        struct ggml_tensor * by = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ x->ne[0], 1, 1, 1 }, 90);
        normed                  = add_value(b, ggml_mul(b->ctx, normed, by), bound);
    }
    return normed;
}

static struct ggml_tensor * make_soft_max(struct builder * b) {
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

static struct ggml_tensor * make_rope(struct builder * b) {
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

// A part of x along every dimension; all of it, at offset 0, now and then.
static struct ggml_tensor * make_slice(struct builder * b) {
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

static struct ggml_tensor * make_reshape(struct builder * b) {
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

static struct ggml_tensor * make_permutation(struct builder * b) {
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

static struct ggml_tensor * make_cont(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_real);
    return x != NULL ? add_value(b, ggml_cont(b->ctx, x), *bound_of(b, x)) : NULL;
}

static struct ggml_tensor * make_cast(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_real);
    if (x == NULL) {
        return NULL;
    }
    enum ggml_type type = x->type == GGML_TYPE_F16 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    return add_value(b, ggml_cast(b->ctx, x, type), *bound_of(b, x));
}

// Copies a value, or a new input, over a part of something.
static struct ggml_tensor * make_copy(struct builder * b) {
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

static struct ggml_tensor * make_get_rows(struct builder * b) {
    struct ggml_tensor * x = pick(b, is_dense_matrix);
    if (x == NULL) {
        return NULL;
    }
    int64_t              n    = random_between(&b->random, 1, x->ne[1] + 2);
    struct ggml_tensor * rows = new_indices(b, GGML_TYPE_I32, n, x->ne[1], false);
    return add_value(b, ggml_get_rows(b->ctx, x, rows), *bound_of(b, x));
}

// Writes rows of one matrix to places in another that an input names: a cache, mostly.
static struct ggml_tensor * make_set_rows(struct builder * b) {
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

static bool can_multiply(const struct ggml_tensor * a, const struct ggml_tensor * x) {
    bool broadcasts = x->ne[2] % a->ne[2] == 0 && x->ne[3] % a->ne[3] == 0;
    return a->ne[0] == x->ne[0] && broadcasts && !ggml_is_transposed(a) && has_dense_rows(a) && is_real(a);
}

static struct ggml_tensor * multiply(struct builder * b, struct ggml_tensor * a, struct ggml_tensor * x) {
    float bound = (float) x->ne[0] * *bound_of(b, a) * *bound_of(b, x);
    return add_value(b, ggml_mul_mat(b->ctx, a, x), bound);
}

static struct ggml_tensor * make_mul_mat(struct builder * b) {
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

static struct ggml_tensor * make_concat(struct builder * b) {
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

static struct ggml_tensor * make_resized(struct builder * b) {
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

// x with a part of it replaced or added to.
static struct ggml_tensor * make_set(struct builder * b) {
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

static struct ggml_tensor * make_masked(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    if (random_chance(&b->random, 30)) {
        return add_overwriting(b, ggml_diag_mask_zero_inplace(b->ctx, x, 1), *bound_of(b, x));
    }
    return add_value(b, ggml_diag_mask_zero(b->ctx, x, 0), *bound_of(b, x));
}

// Rows of a matrix, chosen by what was computed.
static struct ggml_tensor * make_argmax(struct builder * b) {
    struct ggml_tensor * x = pick_plain_f32(b);
    if (x->ne[2] != 1 || x->ne[3] != 1) {
        return NULL;
    }
    struct ggml_tensor * best = add_value(b, ggml_argmax(b->ctx, x), 0.0f);
    struct ggml_tensor * from = new_matrix(b, random_between(&b->random, 1, 20), x->ne[0]);
    return add_value(b, ggml_get_rows(b->ctx, from, best), 1.0f);
}

// Programs make tensors without elements when a batch has nothing to give back.
static struct ggml_tensor * make_empty(struct builder * b) {
    struct ggml_tensor * x    = pick_plain_f32(b);
    struct ggml_tensor * none = add_value(b, ggml_view_2d(b->ctx, x, x->ne[0], 0, x->nb[1], 0), 0.0f);
    return add_value(b, ggml_scale(b->ctx, none, 2.0f), 0.0f);
}

// A residual block with a gated feed-forward network, as language models have them.
static struct ggml_tensor * make_feed_forward(struct builder * b) {
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

// Writes keys into a cache and gives back a view of what is in it.
static struct ggml_tensor * through_cache(struct builder * b, struct ggml_tensor * keys) {
    int64_t              n     = ggml_nelements(keys);
    struct ggml_tensor * cache = new_reals(b, GGML_TYPE_F32, (int64_t[4]){ n * 2, 1, 1, 1 }, 85);
    struct ggml_tensor * place = add_value(b, ggml_view_1d(b->ctx, cache, n, (size_t) n * sizeof(float)), 1.0f);
    add_overwriting(b, ggml_cpy(b->ctx, keys, place), *bound_of(b, keys));
    float bound = *bound_of(b, cache);
    return add_value(b, ggml_view_2d(b->ctx, cache, keys->ne[0], keys->ne[1], keys->nb[1], 0), bound);
}

static struct ggml_tensor * make_attention(struct builder * b) {
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

// ---------------------------------------------------------------------------------------------------
// Growing
// ---------------------------------------------------------------------------------------------------

struct construction {
    struct ggml_tensor * (*make)(struct builder * b);
    int weight;
};

static const struct construction CONSTRUCTIONS[] = {
    { make_unary, 12 },      { make_scale, 10 },    { make_arithmetic, 20 },  { make_norm, 8 },
    { make_soft_max, 5 },    { make_rope, 4 },      { make_slice, 8 },        { make_reshape, 8 },
    { make_permutation, 6 }, { make_cont, 5 },      { make_cast, 5 },         { make_copy, 6 },
    { make_get_rows, 4 },    { make_set_rows, 4 },  { make_mul_mat, 10 },     { make_concat, 6 },
    { make_resized, 6 },     { make_set, 4 },       { make_masked, 3 },       { make_argmax, 3 },
    { make_empty, 1 },       { make_attention, 4 }, { make_feed_forward, 4 }, { new_random_leaf, 4 },
};

#define N_CONSTRUCTIONS ((int) (sizeof(CONSTRUCTIONS) / sizeof(CONSTRUCTIONS[0])))

static const struct construction * random_construction(struct builder * b) {
    int total = 0;
    for (int i = 0; i < N_CONSTRUCTIONS; i++) {
        total += CONSTRUCTIONS[i].weight;
    }
    int left = (int) random_below(&b->random, total);
    int i    = 0;
    while (left >= CONSTRUCTIONS[i].weight) {
        left -= CONSTRUCTIONS[i++].weight;
    }
    return &CONSTRUCTIONS[i];
}

static void grow(struct builder * b) {
    new_random_leaf(b);
    for (int step = 0; step < b->options.n_steps; step++) {
        struct ggml_tensor * t = random_construction(b)->make(b);
        if (t == NULL || t->type != GGML_TYPE_F32 || ggml_is_empty(t)) {
            continue;
        }
        float bound = *bound_of(b, t);
        if (bound > READ_BOUND) {
            add_value(b, ggml_scale(b->ctx, make_plain(b, t), READ_BOUND / bound), READ_BOUND);
        }
    }
}

// ---------------------------------------------------------------------------------------------------
// Completing
// ---------------------------------------------------------------------------------------------------

// Nodes that read the tensor. A cast names itself as a source and is no reader of itself.
static int count_readers(const struct ggml_cgraph * graph, const struct ggml_tensor * tensor) {
    int count = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        for (int j = 0; j < GGML_MAX_SRC && graph->nodes[i] != tensor; j++) {
            count += graph->nodes[i]->src[j] == tensor;
        }
    }
    return count;
}

static bool has_reader_among_values(const struct builder * b, const struct ggml_tensor * tensor) {
    for (int i = 0; i < b->values.count; i++) {
        for (int j = 0; j < GGML_MAX_SRC && b->values.items[i] != tensor; j++) {
            if (b->values.items[i]->src[j] == tensor) {
                return true;
            }
        }
    }
    return false;
}

// Expands the graph by most of what nothing reads, in random order: results, and tensors that a program
// has placed without using them. The rest never enters the graph.
static void expand_results(struct builder * b) {
    struct tensor_list ends = { 0 };
    for (int i = 0; i < b->values.count; i++) {
        struct ggml_tensor * t    = b->values.items[i];
        bool                 last = i == b->values.count - 1;
        if (!has_reader_among_values(b, t) && !is_in_graph(b, t) && (last || random_chance(&b->random, 70))) {
            list_add(&ends, t);
        }
    }
    while (ends.count > 0) {
        int                  i = (int) random_below(&b->random, ends.count);
        struct ggml_tensor * t = ends.items[i];
        ends.items[i]          = ends.items[--ends.count];
        ggml_build_forward_expand(b->g->graph, t);
    }
    free(ends.items);
}

static void expand_unused_leafs(struct builder * b) {
    int n = (int) random_below(&b->random, 4) - 1;
    for (int i = 0; i < n; i++) {
        ggml_build_forward_expand(b->g->graph, new_random_leaf(b));
    }
}

static bool is_cast(const struct ggml_tensor * tensor) {
    return tensor->op == GGML_OP_CPY && tensor->src[1] == tensor;
}

// A cast counts as its own reader in ggml-alloc, so one that nothing else reads is not kept unless it is
// flagged.
static void flag_outputs(struct builder * b) {
    struct ggml_cgraph * graph = b->g->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_tensor * t    = graph->nodes[i];
        bool                 lost = is_cast(t) && count_readers(graph, t) == 0;
        bool                 may  = t->view_src == NULL || b->options.output_views;
        if (lost || (may && random_chance(&b->random, 12))) {
            // not by ggml_set_output(): recent versions of it flag the root of a view as well
            t->flags |= GGML_TENSOR_FLAG_OUTPUT;
        }
    }
    for (int i = 0; i < b->g->inputs.count; i++) {
        if (random_chance(&b->random, 5)) {
            ggml_set_output(b->g->inputs.items[i]);
        }
    }
}

static void insert_node(struct ggml_cgraph * graph, int at, struct ggml_tensor * node) {
    CHECK(graph->n_nodes < graph->size, "the graph is full");
    memmove(&graph->nodes[at + 1], &graph->nodes[at], (size_t) (graph->n_nodes - at) * sizeof(*graph->nodes));
    graph->nodes[at] = node;
    graph->n_nodes++;
}

// What the scheduler inserts so that memory is kept until a certain node: a view of one of the kept
// tensors, without operation, that has all of them as sources.
static struct ggml_tensor * new_marker(struct builder * b, struct ggml_tensor ** kept, int n_kept) {
    struct ggml_tensor * marker = ggml_view_tensor(b->ctx, kept[0]);
    for (int i = 0; i < n_kept; i++) {
        marker->src[i] = kept[i];
    }
    return marker;
}

static void insert_markers(struct builder * b) {
    struct ggml_cgraph * graph     = b->g->graph;
    int                  n_markers = (int) random_between(&b->random, 1, 5);
    for (int m = 0; m < n_markers && graph->n_nodes > 1; m++) {
        int                  at   = (int) random_between(&b->random, 1, graph->n_nodes);
        int                  n    = (int) random_between(&b->random, 1, 3);
        int                  from = b->options.early_markers ? graph->n_nodes : at;
        struct ggml_tensor * kept[3];
        int                  n_kept = 0;
        for (int i = 0; i < n; i++) {
            struct ggml_tensor * t = graph->nodes[random_below(&b->random, from)];
            if (random_chance(&b->random, 20) && graph->n_leafs > 0) {
                t = graph->leafs[random_below(&b->random, graph->n_leafs)];
            }
            if (t->op != GGML_OP_NONE || t->view_src == NULL) {
                kept[n_kept++] = t;
            }
        }
        if (n_kept > 0) {
            insert_node(graph, at, new_marker(b, kept, n_kept));
        }
    }
}

// Lets the nodes from `start` on read `copy` in place of `original`. Nodes that make views keep the
// original, since a view's memory is that of its root.
static int redirect(struct ggml_cgraph * graph, int start, struct ggml_tensor * original, struct ggml_tensor * copy) {
    int count = 0;
    for (int i = start; i < graph->n_nodes; i++) {
        for (int j = 0; j < GGML_MAX_SRC && graph->nodes[i]->view_src == NULL; j++) {
            if (graph->nodes[i]->src[j] == original && graph->nodes[i] != original) {
                graph->nodes[i]->src[j] = copy;
                count++;
            }
        }
    }
    return count;
}

// With several copies of each input, for pipelines, the scheduler flags them and lists them as leafs too.
static void flag_copy(struct builder * b, struct ggml_tensor * copy) {
    struct ggml_cgraph * graph = b->g->graph;
    if (random_chance(&b->random, 30)) {
        ggml_set_input(copy);
    }
    if (random_chance(&b->random, 20)) {
        ggml_set_output(copy);
        graph->leafs[graph->n_leafs++] = copy;
    }
}

// Where a part of the graph for another backend starts, the scheduler inserts a marker for each tensor
// that the part reads from outside, and the copy of that tensor which the part reads in its place.
static void insert_split_copies(struct builder * b) {
    struct ggml_cgraph * graph    = b->g->graph;
    int                  n_copies = (int) random_between(&b->random, 1, 4);
    for (int c = 0; c < n_copies && graph->n_nodes > 1; c++) {
        int                  start    = (int) random_between(&b->random, 1, graph->n_nodes - 1);
        struct ggml_tensor * original = graph->nodes[random_below(&b->random, start)];
        // a copy without bytes, alone in its buffer, has no address, and upstream asserts when it sees it twice
        if (!is_plain(original) || ggml_is_empty(original) || list_has(&b->d->overwritten, root_of(original))) {
            continue;
        }
        struct ggml_tensor * copy = ggml_dup_tensor(b->ctx, original);
        if (redirect(graph, start, original, copy) == 0) {
            continue;
        }
        ggml_format_name(copy, "%s copy", original->name);
        flag_copy(b, copy);
        insert_node(graph, start, copy);
        insert_node(graph, start, new_marker(b, &original, 1));
    }
}

// No more than a fifth of all tensors: upstream's hash table has no place for many that are not listed.
static void unlist_leafs(struct builder * b) {
    struct ggml_cgraph * graph     = b->g->graph;
    int                  n_tensors = graph->n_nodes + graph->n_leafs;
    int                  n_listed  = 0;
    int                  n_left    = n_tensors / 5;
    for (int i = 0; i < graph->n_leafs; i++) {
        bool is_read = count_readers(graph, graph->leafs[i]) > 0;
        if (is_read && n_left > 0 && random_chance(&b->random, 50)) {
            n_left--;
        } else {
            graph->leafs[n_listed++] = graph->leafs[i];
        }
    }
    graph->n_leafs = n_listed;
}

static void collect_outputs(struct random_graph * g) {
    const struct ggml_cgraph * graph = g->graph;
    g->outputs.count                 = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_tensor * t     = graph->nodes[i];
        bool                 wants = (t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 || count_readers(graph, t) == 0;
        if (wants && t->op != GGML_OP_NONE) {
            list_add(&g->outputs, t);
        }
    }
    for (int i = 0; i < graph->n_leafs; i++) {
        struct ggml_tensor * t      = graph->leafs[i];
        bool                 unread = (t->flags & GGML_TENSOR_FLAG_INPUT) == 0 && count_readers(graph, t) == 0;
        if (unread || (t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
            list_add(&g->outputs, t);
        }
    }
}

// Neighbours mostly share a buffer, as the parts of a graph do that one backend computes.
static int * new_buffer_ids(struct builder * b, int n) {
    int * ids = malloc((size_t) (n > 0 ? n : 1) * sizeof(*ids));
    CHECK(ids != NULL, "out of memory");
    int id = 0;
    for (int i = 0; i < n; i++) {
        if (random_chance(&b->random, 20)) {
            id = (int) random_below(&b->random, b->options.n_buffers);
        }
        ids[i] = id;
    }
    return ids;
}

static void complete(struct builder * b) {
    struct random_graph * g = b->g;
    expand_results(b);
    expand_unused_leafs(b);
    flag_outputs(b);
    ggml_backend_buffer_t late =
        ggml_backend_alloc_ctx_tensors_from_buft(b->d->late_ctx, ggml_backend_cpu_buffer_type());
    if (late != NULL) {
        add_buffer(b->d, late);
    }
    if (b->options.split_copies) {
        insert_split_copies(b);
    }
    if (b->options.markers) {
        insert_markers(b);
    }
    if (b->options.unlisted_leafs) {
        unlist_leafs(b);
    }
    collect_outputs(g);
    if (b->options.n_buffers > 1) {
        g->node_buffer_ids = new_buffer_ids(b, g->graph->n_nodes);
        g->leaf_buffer_ids = new_buffer_ids(b, g->graph->n_leafs);
    }
}

// ---------------------------------------------------------------------------------------------------
// Values
// ---------------------------------------------------------------------------------------------------

static void draw_reals(const struct ggml_tensor * tensor, uint64_t * random, void * data) {
    int64_t n = ggml_nelements(tensor);
    for (int64_t i = 0; i < n; i++) {
        float value = random_unit(random);
        if (tensor->type == GGML_TYPE_F32) {
            ((float *) data)[i] = value;
        } else {
            ((ggml_fp16_t *) data)[i] = ggml_fp32_to_fp16(value);
        }
    }
}

static void draw_integers(const struct leaf * leaf, uint64_t * random, void * data) {
    int64_t n     = ggml_nelements(leaf->tensor);
    int64_t start = random_below(random, leaf->limit);
    for (int64_t i = 0; i < n; i++) {
        int64_t value = leaf->unique ? (start + i) % leaf->limit : random_below(random, leaf->limit);
        if (leaf->tensor->type == GGML_TYPE_I32) {
            ((int32_t *) data)[i] = (int32_t) value;
        } else {
            ((int64_t *) data)[i] = value;
        }
    }
}

void random_graph_set_data(const struct random_graph * graph) {
    const struct random_graph_detail * d = graph->detail;
    for (int i = 0; i < d->n_leafs; i++) {
        struct ggml_tensor * tensor = d->leafs[i].tensor;
        if (tensor->buffer == NULL) {
            continue; // made, and not used by anything that entered the graph
        }
        uint64_t random = graph->seed * 0x10001u + (uint64_t) i;
        size_t   size   = ggml_nbytes(tensor);
        void *   data   = malloc(size);
        CHECK(data != NULL, "out of memory");
        if (d->leafs[i].limit > 0) {
            draw_integers(&d->leafs[i], &random, data);
        } else {
            draw_reals(tensor, &random, data);
        }
        ggml_backend_tensor_set(tensor, data, 0, size);
        free(data);
    }
}

// ---------------------------------------------------------------------------------------------------
// Rewiring
// ---------------------------------------------------------------------------------------------------

// The place in the node list; -1 for a leaf; n_nodes when the graph does not have it.
static int place_of(const struct ggml_cgraph * graph, const struct ggml_tensor * tensor) {
    for (int i = 0; i < graph->n_leafs; i++) {
        if (graph->leafs[i] == tensor) {
            return -1;
        }
    }
    int place = 0;
    while (place < graph->n_nodes && graph->nodes[place] != tensor) {
        place++;
    }
    return place;
}

static void change_use_count(struct ggml_cgraph * graph, const struct ggml_tensor * tensor, int by) {
    graph->use_counts[ggml_hash_find(&graph->visited_hash_set, tensor)] += by;
}

int random_graph_rewire(struct random_graph * g) {
    const struct tensor_list * overwritten = &g->detail->overwritten;
    struct ggml_cgraph *       graph       = g->graph;
    int                        count       = 0;
    for (int i = 0; i < g->detail->n_rewirings; i++) {
        struct ggml_tensor * node  = g->detail->rewirings[i].node;
        struct ggml_tensor * other = g->detail->rewirings[i].other;
        struct ggml_tensor * old   = node->src[1];
        int                  place = place_of(graph, node);
        bool ordered = place < graph->n_nodes && place_of(graph, other) < place;
        bool stable  = !list_has(overwritten, root_of(other)) && !list_has(overwritten, root_of(old));
        bool lost    = is_cast(old) && count_readers(graph, old) == 1;
        if (ordered && stable && !lost) {
            node->src[1] = other;
            change_use_count(graph, old, -1);
            change_use_count(graph, other, 1);
            count++;
        }
    }
    collect_outputs(g);
    return count;
}

// ---------------------------------------------------------------------------------------------------
// Making and freeing
// ---------------------------------------------------------------------------------------------------

static struct ggml_context * new_context(size_t n_tensors, bool with_graph) {
    struct ggml_init_params params = {
        .mem_size = n_tensors * ggml_tensor_overhead() +
                    (with_graph ? ggml_graph_overhead_custom(GRAPH_CAPACITY, false) : 0),
        .mem_buffer = NULL,
        .no_alloc   = true,
    };
    struct ggml_context * ctx = ggml_init(params);
    CHECK(ctx != NULL, "no context");
    return ctx;
}

struct random_graph random_graph_new(uint64_t seed, struct random_graph_options options) {
    struct random_graph g = { .seed = seed, .ctx = new_context(GRAPH_CAPACITY, true) };
    g.detail              = calloc(1, sizeof(*g.detail));
    CHECK(g.detail != NULL, "out of memory");
    g.detail->early_ctx = new_context(GRAPH_CAPACITY, false);
    g.detail->late_ctx  = new_context(GRAPH_CAPACITY, false);
    g.graph             = ggml_new_graph_custom(g.ctx, GRAPH_CAPACITY, false);

    struct builder b = { .g = &g, .options = options, .d = g.detail, .ctx = g.ctx, .random = seed };
    if (b.options.n_steps == 0) {
        b.options.n_steps = (int) random_between(&b.random, 3, 60);
    }
    if (b.options.max_elements == 0) {
        b.options.max_elements = 4096;
    }
    grow(&b);
    complete(&b);
    free(b.values.items);
    free(b.bounds);
    return g;
}

void random_graph_free(struct random_graph * g) {
    struct random_graph_detail * d = g->detail;
    for (int i = 0; i < d->n_buffers; i++) {
        ggml_backend_buffer_free(d->buffers[i]);
    }
    ggml_free(d->early_ctx);
    ggml_free(d->late_ctx);
    ggml_free(g->ctx);
    free(d->buffers);
    free(d->leafs);
    free(d->rewirings);
    free(d->overwritten.items);
    free(g->inputs.items);
    free(g->weights.items);
    free(g->outputs.items);
    free(g->node_buffer_ids);
    free(g->leaf_buffer_ids);
    free(d);
}
