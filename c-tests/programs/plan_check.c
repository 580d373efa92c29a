// runs: ggml-0.26
//
// plan_check() itself: it accepts valid plans, and names every fault that a plan can have.

#include <string.h>

#include "cases.h"
#include "dummy_buffer.h"
#include "plan_check.h"

#define SLOT 256 // bytes: one tensor of 64 values

// A graph in which every tensor has its own slot, so that a test can spoil one thing at a time.
struct handmade {
    struct dummy_buft     type;
    ggml_backend_buffer_t buffer;
    ggml_backend_buffer_t weights;
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;

    struct ggml_tensor *a, *b, *idle, *unused; // idle: an input that nothing reads
    struct ggml_tensor *w, *short_w;           // weights
    struct ggml_tensor *early, *normed, *sum, *product, *part, *copy, *square, *twice, *scaled, *whole, *negated;
    struct ggml_tensor *rms, *fused, *kept, *last;
};

static void set_view_addresses(struct handmade * h) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(h->ctx); t != NULL; t = ggml_get_next_tensor(h->ctx, t)) {
        if (t->view_src != NULL) {
            t->data   = (char *) t->view_src->data + t->view_offs;
            t->buffer = t->view_src->buffer;
        }
    }
}

static void place(struct handmade * h, struct ggml_tensor * t, size_t offset) {
    t->buffer = h->buffer;
    t->data   = (char *) ggml_backend_buffer_get_base(h->buffer) + offset;
    set_view_addresses(h);
}

static void place_at(struct handmade * h, struct ggml_tensor * t, const struct ggml_tensor * other, size_t behind) {
    place(h, t, (size_t) ((char *) other->data - (char *) ggml_backend_buffer_get_base(h->buffer)) + behind);
}

static void build_handmade(struct handmade * h) {
    struct ggml_context * ctx = h->ctx;

    h->a       = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    h->b       = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    h->idle    = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    h->unused  = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    h->w       = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    h->short_w = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 32);
    h->early   = ggml_scale(ctx, h->a, 2.0f); // nothing reads this
    h->normed  = ggml_norm(ctx, h->a, 1e-5f);
    h->sum     = ggml_add(ctx, h->normed, h->b);
    h->product = ggml_mul(ctx, h->sum, h->w);
    h->part    = ggml_view_1d(ctx, h->sum, 32, SLOT / 2);
    h->copy    = ggml_cont(ctx, h->part);
    h->square  = ggml_sqr(ctx, h->copy);
    h->twice   = ggml_add(ctx, h->square, h->square);
    h->scaled  = ggml_scale_inplace(ctx, h->twice, 0.5f);
    h->whole   = ggml_view_1d(ctx, h->scaled, 32, 0);
    h->negated = ggml_neg(ctx, h->whole);
    h->rms     = ggml_rms_norm(ctx, h->negated, 1e-5f);
    h->fused   = ggml_mul(ctx, h->rms, h->short_w);
    h->kept    = ggml_view_tensor(ctx, h->negated);
    h->last    = ggml_sum_rows(ctx, h->fused);

    h->kept->src[0] = h->negated;
    ggml_set_input(h->a);
    ggml_set_input(h->b);
    ggml_set_input(h->idle);
    ggml_set_output(h->product);
}

static void expand_handmade(struct handmade * h) {
    struct ggml_tensor * all[] = { h->idle, h->unused, h->early, h->normed, h->sum,     h->product, h->part, h->copy,
                                   h->square, h->twice, h->scaled, h->whole, h->negated, h->rms, h->fused };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        ggml_build_forward_expand(h->graph, all[i]);
    }
    ggml_graph_add_node(h->graph, h->kept);
    ggml_build_forward_expand(h->graph, h->last);
}

