#include "builder.h"

#include <stdlib.h>

#include "check.h"
#include "random.h"

void list_add(struct tensor_list * list, struct ggml_tensor * tensor) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 16;
        list->items    = realloc(list->items, (size_t) list->capacity * sizeof(*list->items));
        CHECK(list->items != NULL, "out of memory");
    }
    list->items[list->count++] = tensor;
}

bool list_has(const struct tensor_list * list, const struct ggml_tensor * tensor) {
    for (int i = 0; i < list->count; i++) {
        if (list->items[i] == tensor) {
            return true;
        }
    }
    return false;
}

float * bound_of(struct builder * b, struct ggml_tensor * tensor) {
    for (int i = b->values.count - 1; i >= 0; i--) {
        if (b->values.items[i] == root_of(tensor)) {
            return &b->bounds[i];
        }
    }
    CHECK(false, "%s is not known", tensor->name);
    return NULL;
}

struct ggml_tensor * add_value(struct builder * b, struct ggml_tensor * tensor, float bound) {
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

bool is_f32(const struct ggml_tensor * t) {
    return t->type == GGML_TYPE_F32;
}

bool has_dense_rows(const struct ggml_tensor * t) {
    return t->nb[0] == ggml_type_size(t->type);
}

bool is_f32_with_dense_rows(const struct ggml_tensor * t) {
    return is_f32(t) && has_dense_rows(t);
}

bool is_plain(const struct ggml_tensor * t) {
    size_t stride = ggml_row_size(t->type, t->ne[0]);
    bool   plain  = t->nb[0] == ggml_type_size(t->type);
    for (int i = 1; i < GGML_MAX_DIMS; i++) {
        plain = plain && t->nb[i] == stride;
        stride *= (size_t) t->ne[i];
    }
    return plain;
}

bool is_plain_f32(const struct ggml_tensor * t) {
    return is_f32(t) && is_plain(t);
}

bool is_real(const struct ggml_tensor * t) {
    return t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_F16;
}

bool is_dense_matrix(const struct ggml_tensor * t) {
    return is_real(t) && has_dense_rows(t) && t->ne[2] == 1 && t->ne[3] == 1 && !ggml_is_transposed(t);
}

bool is_plain_real(const struct ggml_tensor * t) {
    return is_real(t) && is_plain(t);
}

static bool is_readable(struct builder * b, struct ggml_tensor * t, tensor_property property) {
    return !ggml_is_empty(t) && property(t) && *bound_of(b, t) <= READ_BOUND;
}

struct ggml_tensor * pick(struct builder * b, tensor_property property) {
    int n      = b->values.count;
    int window = random_chance(&b->random, 70) && n > 8 ? 8 : n;
    for (int tries = 0; tries < 12 && n > 0; tries++) {
        struct ggml_tensor * t = b->values.items[n - 1 - (int) random_below(&b->random, window)];
        if (is_readable(b, t, property)) {
            return t;
        }
    }
    return NULL;
}
