#include "rule_graphs.h"

#include "check.h"

#define ROWS 8
#define WIDE (8 * WIDTH)

static struct built room(void) {
    return built_new(16, 256 * 1024);
}

static struct ggml_tensor * wide(struct built b) {
    return project(b, new_input(b.ctx, WIDTH, ROWS), WIDE);
}

// One more product, narrow, so that the wide tensors before it can end.
static struct built finished(struct built b, struct ggml_tensor * last) {
    struct ggml_tensor * out = project(b, last, 1);
    ggml_set_output(out);
    ggml_build_forward_expand(b.graph, out);
    return b;
}

struct built graph_in_place(void) {
    struct built b = room();
    return finished(b, ggml_sqr(b.ctx, wide(b)));
}

struct built graph_through_a_view(void) {
    struct built b = room();
    return finished(b, ggml_sqr(b.ctx, ggml_reshape_3d(b.ctx, wide(b), WIDE / 2, 2, ROWS)));
}

struct built graph_with_norm(void) {
    struct built b = room();
    return finished(b, ggml_norm(b.ctx, wide(b), 1e-5f));
}

struct built graph_with_l2_norm(void) {
    struct built b = room();
    return finished(b, ggml_l2_norm(b.ctx, wide(b), 1e-5f));
}

struct built graph_with_group_norm(void) {
    struct built b = room();
    return finished(b, ggml_group_norm(b.ctx, wide(b), 1, 1e-5f));
}

struct built graph_with_sums(void) {
    struct built b = room();
    return finished(b, ggml_cumsum(b.ctx, wide(b)));
}

struct built graph_with_sine(void) {
    struct built b = room();
    return finished(b, ggml_sin(b.ctx, wide(b)));
}

struct built graph_with_gate_in_first(void) {
    struct built         b    = room();
    struct ggml_tensor * gate = wide(b);
    struct ggml_tensor * by   = ggml_new_tensor_2d(b.weights, GGML_TYPE_F32, WIDE, ROWS);
    return finished(b, ggml_swiglu_split(b.ctx, gate, by));
}

struct built graph_with_gate_in_second(void) {
    struct built         b    = room();
    struct ggml_tensor * gate = ggml_new_tensor_2d(b.weights, GGML_TYPE_F32, WIDE, ROWS);
    return finished(b, ggml_swiglu_split(b.ctx, gate, wide(b)));
}

struct built graph_with_copy(void) {
    struct built b = room();
    return finished(b, ggml_cont(b.ctx, wide(b)));
}

struct built graph_with_concat_of(int first, int second) {
    struct built         b  = room();
    struct ggml_tensor * x  = project(b, new_input(b.ctx, WIDTH, first), WIDE);
    struct ggml_tensor * y  = project(b, new_input(b.ctx, WIDTH, second), WIDE);
    return finished(b, ggml_concat(b.ctx, x, y, 1));
}

struct built graph_with_concat(void) {
    return graph_with_concat_of(ROWS, ROWS);
}

struct ggml_tensor * concat_of(struct built built) {
    struct ggml_tensor * concat = ggml_graph_node(built.graph, -2);
    CHECK(concat->op == GGML_OP_CONCAT, "%s is not it", concat->name);
    return concat;
}

struct built graph_with_unread_input(void) {
    struct built b = room();
    ggml_build_forward_expand(b.graph, new_input(b.ctx, WIDE, ROWS));
    struct ggml_tensor * narrow = project(b, new_input(b.ctx, WIDTH, ROWS), WIDTH);
    return finished(b, project(b, narrow, WIDE));
}

// A wide product that is not selected.
struct built graph_with_alternative(void) {
    struct built         b      = room();
    struct ggml_tensor * narrow = project(b, new_input(b.ctx, WIDTH, ROWS), WIDTH);
    struct ggml_tensor * both[] = { narrow, project(b, wide(b), WIDTH) };
    narrow = ggml_build_forward_select(b.graph, both, 2, 0);
    return finished(b, project(b, narrow, WIDE - WIDTH));
}

struct built graph_with_sum(struct sources_of_sum sources) {
    struct built         b       = room();
    struct ggml_tensor * older   = wide(b);
    struct ggml_tensor * younger = wide(b);
    ggml_build_forward_expand(b.graph, older);
    if (sources.squared) {
        younger = ggml_sqr(b.ctx, younger);
    }
    struct ggml_tensor * first  = sources.younger_first ? younger : older;
    struct ggml_tensor * second = sources.younger_first ? older : younger;
    ggml_build_forward_expand(b.graph, ggml_add(b.ctx, first, second));
    return b;
}

struct built graph_with_add_id(void) {
    struct built         b     = room();
    struct ggml_tensor * rows  = ggml_new_tensor_3d(b.weights, GGML_TYPE_F32, WIDTH, PICKED_ROWS, 1);
    struct ggml_tensor * added = ggml_cont(b.ctx, new_input(b.ctx, WIDTH, PICKED_ROWS));
    struct ggml_tensor * ids   = ggml_new_tensor_2d(b.ctx, GGML_TYPE_I32, PICKED_ROWS, 1);
    ggml_set_input(added->src[0]);
    ggml_set_output(added->src[0]); // is there to compare with when all is computed
    ggml_set_input(ids);
    struct ggml_tensor * sum = ggml_add_id(b.ctx, rows, added, ids);
    ggml_set_output(sum);
    ggml_build_forward_expand(b.graph, sum);
    return b;
}

struct built graph_with_rms_norm_back(void) {
    struct built b = room();
    ggml_build_forward_expand(b.graph, ggml_rms_norm_back(b.ctx, wide(b), wide(b), 1e-5f));
    return b;
}

struct built graph_with_soft_max_back(void) {
    struct built b = room();
    ggml_build_forward_expand(b.graph, ggml_soft_max_ext_back(b.ctx, wide(b), wide(b), 1.0f, 0.0f));
    return b;
}
