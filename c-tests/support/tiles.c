#include "tiles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ggml-cpu.h"

#define GAP          256 // tensors start at multiples of it
#define MAX_TILES    101
#define PART_TENSORS 24 // views, copies and results of one tile at most

// ---------------------------------------------------------------------------------------------------
// Tiles
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

void tile_slice(struct tile * tile, int i, int dim, int64_t first, int64_t count) {
    struct ggml_tensor * source = tile->whole->src[i];
    if (first == 0 && count == source->ne[dim]) {
        return;
    }
    struct ggml_tensor * view = view_of_slice(tile->ctx, source, dim, first, count);
    bool                 copy = tile->copies || !((tile->strided >> i & 1) || ggml_is_contiguous(view));
    tile->node->src[i]        = copy ? ggml_cont(tile->ctx, view) : view;
}

void tile_slice_along(struct tile * tile, int i, int dim) {
    const struct ggml_tensor * source = tile->whole->src[i];
    if (source == NULL || source->ne[dim] == 1) {
        return;
    }
    int64_t ratio = tile->whole->ne[tile->dim] / source->ne[dim];
    int64_t first = tile->first / ratio;
    int64_t end   = (tile->first + tile->count + ratio - 1) / ratio;
    tile_slice(tile, i, dim, first, end - first);
}

static struct tile tile_of(const struct division * division, int64_t first, int64_t count) {
    int64_t left = division->whole->ne[division->tiled->dim] - first;
    return (struct tile){
        .ctx     = division->form.ctx,
        .whole   = division->whole,
        .dim     = division->tiled->dim,
        .first   = first,
        .count   = count < left ? count : left,
        .strided = division->tiled->strided_sources,
    };
}

bool division_keeps(const struct division * division, int64_t count) {
    int64_t total = division->whole->ne[division->tiled->dim];
    for (int64_t first = 0; first < total && division->tiled->keeps != NULL; first += count) {
        struct tile tile = tile_of(division, first, count);
        if (!division->tiled->keeps(&tile)) {
            return false;
        }
    }
    return true;
}

// The node of a tile: in a view of `result`, or in its own tensor that is copied there.
static void add_tile(const struct division * division, struct ggml_cgraph * graph, struct ggml_tensor * result,
                     struct tile tile, enum storage storage) {
    struct ggml_context * ctx  = tile.ctx;
    struct ggml_tensor *  view = view_of_slice(ctx, result, tile.dim, tile.first, tile.count);
    bool own = storage == COPIES ||
               (storage == VIEWS && !division->tiled->strided_result && !ggml_is_contiguous(view));
    tile.copies  = storage == COPIES;
    tile.strided = storage == FORCED ? ~0u : tile.strided;
    tile.node    = own ? ggml_new_tensor(ctx, view->type, GGML_MAX_DIMS, view->ne) : view;
    tile.node->op = tile.whole->op;
    memcpy(tile.node->op_params, tile.whole->op_params, sizeof(tile.node->op_params));
    memcpy(tile.node->src, tile.whole->src, sizeof(tile.node->src));
    division->tiled->take(&tile);
    ggml_build_forward_expand(graph, tile.node);
    if (own) {
        ggml_build_forward_expand(graph, ggml_cpy(ctx, tile.node, view));
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
                  division->tiled->name);
            ggml_backend_tensor_alloc(division->arena, t, base + used);
            used = GGML_PAD(used + ggml_nbytes(t) + GAP, GAP);
        }
    }
    memset(base, 0xa5, used);
    init_views(ctx);
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
    const struct rule     values = { .name = division->tiled->name, .positive = division->tiled->positive };
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
    CHECK(status == GGML_STATUS_SUCCESS, "%s: status %d", division->tiled->name, (int) status);
}

// ---------------------------------------------------------------------------------------------------
// Divisions
// ---------------------------------------------------------------------------------------------------

static struct ggml_context * new_context(void) {
    return no_alloc_context(MAX_TILES * PART_TENSORS * ggml_tensor_overhead() +
                            ggml_graph_overhead_custom(MAX_TILES * PART_TENSORS, false));
}

static void build_whole(struct division * division) {
    division->form.ctx = new_context();
    division->whole    = division->tiled->build(division->form);
    CHECK(division->whole->view_src == NULL, "%s: in the memory of a source", division->tiled->name);
}

static char * copy_of(const void * bytes, size_t size) {
    char * copy = malloc(size);
    CHECK(copy != NULL, "out of memory");
    return memcpy(copy, bytes, size);
}

struct division division_new(const struct tiled * tiled, struct form form, ggml_backend_t backend,
                             ggml_backend_buffer_t arena, int n_threads) {
    struct division division = { .tiled = tiled, .form = form, .backend = backend, .arena = arena, .n_threads = n_threads };
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
    struct division tiles = *division;
    build_whole(&tiles);
    struct ggml_tensor * result = ggml_new_tensor(tiles.form.ctx, tiles.whole->type, GGML_MAX_DIMS, tiles.whole->ne);
    struct ggml_cgraph * graph  = ggml_new_graph_custom(tiles.form.ctx, MAX_TILES * PART_TENSORS / 2, false);
    int64_t              total  = tiles.whole->ne[tiles.tiled->dim];
    CHECK(total <= count * MAX_TILES, "%s: too many tiles", tiles.tiled->name);
    for (int64_t first = 0; first < total; first += count) {
        add_tile(&tiles, graph, result, tile_of(&tiles, first, count), storage);
    }
    place(&tiles);
    // The tensors of the whole are the first again, so they are where they were.
    memcpy(ggml_backend_buffer_get_base(tiles.arena), tiles.sources, tiles.source_bytes);
    compute(&tiles, graph);
    bool same = memcmp(tiles.truth, result->data, ggml_nbytes(result)) == 0;
    ggml_free(tiles.form.ctx);
    return same;
}

void division_free(struct division * division) {
    ggml_free(division->form.ctx);
    free(division->truth);
    free(division->sources);
}
