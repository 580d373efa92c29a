// runs: ggml-0.26 ggml-0.9.5 sanitized
//
// Memory for all tensors of a context at once: lastuse must use exactly the offsets of upstream, because programs save
// and share such buffers.
//
//   alloc_ctx_tensors <case>

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "upstream.h"

#define ALIGNMENT   64
#define MAX_TENSORS 64

// The functions that place tensors without a graph.
struct placing_api {
    const char * name;
    ggml_backend_buffer_t (*on_backend)(struct ggml_context * ctx, ggml_backend_t backend);
    ggml_backend_buffer_t (*from_type)(struct ggml_context * ctx, ggml_backend_buffer_type_t type);
    size_t (*measure)(struct ggml_context * ctx, ggml_backend_buffer_type_t type);
    struct ggml_tallocr (*tallocr_new)(ggml_backend_buffer_t buffer);
    enum ggml_status (*tallocr_alloc)(struct ggml_tallocr * tallocr, struct ggml_tensor * tensor);
};

static const struct placing_api apis[2] = {
    { "lastuse", ggml_backend_alloc_ctx_tensors, ggml_backend_alloc_ctx_tensors_from_buft,
      ggml_backend_alloc_ctx_tensors_from_buft_size, ggml_tallocr_new, ggml_tallocr_alloc },
    { "upstream", upstream_ggml_backend_alloc_ctx_tensors, upstream_ggml_backend_alloc_ctx_tensors_from_buft,
      upstream_ggml_backend_alloc_ctx_tensors_from_buft_size, upstream_ggml_tallocr_new,
      upstream_ggml_tallocr_alloc },
};

static struct ggml_context * new_context(void) {
    return no_alloc_context(1024 * 1024);
}

static struct ggml_tensor * add_tensor(struct ggml_context * ctx, size_t bytes) {
    return ggml_new_tensor_1d(ctx, GGML_TYPE_I8, (int64_t) bytes);
}

// The offsets of the tensors of a context

#define NOWHERE (-1)
#define OUTSIDE (-2) // in memory that is not the dummy's

struct place {
    int    buffer; // its age among the dummy's live buffers, or NOWHERE or OUTSIDE
    size_t offset; // bytes
    bool   is_in_root; // it is a view, and where its root says
};

struct places {
    int          count;
    struct place items[MAX_TENSORS];
    size_t       n_buffers;
    size_t       sizes[MAX_TENSORS]; // of the buffers, oldest first
    size_t       measured;
    bool         answered; // with a buffer
    bool         is_multi;
};

static struct place place_of(const struct dummy_buft * dummy, const struct ggml_tensor * tensor) {
    if (tensor->data == NULL) {
        return (struct place){ NOWHERE, 0, false };
    }
    for (size_t i = 0; i < dummy->live_buffers; i++) {
        ggml_backend_buffer_t buffer = dummy_buft_live(dummy, i);
        if (tensor->buffer == buffer) {
            const char * base = ggml_backend_buffer_get_base(buffer);
            const struct ggml_tensor * root    = tensor->view_src;
            bool                       is_view = root != NULL && root->buffer == buffer;
            return (struct place){ (int) i, (size_t) ((const char *) tensor->data - base),
                                   is_view && tensor->data == (char *) root->data + tensor->view_offs };
        }
    }
    return (struct place){ OUTSIDE, 0, false };
}

static struct places places_of(const struct dummy_buft * dummy, struct ggml_context * ctx) {
    struct places places = { .n_buffers = dummy->live_buffers };
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        CHECK(places.count < MAX_TENSORS, "more than %d tensors", MAX_TENSORS);
        places.items[places.count++] = place_of(dummy, t);
    }
    for (size_t i = 0; i < places.n_buffers; i++) {
        CHECK(i < MAX_TENSORS, "more than %d buffers", MAX_TENSORS);
        places.sizes[i] = ggml_backend_buffer_get_size(dummy_buft_live(dummy, i));
    }
    return places;
}

