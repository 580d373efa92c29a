#include "cuts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ggml-cpu.h"

#define GAP          256 // tensors start at multiples of it
#define MAX_PARTS    101
#define PART_TENSORS 24 // views, copies and results of one part at most

// ---------------------------------------------------------------------------------------------------
// Parts
// ---------------------------------------------------------------------------------------------------

static struct ggml_tensor * view_of_slice(struct ggml_context * ctx, struct ggml_tensor * tensor, int dim,
                                          int64_t first, int64_t count) {
    int64_t ne[GGML_MAX_DIMS];
    memcpy(ne, tensor->ne, sizeof(ne));
    ne[dim]       = count;
    size_t offset = (size_t) first * tensor->nb[dim];
    if (dim == 0) {
        offset /= (size_t) ggml_blck_size(tensor->type);
    }
    struct ggml_tensor * view =
        ggml_view_4d(ctx, tensor, ne[0], ne[1], ne[2], ne[3], tensor->nb[1], tensor->nb[2], tensor->nb[3], offset);
    view->nb[0] = tensor->nb[0];
    return view;
}

void part_slice(struct part * part, int i, int dim, int64_t first, int64_t count) {
    struct ggml_tensor * source = part->whole->src[i];
    if (first == 0 && count == source->ne[dim]) {
        return;
    }
    struct ggml_tensor * view = view_of_slice(part->ctx, source, dim, first, count);
    bool                 copy = part->copies || !((part->strided >> i & 1) || ggml_is_contiguous(view));
    part->node->src[i]        = copy ? ggml_cont(part->ctx, view) : view;
}

void part_slice_along(struct part * part, int i, int dim) {
    const struct ggml_tensor * source = part->whole->src[i];
    if (source == NULL || source->ne[dim] == 1) {
        return;
    }
    int64_t ratio = part->whole->ne[part->dim] / source->ne[dim];
    int64_t first = part->first / ratio;
    int64_t end   = (part->first + part->count + ratio - 1) / ratio;
    part_slice(part, i, dim, first, end - first);
}

static struct part part_of(const struct division * division, int64_t first, int64_t count) {
    int64_t left = division->whole->ne[division->cut->dim] - first;
    return (struct part){
        .ctx     = division->form.ctx,
        .whole   = division->whole,
        .dim     = division->cut->dim,
        .first   = first,
        .count   = count < left ? count : left,
        .strided = division->cut->strided_sources,
    };
}

bool division_keeps(const struct division * division, int64_t count) {
    int64_t total = division->whole->ne[division->cut->dim];
    for (int64_t first = 0; first < total && division->cut->keeps != NULL; first += count) {
        struct part part = part_of(division, first, count);
        if (!division->cut->keeps(&part)) {
            return false;
        }
    }
    return true;
}

// The node of a part: in a view of `result`, or in its own tensor that is copied there.
static void add_part(const struct division * division, struct ggml_cgraph * graph, struct ggml_tensor * result,
                     struct part part, enum storage storage) {
    struct ggml_context * ctx  = part.ctx;
    struct ggml_tensor *  view = view_of_slice(ctx, result, part.dim, part.first, part.count);
    bool own = storage == COPIES ||
               (storage == VIEWS && !division->cut->strided_result && !ggml_is_contiguous(view));
    part.copies  = storage == COPIES;
    part.strided = storage == FORCED ? ~0u : part.strided;
    part.node    = own ? ggml_new_tensor(ctx, view->type, GGML_MAX_DIMS, view->ne) : view;
    part.node->op = part.whole->op;
    memcpy(part.node->op_params, part.whole->op_params, sizeof(part.node->op_params));
    memcpy(part.node->src, part.whole->src, sizeof(part.node->src));
    division->cut->take(&part);
    ggml_build_forward_expand(graph, part.node);
    if (own) {
        ggml_build_forward_expand(graph, ggml_cpy(ctx, part.node, view));
    }
}

// ---------------------------------------------------------------------------------------------------
// Memory
// ---------------------------------------------------------------------------------------------------

// Returns how many bytes of the arena are used.
static size_t place(const struct division * division) {
    struct ggml_context * ctx  = division->form.ctx;
    char *                base = ggml_backend_buffer_get_base(division->arena);
    size_t                used = 0;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        t->buffer = NULL;
        t->data   = NULL;
        if (t->view_src == NULL) {
            CHECK(used + ggml_nbytes(t) <= ggml_backend_buffer_get_size(division->arena), "%s: the arena is too small",
                  division->cut->name);
            ggml_backend_tensor_alloc(division->arena, t, base + used);
            used = GGML_PAD(used + ggml_nbytes(t) + GAP, GAP);
        }
    }
    memset(base, 0xa5, used);
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src != NULL) {
            ggml_backend_view_init(t);
        }
    }
    return used;
}

