// Which tensors hold values before the first node runs.

#include "checker.h"

static bool check_initial_value(struct checker * c, const struct ggml_tensor * t) {
    if (is_view(t) || owns_anything(c, t)) {
        return true;
    }
    struct range memory = memory_of(t);
    for (int i = 0; i < c->n_owned && !is_external(t); i++) {
        if (overlaps(c->owned[i].range, memory)) {
            return check_fails(c, "%s and %s overlap at the start", t->name, c->owned[i].owner->name);
        }
    }
    take(c, memory, t);
    return true;
}

bool check_start(struct checker * c) {
    for (int i = 0; i < c->graph->n_leafs; i++) {
        if (!check_initial_value(c, c->graph->leafs[i])) {
            return false;
        }
    }
    for (int i = 0; i < c->graph->n_nodes; i++) {
        const struct ggml_tensor * node = c->graph->nodes[i];
        for (int s = -1; s < GGML_MAX_SRC; s++) {
            const struct ggml_tensor * t = s < 0 ? node : node->src[s];
            if (t == NULL) {
                continue;
            }
            bool early = is_external(t) || (root_of(t)->flags & GGML_TENSOR_FLAG_INPUT) != 0;
            if (early && !check_initial_value(c, root_of(t))) {
                return false;
            }
        }
    }
    return true;
}