static void check_same_places(const struct places * ours, const struct places * theirs) {
    CHECK(ours->answered == theirs->answered, "a buffer: %d and %d", ours->answered, theirs->answered);
    CHECK(ours->is_multi == theirs->is_multi, "a multi buffer: %d and %d", ours->is_multi, theirs->is_multi);
    CHECK(ours->measured == theirs->measured, "measured %zu and %zu bytes", ours->measured, theirs->measured);
    CHECK(ours->n_buffers == theirs->n_buffers, "%zu and %zu buffers", ours->n_buffers, theirs->n_buffers);
    for (size_t i = 0; i < ours->n_buffers; i++) {
        CHECK(ours->sizes[i] == theirs->sizes[i], "buffer %zu: %zu and %zu bytes", i, ours->sizes[i], theirs->sizes[i]);
    }
    for (int i = 0; i < ours->count; i++) {
        struct place a = ours->items[i];
        struct place b = theirs->items[i];
        if (b.buffer == NOWHERE && a.is_in_root) {
            continue; // a view that upstream has left out
        }
        CHECK(a.buffer == b.buffer && a.offset == b.offset, "tensor %d: %zu in buffer %d and %zu in buffer %d", i,
              a.offset, a.buffer, b.offset, b.buffer);
    }
}

// One body on both allocators

// Fills a context, which is new each time. `dummy` may be changed, too.
typedef void (*fill_fn)(struct ggml_context * ctx, struct dummy_buft * dummy);

static struct places run_on(const struct placing_api * api, fill_fn fill) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * ctx = new_context();
    fill(ctx, &dummy);
    size_t                measured = api->measure(ctx, dummy_buft_type(&dummy));
    size_t                before   = dummy.live_bytes;
    ggml_backend_buffer_t buffer   = api->from_type(ctx, dummy_buft_type(&dummy));
    struct places         places   = places_of(&dummy, ctx);
    places.measured                = measured;
    places.answered                = buffer != NULL;
    if (buffer != NULL) {
        size_t size     = ggml_backend_buffer_get_size(buffer);
        places.is_multi = ggml_backend_buffer_is_multi_buffer(buffer);
        CHECK(size == measured, "%s measured %zu bytes and took %zu", api->name, measured, size);
        CHECK(dummy.live_bytes - before == size, "%s: the returned buffer has %zu bytes of %zu", api->name, size,
              dummy.live_bytes);
        CHECK(dummy_buft_all_have_usage(&dummy, GGML_BACKEND_BUFFER_USAGE_ANY), "%s set a usage", api->name);
        ggml_backend_buffer_free(buffer);
    }
    ggml_free(ctx);
    CHECK(dummy.live_bytes == before, "%s: %zu bytes leaked", api->name, dummy.live_bytes - before);
    return places;
}

static struct places same_on_both(fill_fn fill) {
    struct places ours   = run_on(&apis[0], fill);
    struct places theirs = run_on(&apis[1], fill);
    check_same_places(&ours, &theirs);
    return ours;
}

// Order, padding, splitting

static void fill_sizes(struct ggml_context * ctx, struct dummy_buft * dummy) {
    (void) dummy;
    static const size_t sizes[] = { 1, 64, 65, 0, 1000, 63 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        add_tensor(ctx, sizes[i]);
    }
}

CASE(context_order_and_padding) {
    static const size_t offsets[] = { 0, 64, 128, 256, 256, 1280 };
    struct places       places    = same_on_both(fill_sizes);
    CHECK(places.answered && !places.is_multi && places.n_buffers == 1, "one buffer holds all");
    CHECK(places.sizes[0] == 1344, "the buffer has %zu bytes", places.sizes[0]);
    for (int i = 0; i < places.count; i++) {
        CHECK(places.items[i].offset == offsets[i], "tensor %d is at %zu", i, places.items[i].offset);
    }
}

static void fill_split(struct ggml_context * ctx, struct dummy_buft * dummy) {
    fill_sizes(ctx, dummy);
    dummy->max_size = 192;
}

// 64 and 64 fit together; 128 and nothing; 1024 has its own; so has the last.
CASE(split_at_the_maximum) {
    static const int buffers[] = { 0, 0, 1, 1, 2, 3 };
    struct places    places    = same_on_both(fill_split);
    CHECK(places.answered && places.is_multi && places.n_buffers == 4, "%zu buffers", places.n_buffers);
    for (int i = 0; i < places.count; i++) {
        CHECK(places.items[i].buffer == buffers[i], "tensor %d is in buffer %d", i, places.items[i].buffer);
    }
}

