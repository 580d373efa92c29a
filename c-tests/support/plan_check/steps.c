// The nodes in their order.

#include "checker.h"
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

// Whether the root of the source may be defined by this reader. A marker reads nothing: it defines no root of a view.
static bool defines_source(const struct ggml_tensor * node, const struct ggml_tensor * source) {
    return source != NULL && !(is_marker(node) && source->view_src != NULL);
}

// Whether this reader defines the tensor: it is in no list, or is what this node and others write before it is listed,
// and no earlier node reads it.
static bool is_defined_here(const struct ggml_cgraph * graph, const struct ggml_tensor * root, int step) {
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
            if (defines_source(graph->nodes[i], source) && root_of(source) == root) {
                return false;
            }
        }
    }
    return true;
}

static void define_sources(struct checker * c, int step) {
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = c->graph->nodes[step]->src[s];
        bool brings = defines_source(c->graph->nodes[step], source);
        if (brings && is_defined_here(c->graph, root_of(source), step)) {
            take(c, memory_of(root_of(source)), root_of(source));
        }
    }
}

static bool check_reads(struct checker * c, int step) {
    const struct ggml_tensor * node = c->graph->nodes[step];
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = node->src[s];
        if (source == NULL || source == node) {
            continue;
        }
        const struct ggml_tensor * root = root_of(source);
        bool is_later = is_node_within(c->graph, root, step, c->graph->n_nodes) ||
                        (!defines_source(node, source) && is_defined_here(c->graph, root, step));
        if (is_marker(node) && is_later) {
            continue; // A marker may come before its source.
        }
        if (!owns(c, root, bytes_of(source))) {
            return check_fails(c, "step %d, %s: its source %s was overwritten by %s", step, node->name, source->name,
                               other_owner(c, root, bytes_of(source)));
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
static bool check_in_place(struct checker * c, int step) {
    const struct ggml_tensor * node = c->graph->nodes[step];
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = node->src[s];
        if (source == NULL || source == node || !overlaps(bytes_of(source), bytes_of(node))) {
            continue;
        }
        if (is_in_its_place(node, s) && root_of(node->src[0]) != root_of(node->src[1])) {
            continue;
        }
        if (!may_overwrite(node, s)) {
            return check_fails(c, "step %d, %s: %s cannot run in place of %s", step, node->name,
                               ggml_op_name(node->op), source->name);
        }
        if (source->data != node->data || !has_same_layout(source, node)) {
            return check_fails(c, "step %d, %s: writes over parts of its source %s", step, node->name, source->name);
        }
        if (count_sources_of_root(node, root_of(source)) > 1) {
            return check_fails(c, "step %d, %s: writes over its source %s, which it reads twice", step, node->name,
                               source->name);
        }
    }
    return true;
}

// A normalization and the product after it, which backends fuse.
static bool is_fused_pair(const struct checker * c, int step) {
    const struct ggml_cgraph * graph   = c->graph;
    const struct ggml_tensor * norm    = graph->nodes[step];
    const struct ggml_tensor * product = step + 1 < graph->n_nodes ? graph->nodes[step + 1] : NULL;
    if (norm->op != GGML_OP_RMS_NORM || product == NULL || product->op != GGML_OP_MUL || c->skipped[step + 1]) {
        return false;
    }
    bool is_result = is_view(norm) || (norm->flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
    bool once      = (product->src[0] == norm) != (product->src[1] == norm);
    return once && !is_result && count_readers(graph, norm) == 1;
}

// The CPU backend fuses without comparing addresses. So the product must not overlap the normalization's source, or
// have exactly its address.
static bool check_fused(struct checker * c, int step) {
    if (!is_fused_pair(c, step)) {
        return true;
    }
    const struct ggml_tensor * source  = c->graph->nodes[step]->src[0];
    const struct ggml_tensor * product = c->graph->nodes[step + 1];

    bool exact = source->data == product->data && has_same_layout(source, product);
    if (!exact && overlaps(bytes_of(source), bytes_of(product))) {
        return check_fails(c, "step %d, %s: writes over %s, which the normalization before it reads", step + 1,
                           product->name, source->name);
    }
    return true;
}

static bool check_write(struct checker * c, int step) {
    const struct ggml_tensor * node = c->graph->nodes[step];
    if (is_complete(c->graph, step)) {
        return owns(c, node, memory_of(node)) ||
               check_fails(c, "step %d, %s: was overwritten by %s", step, node->name,
                           other_owner(c, node, memory_of(node)));
    }
    if (is_view(node)) {
        if (!owns(c, node->view_src, bytes_of(node))) {
            return check_fails(c, "step %d, %s: writes to %s, which was overwritten by %s", step, node->name,
                               node->view_src->name, other_owner(c, node->view_src, bytes_of(node)));
        }
        return true;
    }
    if (!check_in_place(c, step)) {
        return false;
    }
    take(c, memory_of(node), node);
    return true;
}

bool check_steps(struct checker * c) {
    for (int step = 0; step < c->graph->n_nodes; step++) {
        const struct ggml_tensor * node   = c->graph->nodes[step];
        bool                       reads  = !touches_no_bytes(node) || is_marker(node);
        bool                       writes = !touches_no_bytes(node) && !is_external(node);
        define_sources(c, step);
        if (ggml_nbytes(node) == 0 || c->skipped[step]) {
            continue;
        }
        if (reads && !check_reads(c, step)) {
            return false;
        }
        if (writes && !(check_fused(c, step) && check_write(c, step))) {
            return false;
        }
    }
    return true;
}
