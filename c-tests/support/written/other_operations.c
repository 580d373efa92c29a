// Operations that are never computed in place: products, sums, selections, convolutions, attention.

#include "written.h"

// Extents that keep the work small.
static struct form limited(struct form form, int64_t limit) {
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        form.ne[i] = form.ne[i] < limit ? form.ne[i] : limit;
    }
    return form;
}

static struct ggml_tensor * reals(struct form form, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    return ggml_new_tensor_4d(form.ctx, GGML_TYPE_F32, ne0, ne1, ne2, ne3);
}

// One column, some columns, and as many planes as the second has, or fewer.
static struct ggml_tensor * build_mul_mat(struct form form) {
    static const int64_t columns[] = { 1, 5, 37 };

    form                   = form_with_multiple_of(form, ggml_blck_size(form.type));
    int64_t              n = columns[form.variant % 3];
    bool                 b = form.variant >= 3;
    struct ggml_tensor * a = form_operand_of(form, form.ne[0], form.ne[1], b ? 1 : form.ne[2], b ? 1 : form.ne[3]);
    return ggml_mul_mat(form.ctx, a, reals(form, form.ne[0], n, form.ne[2], form.ne[3]));
}

static struct ggml_tensor * build_mul_mat_id(struct form form) {
    form                     = form_with_multiple_of(limited(form, 64), ggml_blck_size(form.type));
    int64_t              n   = form.variant == 0 ? 1 : 9;
    struct ggml_tensor * as  = form_operand_of(form, form.ne[0], form.ne[1], 4, 1);
    struct ggml_tensor * ids = ggml_new_tensor_2d(form.ctx, GGML_TYPE_I32, 2, n);
    ids->op_params[0]        = 4;
    return ggml_mul_mat_id(form.ctx, as, reals(form, form.ne[0], 2, n, 1), ids);
}

static struct ggml_tensor * build_out_prod(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return ggml_out_prod(form.ctx, a, reals(form, 6, form.ne[1], form.ne[2], form.ne[3]));
}

static struct ggml_tensor * build_get_rows(struct form form) {
    struct ggml_tensor * a = form_operand_of(form, form.ne[0], form.ne[1], 1, 1);
    return ggml_get_rows(form.ctx, a, form_indices(form, form.ne[1] + 2, form.ne[1]));
}

static struct ggml_tensor * build_get_rows_back(struct form form) {
    struct ggml_tensor * a = form_operand_of(form, form.ne[0], form.ne[1], 1, 1);
    struct ggml_tensor * c = reals(form, form.ne[0], form.ne[1] + 2, 1, 1);
    return ggml_get_rows_back(form.ctx, a, form_indices(form, form.ne[1], form.ne[1]), c);
}

static struct ggml_tensor * build_set_rows(struct form form) {
    struct ggml_tensor * table = ggml_new_tensor_2d(form.ctx, form.type, form.ne[0], form.ne[1] + 3);
    struct ggml_tensor * rows  = reals(form, form.ne[0], form.ne[1], 1, 1);
    return ggml_set_rows(form.ctx, table, rows, form_indices(form, form.ne[1], form.ne[1] + 3));
}

static struct ggml_tensor * build_repeat(struct form form) {
    int64_t * ne = form.ne;
    return ggml_repeat_4d(form.ctx, form_operand(form), ne[0] * 2, ne[1] * 3, ne[2], ne[3] * 2);
}

static struct ggml_tensor * build_repeat_back(struct form form) {
    int64_t *            ne = form.ne;
    struct ggml_tensor * a  = form_operand_of(form, ne[0] * 2, ne[1] * 3, ne[2], ne[3] * 2);
    return ggml_repeat_back(form.ctx, a, form_operand(form));
}

static struct ggml_tensor * build_concat(struct form form) {
    struct form next = form;
    next.ne[form.variant] += 2;
    return ggml_concat(form.ctx, form_operand(form), form_operand(next), form.variant);
}

static struct ggml_tensor * build_sums(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    switch (form.variant) {
        case 0: return ggml_sum(form.ctx, a);
        case 1: return ggml_sum_rows(form.ctx, a);
        case 2: return ggml_mean(form.ctx, a);
        default: return ggml_cumsum(form.ctx, a);
    }
}