static size_t forty_more(const struct ggml_tensor * tensor) {
    (void) tensor;
    return 40;
}

static void fill_with_extra_bytes(struct ggml_context * ctx, struct dummy_buft * dummy) {
    fill_sizes(ctx, dummy);
    dummy->extra_bytes = forty_more;
}

CASE(extra_bytes_are_counted) {
    struct places places = same_on_both(fill_with_extra_bytes);
    CHECK(places.sizes[0] == 64 + 128 + 128 + 64 + 1088 + 128, "the buffer has %zu bytes", places.sizes[0]);
}

// Tensors that need no memory

static void fill_nothing(struct ggml_context * ctx, struct dummy_buft * dummy) {
    (void) ctx;
    (void) dummy;
}

static void fill_zero_sizes(struct ggml_context * ctx, struct dummy_buft * dummy) {
    (void) dummy;
    add_tensor(ctx, 0);
    add_tensor(ctx, 0);
}

static char external_memory[4096];

static void fill_external(struct ggml_context * ctx, struct dummy_buft * dummy) {
    (void) dummy;
    add_tensor(ctx, 100)->data = external_memory;
    add_tensor(ctx, 200)->data = external_memory + 1024;
}

CASE(nothing_to_place_gives_null) {
    static const fill_fn fills[] = { fill_nothing, fill_zero_sizes, fill_external };
    for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
        struct places places = same_on_both(fills[i]);
        CHECK(!places.answered && places.n_buffers == 0 && places.measured == 0, "context %zu needs no memory", i);
    }
}

// A view of a tensor that has memory already, one of a tensor that gets it now, and one of a view.
static void fill_views(struct ggml_context * ctx, struct dummy_buft * dummy) {
    (void) dummy;
    struct ggml_tensor * external = add_tensor(ctx, 1000);
    struct ggml_tensor * own      = add_tensor(ctx, 1000);
    external->data                = external_memory;
    external->buffer              = ggml_backend_cpu_buffer_from_ptr(external_memory, sizeof(external_memory));
    ggml_view_1d(ctx, external, 100, 128);
    ggml_view_1d(ctx, ggml_view_1d(ctx, own, 500, 64), 100, 128);
    add_tensor(ctx, 10);
}

static void check_views(const struct placing_api * api) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * ctx = new_context();
    fill_views(ctx, &dummy);
    ggml_backend_buffer_t buffer   = api->from_type(ctx, dummy_buft_type(&dummy));
    ggml_backend_buffer_t external = ggml_get_first_tensor(ctx)->buffer;
    CHECK(buffer != NULL, "%s placed nothing", api->name);
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src != NULL) {
            CHECK(t->buffer == t->view_src->buffer, "%s: a view is in another buffer than its root", api->name);
            CHECK(t->data == (char *) t->view_src->data + t->view_offs, "%s: a view is not in its root", api->name);
        }
    }
    CHECK(ggml_backend_buffer_get_size(buffer) == 1024 + 64, "%s gave views memory", api->name);
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(external);
    ggml_free(ctx);
}

CASE(views_get_the_memory_of_their_roots) {
    check_views(&apis[0]);
    check_views(&apis[1]);
}

// A tensor larger than the largest buffer, or several, and views behind them: of the last, and of one before it.

static void add_views(struct ggml_context * ctx, struct ggml_tensor * root, int count) {
    for (int i = 0; i < count; i++) {
        ggml_view_1d(ctx, root, 64, (size_t) i * 64);
    }
}

static void fill_oversized(struct ggml_context * ctx, struct dummy_buft * dummy) {
    dummy->max_size            = 192;
    struct ggml_tensor * large = add_tensor(ctx, 1000);
    add_views(ctx, large, 3);
}

static void fill_two_oversized(struct ggml_context * ctx, struct dummy_buft * dummy) {
    fill_oversized(ctx, dummy);
    add_views(ctx, ggml_get_first_tensor(ctx), 2);
    add_views(ctx, add_tensor(ctx, 2000), 2);
}

static void fill_view_of_an_earlier_one(struct ggml_context * ctx, struct dummy_buft * dummy) {
    dummy->max_size            = 192;
    struct ggml_tensor * small = add_tensor(ctx, 128);
    add_tensor(ctx, 1000);
    add_views(ctx, small, 2);
    add_views(ctx, ggml_get_next_tensor(ctx, small), 2);
}

