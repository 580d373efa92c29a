#include "growing.h"

#include "constructions.h"
#include "leafs.h"
#include "random.h"

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

void grow(struct builder * b) {
    new_random_leaf(b);
    for (int step = 0; step < b->options.n_steps; step++) {
        bool                 copies = b->options.copies && random_chance(&b->random, 40);
        struct ggml_tensor * t      = copies ? make_produced_copy(b) : random_construction(b)->make(b);
        if (t == NULL || t->type != GGML_TYPE_F32 || ggml_is_empty(t)) {
            continue;
        }
        float bound = *bound_of(b, t);
        if (bound > READ_BOUND) {
            add_value(b, ggml_scale(b->ctx, make_plain(b, t), READ_BOUND / bound), READ_BOUND);
        }
    }
}
