#include "transformer.h"

#define HEADS   4
#define HEAD    (WIDTH / HEADS)
#define HIDDEN  64  // width of the feed-forward part
#define CONTEXT 128 // positions in a cache

struct built built_new(size_t nodes, size_t weight_bytes) {
    struct ggml_init_params params = {
        .mem_size   = 2 * nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false),
        .mem_buffer = NULL,
        .no_alloc   = true,
    };
    struct ggml_init_params weight_params = { .mem_size = weight_bytes + 1024, .mem_buffer = NULL, .no_alloc = false };
    struct built            built         = { .ctx = ggml_init(params), .weights = ggml_init(weight_params) };
    built.graph                           = ggml_new_graph_custom(built.ctx, nodes, false);
    return built;
}

struct built built_again(struct built built) {
    int nodes = ggml_graph_size(built.graph);
    ggml_reset(built.ctx);
    ggml_reset(built.weights);
    built.graph = ggml_new_graph_custom(built.ctx, (size_t) nodes, false);
    return built;
}

void built_free(struct built built) {
    ggml_free(built.ctx);
    ggml_free(built.weights);
}

struct ggml_tensor * new_input(struct ggml_context * ctx, int64_t width, int64_t rows) {
    struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, rows);
    ggml_set_input(input);
    return input;
}

struct ggml_tensor * project(struct built b, struct ggml_tensor * x, int64_t rows) {
    struct ggml_tensor * matrix = ggml_new_tensor_2d(b.weights, GGML_TYPE_F32, x->ne[0], rows);
    return ggml_mul_mat(b.ctx, matrix, x);
}

struct ggml_tensor * normalize(struct built b, struct ggml_tensor * x) {
    struct ggml_tensor * scale = ggml_new_tensor_1d(b.weights, GGML_TYPE_F32, x->ne[0]);
    return ggml_mul(b.ctx, ggml_rms_norm(b.ctx, x, 1e-5f), scale);
}

// Writes the tokens' rows behind the past ones of a new cache, and gives all rows so far, split by head:
// [HEAD, past + tokens, HEADS].
static struct ggml_tensor * through_cache(struct built b, struct ggml_tensor * rows, struct shape shape) {
    struct ggml_tensor * cache = ggml_new_tensor_2d(b.ctx, GGML_TYPE_F32, WIDTH, CONTEXT);
    ggml_set_input(cache);
    ggml_set_output(cache);
    size_t               row  = cache->nb[1];
    struct ggml_tensor * slot = ggml_view_2d(b.ctx, cache, WIDTH, shape.tokens, row, (size_t) shape.past * row);
    ggml_build_forward_expand(b.graph, ggml_cpy(b.ctx, rows, slot));
    return ggml_view_3d(b.ctx, cache, HEAD, shape.past + shape.tokens, HEADS, row, HEAD * sizeof(float), 0);
}

static struct ggml_tensor * attend(struct built b, struct ggml_tensor * x, struct ggml_tensor * mask,
                                   struct shape shape) {
    struct ggml_context * ctx = b.ctx;
    struct ggml_tensor *  q   = ggml_reshape_3d(ctx, project(b, x, WIDTH), HEAD, HEADS, shape.tokens);
    struct ggml_tensor *  k   = through_cache(b, project(b, x, WIDTH), shape);
    struct ggml_tensor *  v   = through_cache(b, project(b, x, WIDTH), shape);
    struct ggml_tensor *  kq  = ggml_mul_mat(ctx, k, ggml_permute(ctx, q, 0, 2, 1, 3));
    kq                        = ggml_soft_max_ext(ctx, kq, mask, 0.25f, 0.0f);
    struct ggml_tensor * kqv  = ggml_mul_mat(ctx, ggml_cont(ctx, ggml_transpose(ctx, v)), kq);
    kqv                       = ggml_cont_2d(ctx, ggml_permute(ctx, kqv, 0, 2, 1, 3), WIDTH, shape.tokens);
    return project(b, kqv, WIDTH);
}

static struct ggml_tensor * feed_forward(struct built b, struct ggml_tensor * x) {
    struct ggml_tensor * gate = ggml_silu(b.ctx, project(b, x, HIDDEN));
    return project(b, ggml_mul(b.ctx, gate, project(b, x, HIDDEN)), WIDTH);
}

struct built transformer_new(struct shape shape) {
    struct built b = built_new((size_t) shape.layers * 40 + 20, (size_t) shape.layers * 65536 + 65536);
    return transformer_in(b, shape);
}

struct built transformer_in(struct built b, struct shape shape) {
    struct ggml_tensor * x    = new_input(b.ctx, WIDTH, shape.tokens);
    struct ggml_tensor * mask = shape.tokens > 1 ? new_input(b.ctx, shape.past + shape.tokens, shape.tokens) : NULL;
    for (int layer = 0; layer < shape.layers; layer++) {
        x = ggml_add(b.ctx, x, attend(b, normalize(b, x), mask, shape));
        x = ggml_add(b.ctx, x, feed_forward(b, normalize(b, x)));
    }
    struct ggml_tensor * out = project(b, normalize(b, x), HIDDEN);
    ggml_set_output(out);
    ggml_build_forward_expand(b.graph, out);
    return b;
}