// Every view has the memory of its root, as many as there are; upstream leaves some without any.
CASE(views_of_oversized_tensors_have_memory) {
    static const fill_fn fills[] = { fill_oversized, fill_two_oversized, fill_view_of_an_earlier_one };
    static const int     views[] = { 3, 7, 4 };
    for (size_t fill = 0; fill < sizeof(fills) / sizeof(fills[0]); fill++) {
        struct places places = run_on(&apis[0], fills[fill]);
        struct places theirs = run_on(&apis[1], fills[fill]);
        int           placed = 0, left = 0;
        check_same_places(&places, &theirs);
        for (int i = 0; i < places.count; i++) {
            CHECK(places.items[i].buffer >= 0, "context %zu: tensor %d has no memory", fill, i);
            placed += places.items[i].is_in_root;
            left   += theirs.items[i].buffer == NOWHERE;
        }
        CHECK(placed == views[fill], "context %zu: %d views are in their roots", fill, placed);
        CHECK(left > 0, "context %zu: upstream leaves no view out, so that this tests nothing", fill);
    }
}

// The device refuses what is larger than its largest buffer: nothing is left, and the message says what it was.
CASE(a_refused_tensor_is_named) {
    static struct log_capture capture;
    struct dummy_buft         dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 192);
    dummy.byte_cap            = 500;
    struct ggml_context * ctx = new_context();
    fill_view_of_an_earlier_one(ctx, &dummy);
    ggml_set_name(ggml_get_next_tensor(ctx, ggml_get_first_tensor(ctx)), "too large");
    log_capture_start(&capture);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, dummy_buft_type(&dummy));
    log_capture_stop();
    CHECK(buffer == NULL && dummy.live_buffers == 0, "%zu buffers are left", dummy.live_buffers);
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        CHECK(t->buffer == NULL && t->data == NULL, "%s lies in a buffer that was freed", t->name);
    }
    const char * said = "tensor too large, which takes 1024 bytes: the largest dummy buffer has 192";
    CHECK(log_capture_has(&capture, said) && strstr(lastuse_last_error(), said) != NULL, "%s", lastuse_last_error());
    dummy.byte_cap = SIZE_MAX;
    buffer         = ggml_backend_alloc_ctx_tensors_from_buft(ctx, dummy_buft_type(&dummy));
    CHECK(buffer != NULL && ggml_backend_buffer_is_multi_buffer(buffer), "not allocated when there is memory");
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

// Failures

// Checks that lastuse logs what upstream does, and one line more for a tensor above the largest buffer.
static void check_same_log(struct log_capture * ours, const struct log_capture * theirs, bool is_oversized) {
    if (is_oversized) {
        CHECK(ours->count == theirs->count + 1, "%d lines and %d", ours->count, theirs->count);
        CHECK(strstr(ours->lines[--ours->count], "which takes 1024 bytes: the largest dummy buffer has 192") != NULL,
              "%s", ours->lines[ours->count]);
    }
    CHECK(log_capture_same(ours, theirs), "lastuse logs other lines than upstream");
}

static void fail_split(const struct placing_api * api, long allocs, long inits, struct log_capture * capture) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 192);
    struct ggml_context * ctx = new_context();
    fill_sizes(ctx, &dummy);
    dummy.allocs_left = allocs;
    dummy.inits_left  = inits;
    log_capture_start(capture);
    ggml_backend_buffer_t buffer = api->from_type(ctx, dummy_buft_type(&dummy));
    log_capture_stop();
    CHECK(buffer == NULL, "%s: %ld allocations and %ld tensors cannot be enough", api->name, allocs, inits);
    CHECK(dummy.live_buffers == 0, "%s: %zu buffers leaked", api->name, dummy.live_buffers);
    ggml_free(ctx);
}