static struct ggml_tensor * build_picks(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    switch (form.variant) {
        case 0: return ggml_argmax(form.ctx, form_operand_of(form, form.ne[0], form.ne[1], 1, 1));
        case 1: return ggml_argsort(form.ctx, a, GGML_SORT_ORDER_DESC);
        default: return ggml_roll(form.ctx, a, form.ne[0] > 1, 0, 0, 0);
    }
}

static struct ggml_tensor * build_pads(struct form form) {
    struct ggml_tensor * a = form_operand(form);
    return form.variant == 0 ? ggml_pad(form.ctx, a, 1, 2, 0, 1)
                             : ggml_pad_reflect_1d(form.ctx, a, form.ne[0] > 1, form.ne[0] > 2 ? 2 : 0);
}

static struct ggml_tensor * build_upscale(struct form form) {
    return ggml_upscale(form.ctx, form_operand(limited(form, 33)), 2,
                        form.variant == 0 ? GGML_SCALE_MODE_NEAREST : GGML_SCALE_MODE_BILINEAR);
}

static struct ggml_tensor * build_pools(struct form form) {
    struct ggml_tensor * a = form_operand_of(form, form.ne[0] + 3, form.ne[1] + 3, form.ne[2], 1);
    return form.variant == 0 ? ggml_pool_1d(form.ctx, a, GGML_OP_POOL_AVG, 2, 2, 0)
                             : ggml_pool_2d(form.ctx, a, GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0);
}

static struct ggml_tensor * build_im2col(struct form form) {
    form                        = limited(form, 33);
    struct ggml_tensor * kernel = ggml_new_tensor_4d(form.ctx, GGML_TYPE_F16, 3, 3, form.ne[2], 2);
    struct ggml_tensor * image  = reals(form, form.ne[0] + 3, form.ne[1] + 3, form.ne[2], form.ne[3]);
    return ggml_im2col(form.ctx, kernel, image, 1, 1, 1, 1, 1, 1, true, form.type);
}

static struct ggml_tensor * build_convolutions(struct form form) {
    form                        = limited(form, 17);
    struct ggml_context * ctx   = form.ctx;
    struct ggml_tensor *  image = reals(form, form.ne[0] + 3, form.ne[1] + 3, form.ne[2], form.ne[3]);
    switch (form.variant) {
        case 0: return ggml_conv_2d_direct(ctx, form_operand_of(form, 3, 3, form.ne[2], 5), image, 1, 1, 1, 1, 1, 1);
        case 1: return ggml_conv_2d_dw_direct(ctx, form_operand_of(form, 3, 3, 1, form.ne[2]), image, 1, 1, 1, 1, 1, 1);
        case 2:
            return ggml_conv_transpose_1d(ctx, form_operand_of(form, 3, 4, form.ne[1], 1),
                                          reals(form, form.ne[0], form.ne[1], 1, 1), 2, 0, 1);
        default:
            return ggml_conv_transpose_2d_p0(ctx, ggml_new_tensor_4d(ctx, GGML_TYPE_F16, 3, 3, 4, form.ne[2]),
                                             reals(form, form.ne[0], form.ne[1], form.ne[2], 1), 2);
    }
}

static struct ggml_tensor * build_attention(struct form form) {
    int64_t              n    = form.ne[1] < 40 ? form.ne[1] : 40;
    struct ggml_tensor * q    = reals(form, 32, n, 4, 1);
    struct ggml_tensor * k    = form_operand_of(form, 32, 64, 2, 1);
    struct ggml_tensor * v    = form_operand_of(form, 32, 64, 2, 1);
    struct ggml_tensor * mask = ggml_new_tensor_2d(form.ctx, GGML_TYPE_F16, 64, GGML_PAD(n, 64));
    return ggml_flash_attn_ext(form.ctx, q, k, v, form.variant == 0 ? NULL : mask, 0.2f, 0.0f, 0.0f);
}

static struct ggml_tensor * build_states(struct form form) {
    int64_t n = form.ne[1];
    if (form.variant == 0) {
        return ggml_ssm_conv(form.ctx, reals(form, 3 + n, 24, form.ne[3], 1), reals(form, 4, 24, 1, 1));
    }
    if (form.variant == 1) {
        return ggml_gated_linear_attn(form.ctx, reals(form, 8, 3, n, 1), reals(form, 8, 3, n, 1),
                                      reals(form, 8, 3, n, 1), reals(form, 8, 3, n, 1), reals(form, 8 * 8 * 3, 1, 1, 1),
                                      0.5f);
    }
    return ggml_rwkv_wkv6(form.ctx, reals(form, 8, 3, n, 1), reals(form, 8, 3, n, 1), reals(form, 8, 3, n, 1),
                          reals(form, 8, 3, 1, 1), reals(form, 8, 3, n, 1), reals(form, 8 * 8 * 3, 1, 1, 1));
}

