// The address of each tensor by itself.

#include "checker.h"

static bool check_view_address(struct checker * c, const struct ggml_tensor * t) {
    const struct ggml_tensor * root = t->view_src;
    if ((const char *) t->data != (const char *) root->data + t->view_offs) {
        return check_fails(c, "view %s is not at its offset in %s", t->name, root->name);
    }
    if (t->buffer != NULL && t->buffer != root->buffer) {
        return check_fails(c, "view %s is not in the buffer of %s", t->name, root->name);
    }
    return true;
}

static bool check_address(struct checker * c, const struct ggml_tensor * t) {
    if (ggml_nbytes(t) == 0) {
        return true;
    }
    if (t->data == NULL) {
        // Nothing uses a marker itself: one before its source needs no address.
        return is_marker(t) || check_fails(c, "%s has no memory", t->name);
    }
    if (is_view(t)) {
        return check_view_address(c, t);
    }
    if (is_external(t)) {
        return true;
    }
    struct range memory = memory_of(t);
    uintptr_t    base   = (uintptr_t) ggml_backend_buffer_get_base(t->buffer);
    if (memory.start < base || memory.end > base + ggml_backend_buffer_get_size(t->buffer)) {
        return check_fails(c, "%s is not inside its buffer", t->name);
    }
    if (memory.start % ggml_backend_buffer_get_alignment(t->buffer) != 0) {
        return check_fails(c, "%s is not aligned", t->name);
    }
    return true;
}

bool check_addresses(struct checker * c) {
    for (int i = 0; i < c->graph->n_leafs; i++) {
        if (!check_address(c, c->graph->leafs[i])) {
            return false;
        }
    }
    for (int i = 0; i < c->graph->n_nodes; i++) {
        const struct ggml_tensor * node = c->graph->nodes[i];
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            if (node->src[s] != NULL && !check_address(c, node->src[s])) {
                return false;
            }
        }
        if (!check_address(c, node)) {
            return false;
        }
    }
    return true;
}
