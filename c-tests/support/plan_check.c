#include "plan_check.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "upstream.h"

// The fields of a graph; the functions there are not needed here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "ggml-impl.h"
#pragma GCC diagnostic pop

// Bytes of one buffer: half-open. Buffers are kept apart, since those without memory may have any
// addresses.
struct range {
    ggml_backend_buffer_t buffer;
    uintptr_t             start;
    uintptr_t             end;
};

struct owned_range {
    struct range               range;
    const struct ggml_tensor * owner;
};

struct judge {
    const struct ggml_cgraph * graph;
    struct owned_range *       owned; // disjoint
    int                        n_owned;
    int                        capacity;
    char                       reason[512];
};

static bool judge_fails(struct judge * j, const char * format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(j->reason, sizeof(j->reason), format, args);
    va_end(args);
    return false;
}

// ---------------------------------------------------------------------------------------------------
// Tensors
// ---------------------------------------------------------------------------------------------------

static const struct ggml_tensor * root_of(const struct ggml_tensor * t) {
    return t->view_src != NULL ? t->view_src : t;
}

static bool is_view(const struct ggml_tensor * t) {
    return t->view_src != NULL;
}

// The scheduler's way to keep memory: a node without operation that has sources.
static bool is_marker(const struct ggml_tensor * t) {
    bool has_source = false;
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        has_source = has_source || t->src[i] != NULL;
    }
    return t->op == GGML_OP_NONE && has_source;
}

// Nodes that only name memory. A tensor without operation in the node list is one that the scheduler
// fills there, unless it is an input: that was filled before.
static bool touches_no_bytes(const struct ggml_tensor * t) {
    bool is_input = (t->flags & GGML_TENSOR_FLAG_INPUT) != 0;
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE ||
           t->op == GGML_OP_TRANSPOSE || (t->op == GGML_OP_NONE && (is_view(t) || is_input));
}

static bool is_external(const struct ggml_tensor * t) {
    ggml_backend_buffer_t buffer = root_of(t)->buffer;
    return buffer == NULL || ggml_backend_buffer_get_usage(buffer) != GGML_BACKEND_BUFFER_USAGE_COMPUTE;
}

static bool has_same_layout(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    bool same = a->type == b->type;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        same = same && a->ne[i] == b->ne[i] && a->nb[i] == b->nb[i];
    }
    return same;
}

static bool is_source_of(const struct ggml_tensor * t, const struct ggml_tensor * node) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (node->src[i] == t && node != t) {
            return true;
        }
    }
    return false;
}

static int count_readers(const struct ggml_cgraph * graph, const struct ggml_tensor * t) {
    int count = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        count += is_source_of(t, graph->nodes[i]);
    }
    return count;
}

static struct range range_of(const struct ggml_tensor * t, size_t size) {
    return (struct range){ .buffer = root_of(t)->buffer,
                           .start  = (uintptr_t) t->data,
                           .end    = (uintptr_t) t->data + size };
}

static struct range bytes_of(const struct ggml_tensor * t) {
    return range_of(t, ggml_nbytes(t));
}

// What the allocator has to set aside: some buffer types ask for more bytes than a tensor has.
static struct range memory_of(const struct ggml_tensor * t) {
    return is_external(t) ? bytes_of(t) : range_of(t, ggml_backend_buffer_get_alloc_size(t->buffer, t));
}

static bool overlaps(struct range a, struct range b) {
    return a.buffer == b.buffer && a.start < b.end && b.start < a.end;
}

// ---------------------------------------------------------------------------------------------------
// Who owns what
// ---------------------------------------------------------------------------------------------------

static void add_owned(struct judge * j, struct range range, const struct ggml_tensor * owner) {
    if (range.start >= range.end) {
        return;
    }
    if (j->n_owned == j->capacity) {
        j->capacity = j->capacity * 2 + 64;
        j->owned    = realloc(j->owned, (size_t) j->capacity * sizeof(*j->owned));
        CHECK(j->owned != NULL, "out of memory");
    }
    j->owned[j->n_owned++] = (struct owned_range){ .range = range, .owner = owner };
}