// 4 buffers and 6 tensors are needed.
CASE(failure_frees_everything) {
    static struct log_capture ours;
    static struct log_capture theirs;
    for (long left = 0; left < 4; left++) {
        fail_split(&apis[0], left, DUMMY_UNLIMITED, &ours);
        fail_split(&apis[1], left, DUMMY_UNLIMITED, &theirs);
        CHECK(log_capture_has(&ours, "failed to allocate dummy buffer of size"), "the failure was not logged");
        check_same_log(&ours, &theirs, left == 2);
    }
    for (long left = 0; left < 6; left++) {
        fail_split(&apis[0], DUMMY_UNLIMITED, left, &ours);
        fail_split(&apis[1], DUMMY_UNLIMITED, left, &theirs);
        CHECK(log_capture_has(&ours, "failed to initialize tensor"), "the failure was not logged");
        check_same_log(&ours, &theirs, false);
    }
}

// Many contexts

static uint32_t random_state;

static uint32_t random_below(uint32_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t) (((uint64_t) random_state * limit) >> 32);
}

static void fill_randomly(struct ggml_context * ctx, struct dummy_buft * dummy) {
    dummy->alignment = (size_t) 16 << random_below(5);
    dummy->max_size  = random_below(2) == 0 ? SIZE_MAX : 1 + random_below(8000);
    int count        = 1 + (int) random_below(40);
    for (int i = 0; i < count; i++) {
        struct ggml_tensor * tensor = add_tensor(ctx, random_below(4) == 0 ? 0 : random_below(3000));
        if (random_below(5) == 0) {
            tensor->data = external_memory;
        } else if (random_below(3) == 0 && i + 1 < count) {
            i++;
            ggml_view_1d(ctx, tensor, ggml_nelements(tensor) / 2, (size_t) ggml_nelements(tensor) / 4);
        }
    }
}

CASE(random_contexts) {
    uint32_t rounds = (uint32_t) case_number(args, 0, 2000);
    for (uint32_t seed = 1; seed <= rounds; seed++) {
        random_state         = seed;
        struct places ours   = run_on(&apis[0], fill_randomly);
        random_state         = seed;
        struct places theirs = run_on(&apis[1], fill_randomly);
        check_same_places(&ours, &theirs);
    }
}

// Other functions

static void place_on_backend(const struct placing_api * api) {
    ggml_backend_t        backend = ggml_backend_cpu_init();
    struct ggml_context * ctx     = new_context();
    CHECK(api->on_backend(ctx, backend) == NULL, "%s: an empty context needs no buffer", api->name);
    fill_sizes(ctx, NULL);
    ggml_backend_buffer_type_t type   = ggml_backend_get_default_buffer_type(backend);
    ggml_backend_buffer_t      buffer = api->on_backend(ctx, backend);
    CHECK(buffer != NULL, "%s placed nothing", api->name);
    CHECK(ggml_backend_buffer_get_type(buffer) == type, "%s took another buffer type", api->name);
    size_t size = ggml_backend_buffer_get_size(buffer);
    CHECK(api->measure(ctx, type) == 0, "%s: everything is allocated now", api->name);
    CHECK(size >= 1193 && ggml_get_first_tensor(ctx)->buffer == buffer, "%s: %zu bytes", api->name, size);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
}

CASE(backend_means_its_default_type) {
    place_on_backend(&apis[0]);
    place_on_backend(&apis[1]);
}

#if GGML_BACKEND_API_VERSION >= 3
// A buffer type may place lists of tensors by itself. This one does it from the last to the first.
static ggml_backend_buffer_t place_backwards(ggml_backend_buffer_type_t type, struct ggml_tensor ** tensors,
                                             int n_tensors) {
    ggml_backend_buffer_t buffer  = ggml_backend_buft_alloc_buffer(type, 8192);
    struct ggml_tallocr   tallocr = ggml_tallocr_new(buffer);
    for (int i = n_tensors - 1; i >= 0; i--) {
        ggml_tallocr_alloc(&tallocr, tensors[i]);
    }
    return buffer;
}

static size_t measure_backwards(ggml_backend_buffer_type_t type, struct ggml_tensor ** tensors, int n_tensors) {
    (void) type;
    (void) tensors;
    (void) n_tensors;
    return 8192;
}

static void fill_backwards(struct ggml_context * ctx, struct dummy_buft * dummy) {
    fill_sizes(ctx, dummy);
    dummy->type.iface.alloc_buffer_n   = place_backwards;
    dummy->type.iface.get_alloc_size_n = measure_backwards;
}

