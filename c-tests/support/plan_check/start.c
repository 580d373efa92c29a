// What holds its bytes before the first node runs.

#include "judge.h"

static bool judge_from_start(struct judge * j, const struct ggml_tensor * t) {
    if (is_view(t) || owns_anything(j, t)) {
        return true;
    }
    struct range memory = memory_of(t);
    for (int i = 0; i < j->n_owned && !is_external(t); i++) {
        if (overlaps(j->owned[i].range, memory)) {
            return judge_fails(j, "%s and %s overlap at the start", t->name, j->owned[i].owner->name);
        }
    }
    take(j, memory, t);
    return true;
}

bool judge_start(struct judge * j) {
    for (int i = 0; i < j->graph->n_leafs; i++) {
        if (!judge_from_start(j, j->graph->leafs[i])) {
            return false;
        }
    }
    for (int i = 0; i < j->graph->n_nodes; i++) {
        const struct ggml_tensor * node = j->graph->nodes[i];
        for (int s = -1; s < GGML_MAX_SRC; s++) {
            const struct ggml_tensor * t = s < 0 ? node : node->src[s];
            if (t == NULL) {
                continue;
            }
            bool early = is_external(t) || (root_of(t)->flags & GGML_TENSOR_FLAG_INPUT) != 0;
            if (early && !judge_from_start(j, root_of(t))) {
                return false;
            }
        }
    }
    return true;
}
