// What has to be there when all nodes have run.

#include "judge.h"

static bool judge_survives(struct judge * j, const struct ggml_tensor * t, bool is_leaf, bool is_unfinished) {
    bool output = (t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
    bool unread = count_readers(j->graph, t) == 0 && !is_marker(t) && !is_unfinished;
    // an input that nobody reads is set before the graph runs, and that is all
    bool idle = is_leaf && (t->flags & GGML_TENSOR_FLAG_INPUT) != 0;
    if (!is_external(t) && !output && (!unread || idle)) {
        return true;
    }
    const struct ggml_tensor * root = root_of(t);
    if (!owns(j, root, bytes_of(t))) {
        return judge_fails(j, "%s %s was overwritten by %s", output ? "the output" : "nothing reads, so must be kept:",
                           t->name, other_owner(j, root, bytes_of(t)));
    }
    return true;
}

bool judge_end(struct judge * j) {
    for (int i = 0; i < j->graph->n_nodes; i++) {
        bool is_unfinished = is_view_of_later(j->graph, i);
        if (!j->skipped[i] && !judge_survives(j, j->graph->nodes[i], false, is_unfinished)) {
            return false;
        }
    }
    for (int i = 0; i < j->graph->n_leafs; i++) {
        if (!judge_survives(j, j->graph->leafs[i], true, false)) {
            return false;
        }
    }
    return true;
}
