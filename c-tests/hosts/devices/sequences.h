// Sequences of nodes that backends of GPUs compute by one kernel, and the graphs that they are tried in.
#pragma once

#include <math.h>

#include "check.h"
#include "ggml.h"

enum { WIDTH = 64, ROWS = 48, HEADS = 4, EXPERTS = 8 };

// The material of a graph.
struct scene {
    struct ggml_context * weights; // tensors on the device, set before the graph runs
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    unsigned              variant;
    struct ggml_tensor *  kept; // used again at the end
};

static bool has(const struct scene * scene, unsigned bit) {
    return (scene->variant & bit) != 0;
}

static int64_t rows_of(const struct scene * scene) {
    return has(scene, 8) ? 1 : ROWS;
}

static struct ggml_tensor * weight(struct scene * scene, int64_t ne0, int64_t ne1, int64_t ne2) {
    return ggml_new_tensor_3d(scene->weights, GGML_TYPE_F32, ne0, ne1, ne2);
}

// A result that is computed in place where the rules allow it: a gated unit of two products.
static struct ggml_tensor * result(struct scene * scene, int64_t ne0, int64_t ne1, int64_t ne2) {
    struct ggml_tensor * gate = ggml_scale(scene->ctx, weight(scene, ne0, ne1, ne2), 0.7f);
    struct ggml_tensor * up   = ggml_scale(scene->ctx, weight(scene, ne0, ne1, ne2), 0.9f);
    return ggml_norm(scene->ctx, ggml_swiglu_split(scene->ctx, gate, up), 1e-5f);
}

// The inputs of the sequence.
static struct ggml_tensor * operand(struct scene * scene, int64_t ne0, int64_t ne1, int64_t ne2) {
    struct ggml_tensor * t = NULL;
    if (has(scene, 2)) {
        t = ggml_new_tensor_3d(scene->ctx, GGML_TYPE_F32, ne0, ne1, ne2);
        ggml_set_input(t);
    } else {
        t = result(scene, ne0, ne1, ne2);
    }
    scene->kept = has(scene, 4) ? t : NULL;
    // Before the sequence, whose nodes must follow one another.
    ggml_build_forward_expand(scene->graph, t);
    return t;
}

// The operands of the sequence, computed before it.
static struct ggml_tensor * start(struct scene * scene, int64_t ne0, int64_t ne1, int64_t ne2) {
    struct ggml_tensor * t = result(scene, ne0, ne1, ne2);
    ggml_build_forward_expand(scene->graph, t);
    return t;
}

static struct ggml_tensor * in_order(const struct scene * scene, struct ggml_tensor * a, struct ggml_tensor * b,
                                     struct ggml_tensor * (*operation)(struct ggml_context * ctx,
                                                                       struct ggml_tensor * a,
                                                                       struct ggml_tensor * b)) {
    return has(scene, 1) && ggml_are_same_shape(a, b) ? operation(scene->ctx, b, a) : operation(scene->ctx, a, b);
}

static struct ggml_tensor * indices(struct scene * scene, int64_t count) {
    struct ggml_tensor * t = ggml_new_tensor_1d(scene->weights, GGML_TYPE_I64, count);
    return t;
}

// ---------------------------------------------------------------------------------------------------
// Sequences
// ---------------------------------------------------------------------------------------------------

static struct ggml_tensor * multi_add(struct scene * scene) {
    struct ggml_tensor * other = operand(scene, WIDTH, rows_of(scene), 1);
    struct ggml_tensor * more  = start(scene, WIDTH, rows_of(scene), 1);
    struct ggml_tensor * x     = start(scene, WIDTH, rows_of(scene), 1);
    struct ggml_tensor * sum   = in_order(scene, x, other, ggml_add);
    return ggml_add(scene->ctx, ggml_add(scene->ctx, sum, more), weight(scene, WIDTH, rows_of(scene), 1));
}

