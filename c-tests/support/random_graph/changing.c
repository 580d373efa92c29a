// Changes one thing in a graph and keeps all addresses.

#include "builder.h"
#include "completing.h"
#include "graph_fields.h"
#include "leafs.h"
#include "random.h"

#include <string.h>

// Makes the change where it is possible.
typedef bool (*change_fn)(struct random_graph * g, struct ggml_tensor * t, uint64_t * random);

static bool is_node(const struct ggml_tensor * t) {
    return t->op != GGML_OP_NONE;
}

static bool change_parameter(struct random_graph * g, struct ggml_tensor * t, uint64_t * random) {
    (void) g;
    // the dimension of a CONCAT has to be the one in which its sources are joined
    if (!is_node(t) || t->op == GGML_OP_CONCAT) {
        return false;
    }
    t->op_params[random_below(random, GGML_MAX_OP_PARAMS / (int64_t) sizeof(int32_t))] ^= 1;
    return true;
}

// A normalization and the product after it may be fused. In every graph that ggml makes both have the layout of the
// normalization's source.
static bool may_be_fused(const struct ggml_cgraph * graph, const struct ggml_tensor * t) {
    bool fused = t->op == GGML_OP_RMS_NORM || t->op == GGML_OP_MUL;
    for (int i = 0; i < graph->n_nodes && !fused; i++) {
        fused = graph->nodes[i]->op == GGML_OP_RMS_NORM && graph->nodes[i]->src[0] == t;
    }
    return fused;
}

// Of a dimension that has one element, so that the tensor has as many bytes as before.
static bool change_stride(struct random_graph * g, struct ggml_tensor * t, uint64_t * random) {
    (void) random;
    bool may = t->view_src == NULL && !may_be_fused(g->graph, t) && t->ne[3] == 1 && ggml_nelements(t) > 0;
    t->nb[3] += may ? 4 : 0;
    return may;
}

static bool change_type(struct random_graph * g, struct ggml_tensor * t, uint64_t * random) {
    (void) random;
    if ((t->type != GGML_TYPE_F32 && t->type != GGML_TYPE_I32) || may_be_fused(g->graph, t)) {
        return false;
    }
    t->type = t->type == GGML_TYPE_F32 ? GGML_TYPE_I32 : GGML_TYPE_F32;
    return true;
}

// To one that never is in place.
static bool change_operation(struct random_graph * g, struct ggml_tensor * t, uint64_t * random) {
    (void) g;
    (void) random;
    bool may = is_node(t) && t->view_src == NULL && !is_cast(t) && t->op != GGML_OP_ARGSORT;
    t->op    = may ? GGML_OP_ARGSORT : t->op;
    return may;
}

// A cast that nothing reads is kept only where it is an output: see completing.c.
static bool change_flag(struct random_graph * g, struct ggml_tensor * t, uint64_t * random) {
    (void) g;
    if (is_cast(t)) {
        return false;
    }
    if (is_node(t) && t->op != GGML_OP_NONE && random_chance(random, 30)) {
        t->flags ^= FLAG_COMPUTE;
        return true;
    }
    t->flags ^= is_node(t) || random_chance(random, 30) ? GGML_TENSOR_FLAG_OUTPUT : GGML_TENSOR_FLAG_INPUT;
    return true;
}

static bool has_same_layout(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    return a->type == b->type && memcmp(a->ne, b->ne, sizeof(a->ne)) == 0 && memcmp(a->nb, b->nb, sizeof(a->nb)) == 0;
}

// A leaf, or a node before `t`.
static struct ggml_tensor * random_earlier(const struct ggml_cgraph * graph, const struct ggml_tensor * t,
                                           uint64_t * random) {
    int place = 0;
    while (place < graph->n_nodes && graph->nodes[place] != t) {
        place++;
    }
    int64_t i = random_below(random, graph->n_leafs + place);
    return i < graph->n_leafs ? graph->leafs[i] : graph->nodes[i - graph->n_leafs];
}

static bool change_source(struct random_graph * g, struct ggml_tensor * t, uint64_t * random) {
    int slot = (int) random_below(random, 2);
    struct ggml_tensor * old = t->src[slot];
    if (!is_node(t) || t->view_src != NULL || old == NULL || old == t) {
        return false;
    }
    if (is_cast(old) && count_readers(g->graph, old) == 1) {
        return false;
    }
    for (int tries = 0; tries < 20; tries++) {
        struct ggml_tensor * other = random_earlier(g->graph, t, random);
        if (other != old && has_same_layout(other, old)) {
            t->src[slot] = other;
            return true;
        }
    }
    return false;
}

static bool change_offset(struct random_graph * g, struct ggml_tensor * t, uint64_t * random) {
    (void) g;
    if (t->op != GGML_OP_VIEW || t->data != NULL) {
        return false;
    }
    size_t step = ggml_type_size(t->type);
    size_t room = ggml_nbytes(t->view_src) - ggml_nbytes(t);
    size_t old  = t->view_offs;
    t->view_offs = old > 0 && random_chance(random, 50) ? 0 : (size_t) random_between(random, 0, room / step) * step;
    return t->view_offs != old;
}

static bool give_memory(struct random_graph * g, struct ggml_tensor * t, uint64_t * random) {
    (void) random;
    if (is_node(t) || t->view_src != NULL || t->data != NULL || ggml_nbytes(t) == 0) {
        return false;
    }
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), ggml_nbytes(t));
    ggml_backend_tensor_alloc(buffer, t, ggml_backend_buffer_get_base(buffer));
    add_buffer(g->detail, buffer);
    return true;
}

static const struct {
    const char * name;
    change_fn    make;
} CHANGES[] = {
    { "a parameter", change_parameter }, { "a stride", change_stride },  { "a type", change_type },
    { "an operation", change_operation }, { "a flag", change_flag },     { "a source", change_source },
    { "an offset", change_offset },      { "own memory", give_memory },
};

const char * random_graph_change(struct random_graph * g, uint64_t * random) {
    struct ggml_cgraph * graph = g->graph;
    for (;;) {
        int64_t              kind = random_below(random, (int64_t) (sizeof(CHANGES) / sizeof(CHANGES[0])));
        int64_t              i    = random_below(random, graph->n_leafs + graph->n_nodes);
        struct ggml_tensor * t    = i < graph->n_leafs ? graph->leafs[i] : graph->nodes[i - graph->n_leafs];
        if (CHANGES[kind].make(g, t, random)) {
            return CHANGES[kind].name;
        }
    }
}

static bool is_planned(const struct ggml_tensor * t) {
    return t->buffer != NULL && ggml_backend_buffer_get_usage(t->buffer) == GGML_BACKEND_BUFFER_USAGE_COMPUTE;
}

void random_graph_drop_memory(struct random_graph * g) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(g->ctx); t != NULL; t = ggml_get_next_tensor(g->ctx, t)) {
        if (t->view_src != NULL || is_planned(t)) {
            t->buffer = NULL;
            t->data   = NULL;
        }
    }
}
