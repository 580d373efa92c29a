// Which values must be there after the last node.

#include "checker.h"

static bool check_kept(struct checker * c, const struct ggml_tensor * t, bool is_leaf, bool is_unfinished) {
    bool output = (t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
    bool unread = count_readers(c->graph, t) == 0 && !is_marker(t) && !is_unfinished;
    // An input without readers need not keep its value while the graph runs.
    bool idle = is_leaf && (t->flags & GGML_TENSOR_FLAG_INPUT) != 0;
    if (!is_external(t) && !output && (!unread || idle)) {
        return true;
    }
    const struct ggml_tensor * root = root_of(t);
    if (!owns(c, root, bytes_of(t))) {
        return check_fails(c, "%s %s was overwritten by %s", output ? "the output" : "nothing reads, so must be kept:",
                           t->name, other_owner(c, root, bytes_of(t)));
    }
    return true;
}

bool check_end(struct checker * c) {
    for (int i = 0; i < c->graph->n_nodes; i++) {
        bool is_unfinished = is_view_of_later(c->graph, i);
        if (!c->skipped[i] && !check_kept(c, c->graph->nodes[i], false, is_unfinished)) {
            return false;
        }
    }
    for (int i = 0; i < c->graph->n_leafs; i++) {
        if (!check_kept(c, c->graph->leafs[i], true, false)) {
            return false;
        }
    }
    return true;
}
