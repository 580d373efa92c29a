// Other sources for nodes of a complete graph.

#include "builder.h"
#include "completing.h"
#include "graph_fields.h"

// The place in the node list; -1 for a leaf; n_nodes when the graph does not have it.
static int place_of(const struct ggml_cgraph * graph, const struct ggml_tensor * tensor) {
    for (int i = 0; i < graph->n_leafs; i++) {
        if (graph->leafs[i] == tensor) {
            return -1;
        }
    }
    int place = 0;
    while (place < graph->n_nodes && graph->nodes[place] != tensor) {
        place++;
    }
    return place;
}

static void change_use_count(struct ggml_cgraph * graph, const struct ggml_tensor * tensor, int by) {
    graph->use_counts[ggml_hash_find(&graph->visited_hash_set, tensor)] += by;
}

int random_graph_rewire(struct random_graph * g) {
    const struct tensor_list * overwritten = &g->detail->overwritten;
    struct ggml_cgraph *       graph       = g->graph;
    int                        count       = 0;
    for (int i = 0; i < g->detail->n_rewirings; i++) {
        struct ggml_tensor * node  = g->detail->rewirings[i].node;
        struct ggml_tensor * other = g->detail->rewirings[i].other;
        struct ggml_tensor * old   = node->src[1];
        int                  place = place_of(graph, node);
        bool ordered = place < graph->n_nodes && place_of(graph, other) < place;
        bool stable  = !list_has(overwritten, root_of(other)) && !list_has(overwritten, root_of(old));
        bool lost    = is_cast(old) && count_readers(graph, old) == 1;
        if (ordered && stable && !lost) {
            node->src[1] = other;
            change_use_count(graph, old, -1);
            change_use_count(graph, other, 1);
            count++;
        }
    }
    collect_outputs(g);
    return count;
}