static struct ggml_tensor * mul_mat_add(struct scene * scene) {
    struct ggml_tensor * other = operand(scene, WIDTH, 1, 1);
    struct ggml_tensor * x     = start(scene, WIDTH, 1, 1);
    return in_order(scene, ggml_mul_mat(scene->ctx, weight(scene, WIDTH, WIDTH, 1), x), other, ggml_add);
}

// The sum of a product and one of its operands.
static struct ggml_tensor * mul_mat_add_itself(struct scene * scene) {
    struct ggml_tensor * x = operand(scene, WIDTH, 1, 1);
    return in_order(scene, ggml_mul_mat(scene->ctx, weight(scene, WIDTH, WIDTH, 1), x), x, ggml_add);
}

static struct ggml_tensor * mul_mat_add_add(struct scene * scene) {
    struct ggml_tensor * other = operand(scene, WIDTH, 1, 1);
    struct ggml_tensor * x     = start(scene, WIDTH, 1, 1);
    struct ggml_tensor * sum   = ggml_mul_mat(scene->ctx, weight(scene, WIDTH, WIDTH, 1), x);
    return in_order(scene, ggml_add(scene->ctx, sum, weight(scene, WIDTH, 1, 1)), other, ggml_add);
}

static struct ggml_tensor * rms_norm_mul(struct scene * scene) {
    struct ggml_tensor * other = operand(scene, WIDTH, rows_of(scene), 1);
    struct ggml_tensor * x     = start(scene, WIDTH, rows_of(scene), 1);
    return in_order(scene, ggml_rms_norm(scene->ctx, x, 1e-5f), other, ggml_mul);
}

static struct ggml_tensor * rms_norm_mul_of_itself(struct scene * scene) {
    struct ggml_tensor * x = operand(scene, WIDTH, rows_of(scene), 1);
    return in_order(scene, ggml_rms_norm(scene->ctx, x, 1e-5f), x, ggml_mul);
}

static struct ggml_tensor * normalized(struct scene * scene, struct ggml_tensor * x) {
    return ggml_mul(scene->ctx, ggml_rms_norm(scene->ctx, x, 1e-5f), weight(scene, x->ne[0], 1, 1));
}

static struct ggml_tensor * rms_norm_mul_add(struct scene * scene) {
    struct ggml_tensor * other = operand(scene, WIDTH, rows_of(scene), 1);
    struct ggml_tensor * x     = start(scene, WIDTH, rows_of(scene), 1);
    return in_order(scene, normalized(scene, x), other, ggml_add);
}

static struct ggml_tensor * rms_norm_mul_add_mul(struct scene * scene) {
    return ggml_mul(scene->ctx, rms_norm_mul_add(scene), weight(scene, 1, 1, 1));
}

static struct ggml_tensor * rope(struct scene * scene, struct ggml_tensor * x) {
    struct ggml_tensor * positions = ggml_new_tensor_1d(scene->weights, GGML_TYPE_I32, x->ne[2]);
    return ggml_rope(scene->ctx, x, positions, (int) x->ne[0], has(scene, 1) ? GGML_ROPE_TYPE_NEOX : 0);
}

static struct ggml_tensor * rms_norm_mul_rope(struct scene * scene) {
    return rope(scene, normalized(scene, operand(scene, WIDTH, HEADS, rows_of(scene))));
}

// Rows of a cache, which is on the device.
static struct ggml_tensor * into_cache(struct scene * scene, struct ggml_tensor * heads) {
    int64_t              width = heads->ne[0] * heads->ne[1];
    struct ggml_tensor * rows  = ggml_view_2d(scene->ctx, heads, width, heads->ne[2], heads->nb[2], 0);
    struct ggml_tensor * cache = weight(scene, width, ROWS + 8, 1);
    return ggml_set_rows(scene->ctx, cache, rows, indices(scene, heads->ne[2]));
}