CASE(type_may_place_tensors_itself) {
    struct places places = same_on_both(fill_backwards);
    CHECK(places.measured == 8192 && places.items[5].offset == 0, "the type's own functions were not used");
}
#endif

// Tensors one at a time

// Places three tensors into a buffer that starts 64 bytes behind a multiple of the alignment, so that
// placing starts at the next multiple.
static struct places fill_tallocr(const struct placing_api * api) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", 4096, 0);
    ggml_backend_buffer_t whole = ggml_backend_buft_alloc_buffer(dummy_buft_type(&dummy), 4096 + 1024);
    char *                base  = ggml_backend_buffer_get_base(whole);
    ggml_backend_buffer_t part  = ggml_backend_cpu_buffer_from_ptr(base + 64, 4096);
    part->buft                  = dummy_buft_type(&dummy); // for its alignment, which is now 256
    dummy.alignment             = 256;

    struct ggml_tallocr tallocr = api->tallocr_new(part);
    CHECK(tallocr.buffer == part && tallocr.base == base + 64, "%s: not this buffer", api->name);
    CHECK(tallocr.alignment == 256 && tallocr.offset == 192, "%s starts at %zu", api->name, tallocr.offset);

    struct ggml_context * ctx    = new_context();
    struct places         places = { .count = 3 };
    for (int i = 0; i < places.count; i++) {
        struct ggml_tensor * tensor = add_tensor(ctx, (size_t) (i + 1) * 100);
        CHECK(api->tallocr_alloc(&tallocr, tensor) == GGML_STATUS_SUCCESS, "%s: tensor %d", api->name, i);
        CHECK(tensor->buffer == part, "%s: tensor %d is in another buffer", api->name, i);
        places.items[i].offset = (size_t) ((char *) tensor->data - base);
    }
    CHECK(tallocr.offset == 192 + 256 + 256 + 512, "%s goes on at %zu", api->name, tallocr.offset);
    ggml_free(ctx);
    ggml_backend_buffer_free(part);
    ggml_backend_buffer_free(whole);
    return places;
}

CASE(tallocr_pads_its_start_and_its_tensors) {
    struct places ours   = fill_tallocr(&apis[0]);
    struct places theirs = fill_tallocr(&apis[1]);
    check_same_places(&ours, &theirs);
    CHECK(ours.items[0].offset == 256 && ours.items[2].offset == 768, "tensors start at multiples of 256");
}

static void fill_to_the_end(const struct placing_api * api) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * ctx     = new_context();
    ggml_backend_buffer_t buffer  = ggml_backend_buft_alloc_buffer(dummy_buft_type(&dummy), 192);
    struct ggml_tallocr   tallocr = api->tallocr_new(buffer);
    CHECK(api->tallocr_alloc(&tallocr, add_tensor(ctx, 100)) == GGML_STATUS_SUCCESS, "%s: 100 of 192", api->name);
    CHECK(api->tallocr_alloc(&tallocr, add_tensor(ctx, 64)) == GGML_STATUS_SUCCESS, "%s: 64 of 64", api->name);
    CHECK(api->tallocr_alloc(&tallocr, add_tensor(ctx, 0)) == GGML_STATUS_SUCCESS, "%s: 0 of 0", api->name);
    CHECK(tallocr.offset == 192, "%s ends at %zu", api->name, tallocr.offset);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

CASE(tallocr_uses_the_last_byte) {
    fill_to_the_end(&apis[0]);
    fill_to_the_end(&apis[1]);
}

static void fail_in_tallocr(const struct placing_api * api) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * ctx     = new_context();
    ggml_backend_buffer_t buffer  = ggml_backend_buft_alloc_buffer(dummy_buft_type(&dummy), 1024);
    struct ggml_tallocr   tallocr = api->tallocr_new(buffer);
    dummy.inits_left              = 1;
    CHECK(api->tallocr_alloc(&tallocr, add_tensor(ctx, 10)) == GGML_STATUS_SUCCESS, "%s: the first", api->name);
    CHECK(api->tallocr_alloc(&tallocr, add_tensor(ctx, 10)) == GGML_STATUS_ALLOC_FAILED, "%s: the second", api->name);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

CASE(tallocr_passes_failures_on) {
    fail_in_tallocr(&apis[0]);
    fail_in_tallocr(&apis[1]);
}
