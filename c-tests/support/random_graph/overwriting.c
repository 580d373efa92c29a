#include "overwriting.h"

#include "graph_fields.h"

bool is_in_graph(struct builder * b, const struct ggml_tensor * tensor) {
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

bool may_overwrite(struct ggml_tensor * target, struct ggml_tensor * other) {
    return other == NULL || !touches(other, root_of(target));
}

struct ggml_tensor * add_overwriting(struct builder * b, struct ggml_tensor * node, float bound) {
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

struct ggml_tensor * add_result(struct builder * b, struct ggml_tensor * node, float bound) {
    return node->view_src != NULL ? add_overwriting(b, node, bound) : add_value(b, node, bound);
}