static void name_handmade(struct handmade * h) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(h->ctx); t != NULL; t = ggml_get_next_tensor(h->ctx, t)) {
        ggml_set_name(t, "");
    }
    ggml_set_name(h->a, "a");
    ggml_set_name(h->b, "b");
    ggml_set_name(h->unused, "unused");
    ggml_set_name(h->early, "early");
    ggml_set_name(h->normed, "normed");
    ggml_set_name(h->sum, "sum");
    ggml_set_name(h->product, "product");
    ggml_set_name(h->part, "part");
    ggml_set_name(h->copy, "copy");
    ggml_set_name(h->square, "square");
    ggml_set_name(h->twice, "twice");
    ggml_set_name(h->scaled, "scaled");
    ggml_set_name(h->negated, "negated");
    ggml_set_name(h->fused, "fused");
    ggml_set_name(h->kept, "kept");
    ggml_set_name(h->last, "last");
}

static void handmade_init(struct handmade * h) {
    h->ctx   = no_alloc_context(1 << 20);
    h->graph = ggml_new_graph_custom(h->ctx, 64, false);
    dummy_buft_init(&h->type, "handmade", 32, 0);
    h->type.imaginary = true;
    h->buffer         = ggml_backend_buft_alloc_buffer(dummy_buft_type(&h->type), 32 * SLOT);
    h->weights        = ggml_backend_buft_alloc_buffer(dummy_buft_type(&h->type), 2 * SLOT);
    ggml_backend_buffer_set_usage(h->buffer, GGML_BACKEND_BUFFER_USAGE_COMPUTE);
    build_handmade(h);
    expand_handmade(h);
    name_handmade(h);
    size_t offset = 0;
    for (struct ggml_tensor * t = ggml_get_first_tensor(h->ctx); t != NULL; t = ggml_get_next_tensor(h->ctx, t)) {
        if (t->view_src == NULL) {
            place(h, t, offset);
            offset += SLOT;
        }
    }
    h->w->buffer       = h->weights;
    h->w->data         = ggml_backend_buffer_get_base(h->weights);
    h->short_w->buffer = h->weights;
    h->short_w->data   = (char *) h->w->data + SLOT;
}

static void handmade_free(struct handmade * h) {
    ggml_backend_buffer_free(h->buffer);
    ggml_backend_buffer_free(h->weights);
    ggml_free(h->ctx);
}

// Valid plans.
static void nothing(struct handmade * h) { (void) h; }
static void in_place(struct handmade * h) { place_at(h, h->sum, h->normed, 0); }
static void in_place_through_view(struct handmade * h) { place_at(h, h->negated, h->twice, 0); }
static void over_idle_input(struct handmade * h) { place_at(h, h->normed, h->idle, 0); }
static void over_dead(struct handmade * h) { place_at(h, h->last, h->normed, 0); }

// Faults of a single tensor.
static void without_memory(struct handmade * h) { h->copy->data = NULL; }
static void outside(struct handmade * h) { place(h, h->copy, 32 * SLOT - 64); }
static void unaligned(struct handmade * h) { place_at(h, h->copy, h->copy, 16); }
static void view_elsewhere(struct handmade * h) { h->part->data = h->sum->data; }
static void view_in_other_buffer(struct handmade * h) { h->part->buffer = h->weights; }

// Faults between tensors.
static void inputs_overlap(struct handmade * h) { place_at(h, h->b, h->a, SLOT / 2); }
static void leaf_over_input(struct handmade * h) { place_at(h, h->unused, h->b, 0); }
static void over_read_later(struct handmade * h) { place_at(h, h->product, h->sum, 0); }
static void over_input_read_later(struct handmade * h) { place_at(h, h->early, h->b, 0); }
static void not_an_in_place_op(struct handmade * h) { place_at(h, h->last, h->fused, 0); }
static void shifted_in_place(struct handmade * h) { place_at(h, h->sum, h->normed, 32); }
static void other_layout_in_place(struct handmade * h) {
    h->square->nb[3] += 4;
    place_at(h, h->square, h->copy, 0);
}
static void source_read_twice(struct handmade * h) { place_at(h, h->twice, h->square, 0); }
static void over_output(struct handmade * h) { place_at(h, h->copy, h->product, 32); }
static void over_unread(struct handmade * h) { place_at(h, h->last, h->early, 0); }
static void over_unused_leaf(struct handmade * h) { place_at(h, h->copy, h->unused, 0); }
static void over_what_is_written_later(struct handmade * h) {
    // the copy runs once more before the in-place node, in the memory which that one writes to
    struct ggml_tensor ** nodes = ggml_graph_nodes(h->graph);
    for (int i = 0; i + 2 < ggml_graph_n_nodes(h->graph); i++) {
        if (nodes[i] == h->twice) {
            nodes[i + 1] = h->copy;
            nodes[i + 2] = h->scaled;
        }
    }
    place_at(h, h->copy, h->twice, 0);
    h->scaled->src[0] = NULL; // else that the source is gone would be found first
}
static void over_kept(struct handmade * h) { place_at(h, h->fused, h->negated, 0); }
static void over_source_of_norm(struct handmade * h) { place_at(h, h->fused, h->negated, 32); }

