// Operands of a form.

#include "in_place.h"

#define PADDING 5 // blocks behind each row

struct ggml_tensor * form_operand_of(struct form form, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    struct ggml_context * ctx  = form.ctx;
    enum ggml_type        type = form.type;
    switch (form.layout) {
        case PADDED_ROWS: {
            int64_t              padded = ne0 + PADDING * ggml_blck_size(type);
            struct ggml_tensor * root   = ggml_new_tensor_4d(ctx, type, padded, ne1, ne2, ne3);
            return ggml_view_4d(ctx, root, ne0, ne1, ne2, ne3, root->nb[1], root->nb[2], root->nb[3], 0);
        }
        case PERMUTED:
            return ggml_permute(ctx, ggml_new_tensor_4d(ctx, type, ne0, ne2, ne1, ne3), 0, 2, 1, 3);
        case TRANSPOSED:
            return ggml_permute(ctx, ggml_new_tensor_4d(ctx, type, ne1, ne0, ne2, ne3), 1, 0, 2, 3);
        default:
            return ggml_new_tensor_4d(ctx, type, ne0, ne1, ne2, ne3);
    }
}

struct ggml_tensor * form_operand(struct form form) {
    return form_operand_of(form, form.ne[0], form.ne[1], form.ne[2], form.ne[3]);
}

// A tensor without operation has no parameters of one: the first is the limit of the numbers.
struct ggml_tensor * form_indices(struct form form, int64_t count, int64_t limit) {
    struct ggml_tensor * indices = ggml_new_tensor_1d(form.ctx, GGML_TYPE_I32, count);
    indices->op_params[0]        = (int32_t) limit;
    return indices;
}

struct ggml_tensor * form_result(struct form form, struct ggml_tensor * node) {
    if (form.layout != CONTIGUOUS) {
        const struct ggml_tensor * model = form_operand_of(form, node->ne[0], node->ne[1], node->ne[2], node->ne[3]);
        for (int i = 0; i < GGML_MAX_DIMS; i++) {
            node->nb[i] = model->nb[i];
        }
    }
    return node;
}

struct form form_with_multiple_of(struct form form, int64_t n) {
    form.ne[0] = (form.ne[0] + n - 1) / n * n;
    return form;
}