// Causal: no key after a row's own share of them.
static void hide_keys(const struct ggml_tensor * mask) {
    const float hidden = -INFINITY;
    for (int64_t row = 0; row < ggml_nrows(mask); row++) {
        int64_t own = row % mask->ne[1] * mask->ne[0] / mask->ne[1];
        for (int64_t i = own + 1; i < mask->ne[0]; i++) {
            if (mask->type == GGML_TYPE_F32) {
                ((float *) mask->data)[row * mask->ne[0] + i] = hidden;
            } else {
                ((ggml_fp16_t *) mask->data)[row * mask->ne[0] + i] = ggml_fp32_to_fp16(hidden);
            }
        }
    }
}

static void fill(const struct division * division) {
    const struct rule     values = { .name = division->cut->name, .positive = division->cut->positive };
    struct ggml_context * ctx    = division->form.ctx;
    uint64_t              seed   = 1;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t), seed++) {
        if (t->view_src == NULL && t->op == GGML_OP_NONE) {
            fill_values(t, t->data, seed, &values);
            if (strcmp(t->name, "mask") == 0) {
                hide_keys(t);
            }
        }
    }
}

static void compute(const struct division * division, struct ggml_cgraph * graph) {
    ggml_backend_cpu_set_n_threads(division->backend, division->n_threads);
    enum ggml_status status = ggml_backend_graph_compute(division->backend, graph);
    CHECK(status == GGML_STATUS_SUCCESS, "%s: status %d", division->cut->name, (int) status);
}

// ---------------------------------------------------------------------------------------------------
// Divisions
// ---------------------------------------------------------------------------------------------------

static struct ggml_context * new_context(void) {
    return no_alloc_context(MAX_PARTS * PART_TENSORS * ggml_tensor_overhead() +
                            ggml_graph_overhead_custom(MAX_PARTS * PART_TENSORS, false));
}

static void build_whole(struct division * division) {
    division->form.ctx = new_context();
    division->whole    = division->cut->build(division->form);
    CHECK(division->whole->view_src == NULL, "%s: in the memory of a source", division->cut->name);
}

static char * copy_of(const void * bytes, size_t size) {
    char * copy = malloc(size);
    CHECK(copy != NULL, "out of memory");
    return memcpy(copy, bytes, size);
}

struct division division_new(const struct cut * cut, struct form form, ggml_backend_t backend,
                             ggml_backend_buffer_t arena, int n_threads) {
    struct division division = { .cut = cut, .form = form, .backend = backend, .arena = arena, .n_threads = n_threads };
    build_whole(&division);
    struct ggml_cgraph * graph = ggml_new_graph_custom(division.form.ctx, 32, false);
    ggml_build_forward_expand(graph, division.whole);
    division.source_bytes = place(&division);
    fill(&division);
    division.sources = copy_of(ggml_backend_buffer_get_base(arena), division.source_bytes);
    compute(&division, graph);
    division.truth = copy_of(division.whole->data, ggml_nbytes(division.whole));
    return division;
}

bool division_same_bits(const struct division * division, int64_t count, enum storage storage) {
    struct division parts = *division;
    build_whole(&parts);
    struct ggml_tensor * result = ggml_new_tensor(parts.form.ctx, parts.whole->type, GGML_MAX_DIMS, parts.whole->ne);
    struct ggml_cgraph * graph  = ggml_new_graph_custom(parts.form.ctx, MAX_PARTS * PART_TENSORS / 2, false);
    int64_t              total  = parts.whole->ne[parts.cut->dim];
    CHECK(total <= count * MAX_PARTS, "%s: too many parts", parts.cut->name);
    for (int64_t first = 0; first < total; first += count) {
        add_part(&parts, graph, result, part_of(&parts, first, count), storage);
    }
    place(&parts);
    // The tensors of the whole are the first again, so they are where they were.
    memcpy(ggml_backend_buffer_get_base(parts.arena), parts.sources, parts.source_bytes);
    compute(&parts, graph);
    bool same = memcmp(parts.truth, result->data, ggml_nbytes(result)) == 0;
    ggml_free(parts.form.ctx);
    return same;
}

void division_free(struct division * division) {
    ggml_free(division->form.ctx);
    free(division->truth);
    free(division->sources);
}
