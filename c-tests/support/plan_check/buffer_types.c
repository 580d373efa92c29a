// Checks the buffer types of all memory.

#include <stdio.h>

#include "plan_check.h"
#include "tensors.h"

// The buffer id of a node or a source: that of the leaf, or of the first node that is it
// or reads it, since a source without memory is placed for its reader.
static int buffer_id_of(const struct ggml_cgraph * graph, const struct ggml_tensor * t, const int * node_buffer_ids,
                        const int * leaf_buffer_ids) {
    for (int i = 0; i < graph->n_leafs; i++) {
        if (graph->leafs[i] == t) {
            return leaf_buffer_ids != NULL ? leaf_buffer_ids[i] : 0;
        }
    }
    for (int i = 0; i < graph->n_nodes && node_buffer_ids != NULL; i++) {
        if (graph->nodes[i] == t || is_source_of(t, graph->nodes[i])) {
            return node_buffer_ids[i];
        }
    }
    return 0;
}

static bool is_in_place_of_a_source(const struct ggml_tensor * t) {
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = t->src[s];
        if (source != NULL && source != t && source->data == t->data && root_of(source)->buffer == t->buffer) {
            return true;
        }
    }
    return false;
}

static bool has_buffer_type(const struct ggml_tensor * t, ggml_backend_buffer_type_t expected) {
    if (is_view(t) || is_external(t)) {
        return true;
    }
    return ggml_backend_buffer_get_type(t->buffer) == expected || is_in_place_of_a_source(t);
}

const char * plan_check_buffer_types(struct ggml_cgraph * graph, const ggml_backend_buffer_type_t * bufts,
                                     const int * node_buffer_ids, const int * leaf_buffer_ids) {
    static char reason[512];
    for (int i = 0; i < graph->n_nodes + graph->n_leafs; i++) {
        const struct ggml_tensor * t = i < graph->n_nodes ? graph->nodes[i] : graph->leafs[i - graph->n_nodes];

        int id = buffer_id_of(graph, t, node_buffer_ids, leaf_buffer_ids);
        if (!has_buffer_type(t, bufts[id])) {
            snprintf(reason, sizeof(reason), "%s should be in a buffer of type %s", t->name,
                     ggml_backend_buft_name(bufts[id]));
            return reason;
        }
    }
    return NULL;
}