static struct ggml_tensor * build_windows(struct form form) {
    form                   = limited(form, 20);
    struct ggml_tensor * a = form_operand_of(form, form.ne[0], form.ne[1] + 4, form.ne[2] + 4, 1);
    struct ggml_tensor * p = ggml_win_part(form.ctx, a, 3);
    return form.variant == 0 ? p : ggml_win_unpart(form.ctx, p, (int) a->ne[1], (int) a->ne[2], 3);
}

static struct ggml_tensor * build_numbers(struct form form) {
    switch (form.variant) {
        case 0: return ggml_arange(form.ctx, 0.0f, (float) form.ne[1], 1.0f);
        case 1: return ggml_timestep_embedding(form.ctx, reals(form, form.ne[1], 1, 1, 1), 32, 1000);
        default: return ggml_diag(form.ctx, form_operand_of(form, form.ne[1], 1, form.ne[2], form.ne[3]));
    }
}

static struct ggml_tensor * build_loss(struct form form) {
    struct ggml_tensor * logits = form_operand(form);
    return ggml_cross_entropy_loss(form.ctx, logits, form_operand(form));
}

static const struct rule RULES_OF_OTHERS[] = {
    { .name = "MUL_MAT", .build = build_mul_mat, .variants = 6, .types = FLOAT_TYPES | TYPE(Q8_0) | TYPE(Q4_K) },
    { .name = "MUL_MAT_ID", .build = build_mul_mat_id, .variants = 2, .types = FLOAT_TYPES | TYPE(Q8_0) },
    { .name = "OUT_PROD", .build = build_out_prod, .types = TYPE(F32) },
    { .name = "GET_ROWS", .build = build_get_rows, .types = FLOAT_TYPES },
    { .name = "GET_ROWS_BACK", .build = build_get_rows_back, .types = TYPE(F32) },
    { .name = "SET_ROWS", .build = build_set_rows, .types = TYPE(F32) | TYPE(F16) },
    { .name = "REPEAT", .build = build_repeat, .types = TYPE(F32) | TYPE(F16) },
    { .name = "REPEAT_BACK", .build = build_repeat_back, .types = TYPE(F32) },
    { .name = "CONCAT", .build = build_concat, .variants = 4, .types = FLOAT_TYPES },
    { .name = "SUM, SUM_ROWS, MEAN, CUMSUM", .build = build_sums, .variants = 4, .types = TYPE(F32) },
    { .name = "ARGMAX, ARGSORT, ROLL", .build = build_picks, .variants = 3, .types = TYPE(F32) },
    { .name = "PAD, PAD_REFLECT_1D", .build = build_pads, .variants = 2, .types = TYPE(F32) },
    { .name = "UPSCALE", .build = build_upscale, .variants = 2, .types = TYPE(F32) },
    { .name = "POOL_1D, POOL_2D", .build = build_pools, .variants = 2, .types = TYPE(F32) },
    { .name = "IM2COL", .build = build_im2col, .types = TYPE(F32) | TYPE(F16) },
    { .name = "CONV", .build = build_convolutions, .variants = 4, .types = TYPE(F32) },
    { .name = "FLASH_ATTN_EXT", .build = build_attention, .variants = 2, .types = TYPE(F32) | TYPE(F16) },
    { .name = "SSM_CONV, GLA, WKV6", .build = build_states, .variants = 3, .types = TYPE(F32) },
    { .name = "WIN_PART, WIN_UNPART", .build = build_windows, .variants = 2, .types = TYPE(F32) },
    { .name = "ARANGE, TIMESTEP_EMBEDDING, DIAG", .build = build_numbers, .variants = 3, .types = TYPE(F32) },
    { .name = "CROSS_ENTROPY_LOSS", .build = build_loss, .types = TYPE(F32), .positive = true },
};

const struct rules OTHER_OPERATIONS = RULES("others", RULES_OF_OTHERS);
