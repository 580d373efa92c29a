// Time: the nodes in their order.

#include "judge.h"
#include "overwriting.h"

// Whether the tensor is the node of a step in [start, end).
static bool is_node_within(const struct ggml_cgraph * graph, const struct ggml_tensor * t, int start, int end) {
    for (int i = start; i < end; i++) {
        if (graph->nodes[i] == t) {
            return true;
        }
    }
    return false;
}

// Whether the node of a step is memory that nodes before it have written.
static bool is_complete(const struct ggml_cgraph * graph, int step) {
    for (int i = 0; i < step; i++) {
        if (graph->nodes[i]->view_src == graph->nodes[step] && is_part_of_later(graph, i)) {
            return true;
        }
    }
    return false;
}

// Whether the node gives memory to the root of its source. A marker reads nothing: it gives none to the root of a view.
static bool brings_into_being(const struct ggml_tensor * node, const struct ggml_tensor * source) {
    return source != NULL && !(is_marker(node) && source->view_src != NULL);
}

// Whether the tensor comes into being with this reader: it is in no list, or is what this node and others write before it
// is listed, and no earlier node reads it.
static bool begins_as_source(const struct ggml_cgraph * graph, const struct ggml_tensor * root, int step) {
    bool is_listed = is_node_within(graph, root, 0, graph->n_nodes);
    bool is_part   = graph->nodes[step]->view_src == root && is_part_of_later(graph, step);
    if ((is_listed && !is_part) || is_external(root) || (root->flags & GGML_TENSOR_FLAG_INPUT) != 0) {
        return false;
    }
    for (int i = 0; i < graph->n_leafs; i++) {
        if (graph->leafs[i] == root) {
            return false;
        }
    }
    for (int i = 0; i < step; i++) {
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            const struct ggml_tensor * source = graph->nodes[i]->src[s];
            if (brings_into_being(graph->nodes[i], source) && root_of(source) == root) {
                return false;
            }
        }
    }
    return true;
}

static void begin_sources(struct judge * j, int step) {
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = j->graph->nodes[step]->src[s];
        bool brings = brings_into_being(j->graph->nodes[step], source);
        if (brings && begins_as_source(j->graph, root_of(source), step)) {
            take(j, memory_of(root_of(source)), root_of(source));
        }
    }
}

static bool judge_reads(struct judge * j, int step) {
    const struct ggml_tensor * node = j->graph->nodes[step];
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = node->src[s];
        if (source == NULL || source == node) {
            continue;
        }
        const struct ggml_tensor * root = root_of(source);
        bool is_later = is_node_within(j->graph, root, step, j->graph->n_nodes) ||
                        (!brings_into_being(node, source) && begins_as_source(j->graph, root, step));
        if (is_marker(node) && is_later) {
            continue; // markers may stand before what they name
        }
        if (!owns(j, root, bytes_of(source))) {
            return judge_fails(j, "step %d, %s: its source %s was overwritten by %s", step, node->name, source->name,
                               other_owner(j, root, bytes_of(source)));
        }
    }
    return true;
}

static int count_sources_of_root(const struct ggml_tensor * node, const struct ggml_tensor * root) {
    int count = 0;
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        count += node->src[s] != NULL && root_of(node->src[s]) == root;
    }
    return count;
}

// Whether a node that does not write through a view may write while it reads its sources.
static bool judge_in_place(struct judge * j, int step) {
    const struct ggml_tensor * node = j->graph->nodes[step];
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = node->src[s];
        if (source == NULL || source == node || !overlaps(bytes_of(source), bytes_of(node))) {
            continue;
        }
        if (is_in_its_place(node, s) && root_of(node->src[0]) != root_of(node->src[1])) {
            continue;
        }
        if (!may_overwrite(node, s)) {
            return judge_fails(j, "step %d, %s: %s cannot run in place of %s", step, node->name,
                               ggml_op_name(node->op), source->name);
        }
        if (source->data != node->data || !has_same_layout(source, node)) {
            return judge_fails(j, "step %d, %s: writes over parts of its source %s", step, node->name, source->name);
        }
        if (count_sources_of_root(node, root_of(source)) > 1) {
            return judge_fails(j, "step %d, %s: writes over its source %s, which it reads twice", step, node->name,
                               source->name);
        }
    }
    return true;
}

// A normalization and the product behind it, which backends compute in one go.
static bool is_fused_pair(const struct judge * j, int step) {
    const struct ggml_cgraph * graph   = j->graph;
    const struct ggml_tensor * norm    = graph->nodes[step];
    const struct ggml_tensor * product = step + 1 < graph->n_nodes ? graph->nodes[step + 1] : NULL;
    if (norm->op != GGML_OP_RMS_NORM || product == NULL || product->op != GGML_OP_MUL || j->skipped[step + 1]) {
        return false;
    }
    bool is_result = is_view(norm) || (norm->flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
    bool once      = (product->src[0] == norm) != (product->src[1] == norm);
    return once && !is_result && count_readers(graph, norm) == 1;
}

// The CPU backend fuses without a look at the addresses. So the product must leave the normalization's
// source alone, or be at its place exactly.
static bool judge_fused(struct judge * j, int step) {
    if (!is_fused_pair(j, step)) {
        return true;
    }
    const struct ggml_tensor * source  = j->graph->nodes[step]->src[0];
    const struct ggml_tensor * product = j->graph->nodes[step + 1];

    bool exact = source->data == product->data && has_same_layout(source, product);
    if (!exact && overlaps(bytes_of(source), bytes_of(product))) {
        return judge_fails(j, "step %d, %s: writes over %s, which the normalization before it reads", step + 1,
                           product->name, source->name);
    }
    return true;
}

static bool judge_write(struct judge * j, int step) {
    const struct ggml_tensor * node = j->graph->nodes[step];
    if (is_complete(j->graph, step)) {
        return owns(j, node, memory_of(node)) ||
               judge_fails(j, "step %d, %s: was overwritten by %s", step, node->name,
                           other_owner(j, node, memory_of(node)));
    }
    if (is_view(node)) {
        if (!owns(j, node->view_src, bytes_of(node))) {
            return judge_fails(j, "step %d, %s: writes to %s, which was overwritten by %s", step, node->name,
                               node->view_src->name, other_owner(j, node->view_src, bytes_of(node)));
        }
        return true;
    }
    if (!judge_in_place(j, step)) {
        return false;
    }
    take(j, memory_of(node), node);
    return true;
}

bool judge_steps(struct judge * j) {
    for (int step = 0; step < j->graph->n_nodes; step++) {
        const struct ggml_tensor * node   = j->graph->nodes[step];
        bool                       reads  = !touches_no_bytes(node) || is_marker(node);
        bool                       writes = !touches_no_bytes(node) && !is_external(node);
        begin_sources(j, step);
        if (ggml_nbytes(node) == 0 || j->skipped[step]) {
            continue;
        }
        if (reads && !judge_reads(j, step)) {
            return false;
        }
        if (writes && !(judge_fused(j, step) && judge_write(j, step))) {
            return false;
        }
    }
    return true;
}