// Gives the bytes to a new owner, whoever had them.
static void take(struct judge * j, struct range range, const struct ggml_tensor * owner) {
    for (int i = 0; i < j->n_owned; i++) {
        struct owned_range old = j->owned[i];
        if (!overlaps(old.range, range)) {
            continue;
        }
        struct range before = { old.range.buffer, old.range.start, range.start };
        struct range behind = { old.range.buffer, range.end, old.range.end };
        j->owned[i--]       = j->owned[--j->n_owned];
        add_owned(j, before, old.owner);
        add_owned(j, behind, old.owner);
    }
    add_owned(j, range, owner);
}

static uintptr_t least(uintptr_t a, uintptr_t b) {
    return a < b ? a : b;
}

static uintptr_t largest(uintptr_t a, uintptr_t b) {
    return a > b ? a : b;
}

static bool owns(const struct judge * j, const struct ggml_tensor * owner, struct range range) {
    uintptr_t bytes = 0;
    for (int i = 0; i < j->n_owned; i++) {
        struct range r = j->owned[i].range;
        if (j->owned[i].owner == owner && overlaps(r, range)) {
            bytes += least(r.end, range.end) - largest(r.start, range.start);
        }
    }
    return bytes == range.end - range.start;
}

static bool owns_anything(const struct judge * j, const struct ggml_tensor * owner) {
    for (int i = 0; i < j->n_owned; i++) {
        if (j->owned[i].owner == owner) {
            return true;
        }
    }
    return false;
}

// For messages: an owner other than the given one.
static const char * other_owner(const struct judge * j, const struct ggml_tensor * owner, struct range range) {
    for (int i = 0; i < j->n_owned; i++) {
        if (j->owned[i].owner != owner && overlaps(j->owned[i].range, range)) {
            return j->owned[i].owner->name;
        }
    }
    return "nobody";
}

// ---------------------------------------------------------------------------------------------------
// Places: each tensor by itself
// ---------------------------------------------------------------------------------------------------

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