struct expectation {
    void (*spoil)(struct handmade * h);
    const char * reason; // a part of it; NULL: the plan is valid
};

static const struct expectation EXPECTATIONS[] = {
    { nothing, NULL },
    { in_place, NULL },
    { in_place_through_view, NULL },
    { over_idle_input, NULL },
    { over_dead, NULL },
    { without_memory, "copy has no memory" },
    { outside, "copy is not inside its buffer" },
    { unaligned, "copy is not aligned" },
    { view_elsewhere, "view part is not at its offset in sum" },
    { view_in_other_buffer, "view part is not in the buffer of sum" },
    { inputs_overlap, "overlap at the start" },
    { leaf_over_input, "overlap at the start" },
    { over_read_later, "its source part was overwritten by product" },
    { over_input_read_later, "its source b was overwritten by early" },
    { not_an_in_place_op, "SUM_ROWS cannot run in place of fused" },
    { shifted_in_place, "writes over parts of its source normed" },
    { other_layout_in_place, "writes over parts of its source copy" },
    { source_read_twice, "writes over its source square, which it reads twice" },
    { over_output, "the output product was overwritten by copy" },
    { over_unread, "must be kept: early was overwritten by last" },
    { over_unused_leaf, "must be kept: unused was overwritten by copy" },
    { over_what_is_written_later, "scaled: writes to twice, which was overwritten by copy" },
    { over_kept, "kept: its source negated was overwritten by fused" },
    { over_source_of_norm, "fused: writes over negated, which the normalization before it reads" },
};

CASE(checker_finds_faults) {
    for (size_t i = 0; i < sizeof(EXPECTATIONS) / sizeof(EXPECTATIONS[0]); i++) {
        struct handmade h;
        handmade_init(&h);
        EXPECTATIONS[i].spoil(&h);
        const char * reason = plan_check(h.graph);
        const char * expected = EXPECTATIONS[i].reason;
        CHECK((reason == NULL) == (expected == NULL), "fault %zu: expected %s, got %s", i, expected != NULL ? expected : "none",
              reason != NULL ? reason : "none");
        CHECK(reason == NULL || strstr(reason, expected) != NULL, "fault %zu: expected %s, got %s", i, expected, reason);
        handmade_free(&h);
    }
}

// Both ids of a several-buffer plan have to be kept, unless a node took over its source's memory.
CASE(checker_finds_wrong_buffer_types) {
    struct handmade   h;
    struct dummy_buft other;
    int               ids[32] = { 0 };
    handmade_init(&h);
    dummy_buft_init(&other, "other", 32, 0);
    ggml_backend_buffer_type_t bufts[] = { dummy_buft_type(&h.type), dummy_buft_type(&other) };
    CHECK(plan_check_buffer_types(h.graph, bufts, ids, ids) == NULL, "all are of the first type");
    for (int i = 0; i < ggml_graph_n_nodes(h.graph); i++) {
        ids[i] = ggml_graph_node(h.graph, i) == h.sum;
    }
    const char * reason = plan_check_buffer_types(h.graph, bufts, ids, NULL);
    CHECK(reason != NULL && strstr(reason, "sum should be in a buffer of type other") != NULL, "got %s",
          reason != NULL ? reason : "none");
    in_place(&h);
    reason = plan_check_buffer_types(h.graph, bufts, ids, NULL);
    CHECK(reason == NULL, "got %s", reason);
    handmade_free(&h);
}
