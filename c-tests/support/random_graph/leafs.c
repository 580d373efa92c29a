#include "leafs.h"

#include <stdlib.h>

#include "check.h"
#include "random.h"

static void add_leaf(struct builder * b, struct ggml_tensor * tensor, int64_t limit, bool unique) {
    struct random_graph_detail * d = b->d;

    d->leafs = realloc(d->leafs, (size_t) (d->n_leafs + 1) * sizeof(*d->leafs));
    CHECK(d->leafs != NULL, "out of memory");
    d->leafs[d->n_leafs++] = (struct leaf){ .tensor = tensor, .limit = limit, .unique = unique };
    add_value(b, tensor, 1.0f);
    ggml_format_name(tensor, "leaf_%d_%s", b->values.count - 1, ggml_type_name(tensor->type));
}

void add_buffer(struct random_graph_detail * d, ggml_backend_buffer_t buffer) {
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

struct ggml_tensor * new_indices(struct builder * b, enum ggml_type type, int64_t n, int64_t limit,
                                 bool unique) {
    struct ggml_tensor * tensor = new_input(b, type, (int64_t[4]){ n, 1, 1, 1 });
    add_leaf(b, tensor, limit, unique);
    return tensor;
}

struct ggml_tensor * new_reals(struct builder * b, enum ggml_type type, const int64_t * ne,
                               int weight_percent) {
    bool                 weight = random_chance(&b->random, weight_percent);
    struct ggml_tensor * tensor = weight ? new_weight(b, type, ne) : new_input(b, type, ne);
    add_leaf(b, tensor, 0, false);
    return tensor;
}

struct ggml_tensor * new_matrix(struct builder * b, int64_t columns, int64_t rows) {
    enum ggml_type type = random_chance(&b->random, 30) ? GGML_TYPE_F16 : GGML_TYPE_F32;
    return new_reals(b, type, (int64_t[4]){ columns, rows, 1, 1 }, 80);
}

struct ggml_tensor * new_random_leaf(struct builder * b) {
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