static struct ggml_tensor * rms_norm_mul_rope_set_rows(struct scene * scene) {
    return into_cache(scene, rms_norm_mul_rope(scene));
}

static struct ggml_tensor * rms_norm_set_rows(struct scene * scene) {
    return into_cache(scene, ggml_rms_norm(scene->ctx, operand(scene, WIDTH, HEADS, rows_of(scene)), 1e-5f));
}

static struct ggml_tensor * rope_set_rows(struct scene * scene) {
    return into_cache(scene, rope(scene, operand(scene, WIDTH, HEADS, rows_of(scene))));
}

static struct ggml_tensor * silu_mul(struct scene * scene) {
    struct ggml_tensor * other = operand(scene, WIDTH, rows_of(scene), 1);
    struct ggml_tensor * x     = start(scene, WIDTH, rows_of(scene), 1);
    return in_order(scene, ggml_silu(scene->ctx, x), other, ggml_mul);
}

static struct ggml_tensor * silu_mul_of_itself(struct scene * scene) {
    struct ggml_tensor * x = operand(scene, WIDTH, rows_of(scene), 1);
    return in_order(scene, ggml_silu(scene->ctx, x), x, ggml_mul);
}

static struct ggml_tensor * convolution(struct scene * scene) {
    struct ggml_tensor * x = operand(scene, rows_of(scene) + 3, WIDTH, 1);
    return ggml_ssm_conv(scene->ctx, x, weight(scene, 4, WIDTH, 1));
}

static struct ggml_tensor * ssm_conv_silu(struct scene * scene) {
    return ggml_silu(scene->ctx, convolution(scene));
}

static struct ggml_tensor * ssm_conv_bias_silu(struct scene * scene) {
    return ggml_silu(scene->ctx, ggml_add(scene->ctx, convolution(scene), weight(scene, WIDTH, 1, 1)));
}

static struct ggml_tensor * snake(struct scene * scene) {
    struct ggml_tensor * x     = operand(scene, WIDTH, rows_of(scene), 1);
    struct ggml_tensor * angle = ggml_mul(scene->ctx, x, weight(scene, 1, rows_of(scene), 1));
    struct ggml_tensor * sine  = ggml_sqr(scene->ctx, ggml_sin(scene->ctx, angle));
    return in_order(scene, ggml_mul(scene->ctx, sine, weight(scene, 1, rows_of(scene), 1)), x, ggml_add);
}

// The weights of the experts that are chosen, and which they are.
static struct ggml_tensor * chosen(struct scene * scene, struct ggml_tensor * by, struct ggml_tensor * probabilities) {
    struct ggml_tensor * ids  = ggml_argsort_top_k(scene->ctx, by, 2);
    struct ggml_tensor * rows = ggml_reshape_3d(scene->ctx, probabilities, 1, EXPERTS, probabilities->ne[1]);
    // The result of the fused kernel that lies before the last one.
    ggml_set_output(ggml_cont(scene->ctx, ids));
    return ggml_get_rows(scene->ctx, rows, ids);
}

static struct ggml_tensor * topk_moe(struct scene * scene) {
    struct ggml_tensor * p = ggml_soft_max(scene->ctx, operand(scene, EXPERTS, rows_of(scene), 1));
    return chosen(scene, p, p);
}

static struct ggml_tensor * topk_moe_norm(struct scene * scene) {
    struct ggml_tensor * weights = topk_moe(scene);
    int64_t              rows    = weights->ne[2];
    weights                      = ggml_reshape_2d(scene->ctx, weights, 2, rows);
    struct ggml_tensor * sum     = ggml_clamp(scene->ctx, ggml_sum_rows(scene->ctx, weights), 6e-5f, INFINITY);
    return ggml_reshape_3d(scene->ctx, ggml_div(scene->ctx, weights, sum), 1, 2, rows);
}