static bool judge_places(struct judge * j) {
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

// ---------------------------------------------------------------------------------------------------
// Time: the nodes in their order
// ---------------------------------------------------------------------------------------------------

// A tensor that holds its bytes before the first node runs.
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

static bool judge_start(struct judge * j) {
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

// Whether the tensor is the node of a step in [start, end).
static bool is_node_within(const struct ggml_cgraph * graph, const struct ggml_tensor * t, int start, int end) {
    for (int i = start; i < end; i++) {
        if (graph->nodes[i] == t) {
            return true;
        }
    }
    return false;
}

// Whether the tensor comes into being with this reader: it is in no list, and no earlier node reads it.
static bool begins_as_source(const struct ggml_cgraph * graph, const struct ggml_tensor * root, int step) {
    if (is_node_within(graph, root, 0, graph->n_nodes) || is_external(root) ||
        (root->flags & GGML_TENSOR_FLAG_INPUT) != 0) {
        return false;
    }
    for (int i = 0; i < graph->n_leafs; i++) {
        if (graph->leafs[i] == root) {
            return false;
        }
    }
    for (int i = 0; i < step; i++) {
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            if (graph->nodes[i]->src[s] != NULL && root_of(graph->nodes[i]->src[s]) == root) {
                return false;
            }
        }
    }
    return true;
}

static void begin_sources(struct judge * j, int step) {
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = j->graph->nodes[step]->src[s];
        if (source != NULL && begins_as_source(j->graph, root_of(source), step)) {
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
        if (is_marker(node) && is_node_within(j->graph, root, step, j->graph->n_nodes)) {
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
        if (!upstream_ggml_op_can_inplace(node->op)) {
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
static bool is_fused_pair(const struct ggml_cgraph * graph, int step) {
    const struct ggml_tensor * norm    = graph->nodes[step];
    const struct ggml_tensor * product = step + 1 < graph->n_nodes ? graph->nodes[step + 1] : NULL;
    if (norm->op != GGML_OP_RMS_NORM || product == NULL || product->op != GGML_OP_MUL) {
        return false;
    }
    bool is_result = is_view(norm) || (norm->flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
    bool once      = (product->src[0] == norm) != (product->src[1] == norm);
    return once && !is_result && count_readers(graph, norm) == 1;
}

// The CPU backend fuses without a look at the addresses. So the product must leave the normalization's
// source alone, or be at its place exactly.
static bool judge_fused(struct judge * j, int step) {
    if (!is_fused_pair(j->graph, step)) {
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

static bool judge_steps(struct judge * j) {
    for (int step = 0; step < j->graph->n_nodes; step++) {
        const struct ggml_tensor * node   = j->graph->nodes[step];
        bool                       reads  = !touches_no_bytes(node) || is_marker(node);
        bool                       writes = !touches_no_bytes(node) && !is_external(node);
        begin_sources(j, step);
        if (ggml_nbytes(node) == 0) {
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

// ---------------------------------------------------------------------------------------------------
// The end
// ---------------------------------------------------------------------------------------------------

static bool judge_survives(struct judge * j, const struct ggml_tensor * t, bool is_leaf) {
    bool output = (t->flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
    bool unread = count_readers(j->graph, t) == 0 && !is_marker(t);
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

static bool judge_end(struct judge * j) {
    for (int i = 0; i < j->graph->n_nodes; i++) {
        if (!judge_survives(j, j->graph->nodes[i], false)) {
            return false;
        }
    }
    for (int i = 0; i < j->graph->n_leafs; i++) {
        if (!judge_survives(j, j->graph->leafs[i], true)) {
            return false;
        }
    }
    return true;
}

const char * plan_check(struct ggml_cgraph * graph) {
    static char  reason[512];
    struct judge j     = { .graph = graph };
    bool         right = judge_places(&j) && judge_start(&j) && judge_steps(&j) && judge_end(&j);
    free(j.owned);
    snprintf(reason, sizeof(reason), "%s", j.reason);
    return right ? NULL : reason;
}

// ---------------------------------------------------------------------------------------------------
// Buffer types
// ---------------------------------------------------------------------------------------------------

// The buffer id that counts for a node or a source: that of the leaf, or of the first node that is it
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

static bool took_over_a_source(const struct ggml_tensor * t) {
    for (int s = 0; s < GGML_MAX_SRC; s++) {
        const struct ggml_tensor * source = t->src[s];
        if (source != NULL && source != t && source->data == t->data && root_of(source)->buffer == t->buffer) {
            return true;
        }
    }
    return false;
}

static bool has_right_buffer_type(const struct ggml_tensor * t, ggml_backend_buffer_type_t wanted) {
    if (is_view(t) || is_external(t)) {
        return true;
    }
    return ggml_backend_buffer_get_type(t->buffer) == wanted || took_over_a_source(t);
}

const char * plan_check_buffer_types(struct ggml_cgraph * graph, const ggml_backend_buffer_type_t * bufts,
                                     const int * node_buffer_ids, const int * leaf_buffer_ids) {
    static char reason[512];
    for (int i = 0; i < graph->n_nodes + graph->n_leafs; i++) {
        const struct ggml_tensor * t = i < graph->n_nodes ? graph->nodes[i] : graph->leafs[i - graph->n_nodes];

        int id = buffer_id_of(graph, t, node_buffer_ids, leaf_buffer_ids);
        if (!has_right_buffer_type(t, bufts[id])) {
            snprintf(reason, sizeof(reason), "%s should be in a buffer of type %s", t->name,
                     ggml_backend_buft_name(bufts[id]));
            return reason;
        }
    }
    return NULL;
}
