// Each tensor by itself.

#include "judge.h"

static bool judge_view_place(struct judge * j, const struct ggml_tensor * t) {
    const struct ggml_tensor * root = t->view_src;
    if ((const char *) t->data != (const char *) root->data + t->view_offs) {
        return judge_fails(j, "view %s is not at its offset in %s", t->name, root->name);
    }
    if (t->buffer != NULL && t->buffer != root->buffer) {
        return judge_fails(j, "view %s is not in the buffer of %s", t->name, root->name);
    }
    return true;
}

static bool judge_place(struct judge * j, const struct ggml_tensor * t) {
    if (ggml_nbytes(t) == 0) {
        return true;
    }
    if (t->data == NULL) {
        // nothing uses a marker itself: one that stands before what it names need not have an address
        return is_marker(t) || judge_fails(j, "%s has no memory", t->name);
    }
    if (is_view(t)) {
        return judge_view_place(j, t);
    }
    if (is_external(t)) {
        return true;
    }
    struct range memory = memory_of(t);
    uintptr_t    base   = (uintptr_t) ggml_backend_buffer_get_base(t->buffer);
    if (memory.start < base || memory.end > base + ggml_backend_buffer_get_size(t->buffer)) {
        return judge_fails(j, "%s is not inside its buffer", t->name);
    }
    if (memory.start % ggml_backend_buffer_get_alignment(t->buffer) != 0) {
        return judge_fails(j, "%s is not aligned", t->name);
    }
    return true;
}

bool judge_places(struct judge * j) {
    for (int i = 0; i < j->graph->n_leafs; i++) {
        if (!judge_place(j, j->graph->leafs[i])) {
            return false;
        }
    }
    for (int i = 0; i < j->graph->n_nodes; i++) {
        const struct ggml_tensor * node = j->graph->nodes[i];
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            if (node->src[s] != NULL && !judge_place(j, node->src[s])) {
                return false;
            }
        }
        if (!judge_place(j, node)) {
            return false;
        }
    }
    return true;
}
