// The nodes that no backend computes.

#include <stdlib.h>

#include "check.h"
#include "checker.h"

// Whether a node reads another or memory of it, or is a view of it.
static bool touches(const struct ggml_tensor * reader, const struct ggml_tensor * node) {
    bool found = root_of(reader) == node;
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = reader->src[s];
        found = found || (source != NULL && (source == node || root_of(source) == node));
    }
    return found && reader != node;
}

// Whether a node that is not skipped so far reads the node of a step.
static bool is_needed(const struct checker * c, int step) {
    for (int i = 0; i < c->graph->n_nodes; i++) {
        if (!c->skipped[i] && touches(c->graph->nodes[i], c->graph->nodes[step])) {
            return true;
        }
    }
    return false;
}

// The scheduler lists a view that nothing reads for a tensor that it copies.
static bool may_be_skipped(const struct ggml_cgraph * graph, const struct ggml_tensor * node) {
    return !is_computed(graph, node) && node->op != GGML_OP_NONE &&
           !(is_view_op(node) && count_readers(graph, node) == 0);
}

void find_skipped(struct checker * c) {
    c->skipped = calloc((size_t) c->graph->n_nodes + 1, sizeof(*c->skipped));
    CHECK(c->skipped != NULL, "out of memory");
    for (int i = 0; i < c->graph->n_nodes; i++) {
        c->skipped[i] = may_be_skipped(c->graph, c->graph->nodes[i]);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < c->graph->n_nodes; i++) {
            if (c->skipped[i] && is_needed(c, i)) {
                c->skipped[i] = false;
                changed       = true;
            }
        }
    }
}