static struct ggml_tensor * topk_moe_late(struct scene * scene) {
    struct ggml_tensor * logits  = operand(scene, EXPERTS, rows_of(scene), 1);
    struct ggml_tensor * weights = chosen(scene, logits, logits);
    int64_t              rows    = weights->ne[2];
    weights                      = ggml_soft_max(scene->ctx, ggml_reshape_2d(scene->ctx, weights, 2, rows));
    return ggml_reshape_3d(scene->ctx, weights, 1, 2, rows);
}

// The product of each row and the experts that it has.
static struct ggml_tensor * of_experts(struct scene * scene, struct ggml_tensor ** ids) {
    struct ggml_tensor * x = start(scene, WIDTH, 1, rows_of(scene));
    *ids                   = ggml_new_tensor_2d(scene->weights, GGML_TYPE_I32, 2, rows_of(scene));
    return ggml_mul_mat_id(scene->ctx, weight(scene, WIDTH, WIDTH, EXPERTS), x, *ids);
}

static struct ggml_tensor * mul_mat_id_mul(struct scene * scene) {
    struct ggml_tensor * scale = operand(scene, 1, 2, rows_of(scene));
    struct ggml_tensor * ids   = NULL;
    return ggml_mul(scene->ctx, of_experts(scene, &ids), scale);
}

static struct ggml_tensor * mul_mat_id_add_id(struct scene * scene) {
    struct ggml_tensor * bias    = operand(scene, WIDTH, EXPERTS, 1);
    struct ggml_tensor * ids     = NULL;
    struct ggml_tensor * product = of_experts(scene, &ids);
    return ggml_add_id(scene->ctx, product, bias, ids);
}

static struct ggml_tensor * mul_mat_id_add_id_mul(struct scene * scene) {
    struct ggml_tensor * scale   = operand(scene, 1, 2, rows_of(scene));
    struct ggml_tensor * ids     = NULL;
    struct ggml_tensor * product = of_experts(scene, &ids);
    struct ggml_tensor * sum     = ggml_add_id(scene->ctx, product, weight(scene, WIDTH, EXPERTS, 1), ids);
    return ggml_mul(scene->ctx, sum, scale);
}

struct sequence {
    const char * name;
    struct ggml_tensor * (*build)(struct scene * scene);
    unsigned variants; // the bits that make a difference
};

static const struct sequence SEQUENCES[] = {
    { "multi_add", multi_add, 15 },
    { "mul_mat_add", mul_mat_add, 7 },
    { "mul_mat_add_itself", mul_mat_add_itself, 7 },
    { "mul_mat_add_add", mul_mat_add_add, 7 },
    { "rms_norm_mul", rms_norm_mul, 15 },
    { "rms_norm_mul_of_itself", rms_norm_mul_of_itself, 15 },
    { "rms_norm_mul_add", rms_norm_mul_add, 15 },
    { "rms_norm_mul_add_mul", rms_norm_mul_add_mul, 15 },
    { "rms_norm_mul_rope", rms_norm_mul_rope, 15 },
    { "rms_norm_mul_rope_set_rows", rms_norm_mul_rope_set_rows, 15 },
    { "rms_norm_set_rows", rms_norm_set_rows, 14 },
    { "rope_set_rows", rope_set_rows, 15 },
    { "silu_mul", silu_mul, 15 },
    { "silu_mul_of_itself", silu_mul_of_itself, 15 },
    { "ssm_conv_silu", ssm_conv_silu, 14 },
    { "ssm_conv_bias_silu", ssm_conv_bias_silu, 14 },
    { "snake", snake, 15 },
    { "topk_moe", topk_moe, 14 },
    { "topk_moe_norm", topk_moe_norm, 14 },
    { "topk_moe_late", topk_moe_late, 14 },
    { "mul_mat_id_mul", mul_mat_id_mul, 14 },
    { "mul_mat_id_add_id", mul_mat_id_add_id, 14 },
    { "mul_mat_id_add_id_mul", mul_mat_id_add_id_mul, 14 },
};
