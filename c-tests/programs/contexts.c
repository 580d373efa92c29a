// runs: ggml-0.26 ggml-0.9.5 off sanitized
//
// Contexts without sizes: ggml's functions on them, and the memory of tensors in contexts with a buffer type.
//
//   contexts <case>

#include <pthread.h>

#include "cases.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"

#define ALIGNMENT 64
#define KIB       ((size_t) 1024)

static struct ggml_context * new_context(enum lastuse_context_kind kind) {
    struct ggml_context * ctx = lastuse_context_new(kind, NULL);
    CHECK(ctx != NULL, "%s", lastuse_last_error());
    return ctx;
}

static struct ggml_context * context_in(ggml_backend_buffer_type_t type) {
    struct lastuse_context_params params = { .struct_size = sizeof(params), .buft = type };
    struct ggml_context *         ctx    = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params);
    CHECK(ctx != NULL, "%s", lastuse_last_error());
    return ctx;
}

static struct ggml_tensor * add_tensor(struct ggml_context * ctx, size_t bytes) {
    return ggml_new_tensor_1d(ctx, GGML_TYPE_I8, (int64_t) bytes);
}

static bool error_says(const char * part) {
    return strstr(lastuse_last_error(), part) != NULL;
}

// ggml's functions on contexts

CASE(ggml_knows_the_context) {
    struct ggml_context * deferred  = new_context(LASTUSE_CONTEXT_DEFERRED);
    struct ggml_context * immediate = new_context(LASTUSE_CONTEXT_IMMEDIATE);
    CHECK(ggml_get_no_alloc(deferred) && !ggml_get_no_alloc(immediate), "the kinds are mixed up");
    CHECK(ggml_used_mem(deferred) == 0 && ggml_used_mem(immediate) == 0, "a new context is empty");

    struct ggml_tensor * later = ggml_new_tensor_1d(deferred, GGML_TYPE_F32, 1000);
    struct ggml_tensor * now   = ggml_new_tensor_1d(immediate, GGML_TYPE_F32, 1000);
    CHECK(later->data == NULL && now->data != NULL, "the kinds are mixed up");
    CHECK(ggml_used_mem(deferred) == ggml_tensor_overhead(), "%zu bytes are used", ggml_used_mem(deferred));
    CHECK(ggml_used_mem(immediate) == ggml_tensor_overhead() + 4000, "%zu bytes are used", ggml_used_mem(immediate));
    CHECK(ggml_get_first_tensor(deferred) == later, "the tensor is not in its context");

    ggml_reset(immediate);
    CHECK(ggml_used_mem(immediate) == 0 && ggml_get_first_tensor(immediate) == NULL, "ggml_reset empties it");
    CHECK(ggml_new_tensor_1d(immediate, GGML_TYPE_F32, 1000) == now, "addresses change");
    lastuse_context_free(deferred);
    lastuse_context_free(immediate);
    lastuse_context_free(NULL);
}

CASE(graph_is_computed_in_an_immediate_context) {
    struct ggml_context * ctx   = new_context(LASTUSE_CONTEXT_IMMEDIATE);
    struct ggml_tensor *  a     = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64);
    struct ggml_tensor *  out   = ggml_mul_mat(ctx, a, ggml_sqr(ctx, a));
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    ggml_set_f32(a, 3.0f);
    ggml_build_forward_expand(graph, out);
    CHECK(ggml_graph_compute_with_ctx(ctx, graph, 2) == GGML_STATUS_SUCCESS, "not computed");
    for (int i = 0; i < 64 * 64; i++) {
        CHECK(((float *) out->data)[i] == 64 * 27.0f, "element %d is %g", i, ((float *) out->data)[i]);
    }
    lastuse_context_free(ctx);
}

CASE(deferred_graph_is_allocated_and_computed) {
    ggml_backend_t        backend = new_cpu(1);
    ggml_gallocr_t        galloc  = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    struct ggml_context * ctx     = new_context(LASTUSE_CONTEXT_DEFERRED);
    for (int token = 1; token < 50; token++) {
        struct ggml_tensor * in = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
        ggml_set_input(in);
        struct ggml_tensor * out = ggml_add(ctx, ggml_sqr(ctx, in), in);
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, out);
        CHECK(ggml_gallocr_alloc_graph(galloc, graph), "token %d is not allocated", token);
        ggml_set_f32(in, (float) token);
        CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "not computed");
        float expected = (float) (token * token + token);
        CHECK(ggml_get_f32_1d(out, 63) == expected, "token %d gives %g", token, ggml_get_f32_1d(out, 63));
        ggml_reset(ctx);
    }
    lastuse_context_free(ctx);
    ggml_gallocr_free(galloc);
    ggml_backend_free(backend);
}

CASE(graph_of_a_million_nodes) {
    const int             count = 1000000;
    struct ggml_context * ctx   = new_context(LASTUSE_CONTEXT_DEFERRED);
    struct ggml_cgraph *  graph = ggml_new_graph_custom(ctx, (size_t) count, true);
    struct ggml_tensor *  t     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1);
    for (int i = 0; i < count; i++) {
        t = ggml_neg(ctx, t);
        ggml_build_forward_expand(graph, t);
    }
    CHECK(ggml_graph_n_nodes(graph) == count, "%d nodes", ggml_graph_n_nodes(graph));
    CHECK(ggml_graph_node(graph, -1) == t, "another node is the last");
    lastuse_context_free(ctx);
}

CASE(all_tensors_of_a_deferred_context_at_once) {
    struct ggml_context * ctx = new_context(LASTUSE_CONTEXT_DEFERRED);
    for (int i = 0; i < 100; i++) {
        add_tensor(ctx, 1000);
    }
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    CHECK(buffer != NULL && ggml_get_first_tensor(ctx)->buffer == buffer, "no memory");
    ggml_backend_buffer_free(buffer);
    lastuse_context_free(ctx);
}

CASE(address_space_can_be_set) {
    struct lastuse_context_params params = { .struct_size = sizeof(params), .address_space = 10000 };
    struct ggml_context * ctx = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, &params);
    CHECK(ctx != NULL, "%s", lastuse_last_error());
    size_t size = ggml_get_mem_size(ctx);
    CHECK(size >= 10000 && size < 10000 + 64 * KIB, "%zu bytes", size);
    lastuse_context_free(ctx);
}

CASE(wrong_arguments_are_refused) {
    struct log_capture logged;
    log_capture_start(&logged);
    struct lastuse_context_params params = { .struct_size = sizeof(params) };
    CHECK(lastuse_context_new((enum lastuse_context_kind) 2, &params) == NULL, "there is no kind 2");
    CHECK(error_says("lastuse_context_new: kind is 2"), "%s", lastuse_last_error());
    params.usage = 3;
    CHECK(lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params) == NULL, "there is no usage 3");
    CHECK(error_says("usage is 3"), "%s", lastuse_last_error());
    params.usage = -1;
    CHECK(lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params) == NULL, "there is no usage -1");
    params.usage = 0;
    params.buft  = ggml_backend_cpu_buffer_type();
    CHECK(lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, &params) == NULL, "a deferred context has no memory");
    CHECK(error_says("deferred"), "%s", lastuse_last_error());
    params.buft          = NULL;
    params.address_space = SIZE_MAX;
    CHECK(lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, &params) == NULL, "there is not so much address space");
    CHECK(error_says("18446744073709551615 bytes of address space"), "%s", lastuse_last_error());
    log_capture_stop();
    CHECK(logged.count == 5 && log_capture_has(&logged, "18446744073709551615"), "%d lines in the log", logged.count);
}

CASE(only_immediate_contexts_are_realized) {
    struct ggml_context * deferred  = new_context(LASTUSE_CONTEXT_DEFERRED);
    struct ggml_context * immediate = new_context(LASTUSE_CONTEXT_IMMEDIATE);
    add_tensor(deferred, 10);
    add_tensor(immediate, 10);
    CHECK(lastuse_context_realize(immediate), "there is nothing to do");
    CHECK(!lastuse_context_realize(deferred) && error_says("deferred"), "%s", lastuse_last_error());
    lastuse_context_free(deferred);
    lastuse_context_free(immediate);
}

// Memory in a buffer type

static void set_pattern(struct ggml_tensor * tensor, int value) {
    memset(tensor->data, value, ggml_nbytes(tensor));
}

static void check_pattern(const struct ggml_tensor * tensor, int value) {
    const char * bytes = tensor->data;
    for (size_t i = 0; i < ggml_nbytes(tensor); i++) {
        CHECK(bytes[i] == (char) value, "byte %zu of a tensor was overwritten", i);
    }
}

CASE(first_buffer_is_exact) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct lastuse_context_params params = { .struct_size = sizeof(params), .buft = dummy_buft_type(&dummy) };
    params.usage = GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    struct ggml_context * ctx = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params);
    CHECK(lastuse_context_realize(ctx) && dummy.live_buffers == 0, "an empty context needs no memory");

    struct ggml_tensor * tensors[100];
    for (int i = 0; i < 100; i++) {
        tensors[i] = add_tensor(ctx, (size_t) (i + 1));
        CHECK(tensors[i]->data == NULL, "memory was not requested");
    }
    CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
    CHECK(dummy.live_buffers == 1, "%zu buffers", dummy.live_buffers);
    CHECK(dummy.live_bytes == 64 * 64 + 36 * 128, "%zu bytes", dummy.live_bytes);
    CHECK(dummy_buft_all_have_usage(&dummy, GGML_BACKEND_BUFFER_USAGE_WEIGHTS), "another usage");
    for (int i = 0; i < 100; i++) {
        CHECK((uintptr_t) tensors[i]->data % ALIGNMENT == 0, "tensor %d is not aligned", i);
        CHECK(dummy_buft_contains(&dummy, tensors[i]->data, (size_t) (i + 1)), "tensor %d lies outside", i);
        set_pattern(tensors[i], i);
    }
    for (int i = 0; i < 100; i++) {
        check_pattern(tensors[i], i);
    }
    CHECK(lastuse_context_realize(ctx) && dummy.live_buffers == 1, "there is nothing to do");
    lastuse_context_free(ctx);
    CHECK(dummy.live_buffers == 0, "the buffer is freed with the context");
}

CASE(tensors_of_equal_size_share_buffers) {
    for (size_t size = ALIGNMENT; size < 100000; size = size * 3 / 2 / ALIGNMENT * ALIGNMENT + ALIGNMENT) {
        struct dummy_buft dummy;
        dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
        struct ggml_context * ctx = context_in(dummy_buft_type(&dummy));
        for (int i = 0; i < 1000; i++) {
            add_tensor(ctx, size);
            CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
        }
        CHECK(dummy.live_buffers < 100, "%zu buffers for tensors of %zu bytes", dummy.live_buffers, size);
        lastuse_context_free(ctx);
    }
}

// One after the other: few buffers, and few unused bytes.
CASE(buffers_grow) {
    enum { COUNT = 2000 };
    static struct ggml_tensor * tensors[COUNT];
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * ctx  = context_in(dummy_buft_type(&dummy));
    size_t                used = 0;
    for (int i = 0; i < COUNT; i++) {
        size_t size = ALIGNMENT * (size_t) (1 + i * 7919 % 997);
        tensors[i]  = add_tensor(ctx, size);
        used += size;
        CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
        size_t free_bytes = dummy.live_bytes - used;
        size_t allowed    = used / 8 > 64 * KIB ? used / 8 : 64 * KIB;
        CHECK(free_bytes <= allowed, "%zu bytes are free, and %zu are used", free_bytes, used);
        set_pattern(tensors[i], i % 128);
    }
    CHECK(dummy.live_buffers <= 100, "%zu buffers", dummy.live_buffers);
    for (int i = 0; i < COUNT; i++) {
        check_pattern(tensors[i], i % 128);
    }
    lastuse_context_free(ctx);
    CHECK(dummy.live_buffers == 0, "the buffers are freed with the context");
}

CASE(free_bytes_are_limited) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    dummy.imaginary            = true;
    struct ggml_context * ctx  = context_in(dummy_buft_type(&dummy));
    size_t                used = 0;
    for (int i = 0; i < 200; i++) {
        add_tensor(ctx, 20 * KIB * KIB);
        used += 20 * KIB * KIB;
        CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
        CHECK(dummy.live_bytes - used <= 128 * KIB * KIB, "%zu bytes are free", dummy.live_bytes - used);
    }
    lastuse_context_free(ctx);
}

CASE(limits_of_the_type_are_kept) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 4096);
    struct ggml_context * ctx = context_in(dummy_buft_type(&dummy));
    for (int i = 0; i < 10; i++) {
        add_tensor(ctx, 1024);
    }
    CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
    CHECK(dummy.live_buffers == 3, "%zu buffers", dummy.live_buffers);
    for (int i = 0; i < 10; i++) {
        add_tensor(ctx, 1024);
        CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
        CHECK(dummy.last_requested <= 4096, "%zu bytes in one buffer", dummy.last_requested);
    }
    // It exceeds the maximum size that the type advises: the type decides.
    struct ggml_tensor * large = add_tensor(ctx, 5000);
    CHECK(lastuse_context_realize(ctx) && large->data != NULL, "%s", lastuse_last_error());
    lastuse_context_free(ctx);
}

static size_t some_extra_bytes(const struct ggml_tensor * tensor) {
    return ggml_nbytes(tensor) % 512;
}

CASE(extra_bytes_of_the_type_are_kept_free) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    dummy.extra_bytes          = some_extra_bytes;
    struct ggml_context * ctx  = context_in(dummy_buft_type(&dummy));
    const char *          end  = NULL;
    for (int i = 0; i < 20; i++) {
        add_tensor(ctx, (size_t) (100 + i * 31));
    }
    CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        CHECK((const char *) t->data >= end, "a tensor lies in the extra bytes of the one before");
        end = (const char *) t->data + ggml_nbytes(t) + some_extra_bytes(t);
        CHECK(dummy_buft_contains(&dummy, t->data, ggml_nbytes(t) + some_extra_bytes(t)), "a tensor lies outside");
    }
    lastuse_context_free(ctx);
}

CASE(views_and_empty_tensors) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * roots = context_in(dummy_buft_type(&dummy));
    struct ggml_context * views = context_in(dummy_buft_type(&dummy));
    struct ggml_tensor *  empty = add_tensor(roots, 0);
    struct ggml_tensor *  root  = add_tensor(roots, 1000);
    struct ggml_tensor *  early = ggml_view_1d(roots, root, 100, 200);
    struct ggml_tensor *  other = ggml_view_1d(views, root, 100, 300);
    struct ggml_tensor *  own   = add_tensor(views, 10);
    CHECK(lastuse_context_realize(views), "%s", lastuse_last_error());
    CHECK(other->data == NULL && own->data != NULL, "the root of the view has no memory yet");
    CHECK(lastuse_context_realize(roots), "%s", lastuse_last_error());
    CHECK(empty->data != NULL && empty->data != root->data, "a tensor without elements has an address");
    CHECK(early->data == (char *) root->data + 200 && early->buffer == root->buffer, "the view is elsewhere");
    CHECK(lastuse_context_realize(views), "%s", lastuse_last_error());
    CHECK(other->data == (char *) root->data + 300 && other->buffer == root->buffer, "the view is elsewhere");

    struct ggml_tensor * late = ggml_view_1d(roots, root, 100, 400);
    CHECK(lastuse_context_realize(roots) && late->buffer == root->buffer, "the view has no buffer");
    lastuse_context_free(views);
    lastuse_context_free(roots);
    CHECK(dummy.live_buffers == 0, "%zu buffers are left", dummy.live_buffers);
}

CASE(memory_of_the_program_is_left_alone) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), 4096);
    struct ggml_context * ctx    = context_in(dummy_buft_type(&dummy));
    struct ggml_tensor *  mine   = add_tensor(ctx, 1000);
    struct ggml_tensor *  other  = add_tensor(ctx, 1000);
    void *                base   = ggml_backend_buffer_get_base(buffer);
    ggml_backend_tensor_alloc(buffer, mine, base);
    CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
    CHECK(mine->data == base && mine->buffer == buffer, "the tensor had memory");
    CHECK(other->data != NULL && dummy.live_bytes == 1024, "%zu bytes", dummy.live_bytes);
    lastuse_context_free(ctx);
    ggml_backend_buffer_free(buffer);
}

// Fails at each allocation and at each tensor in turn.
CASE(failures_leave_everything_usable) {
    for (int failing = 0; failing < 40; failing++) {
        struct dummy_buft dummy;
        dummy_buft_init(&dummy, "dummy", ALIGNMENT, 4096);
        struct ggml_context * ctx = context_in(dummy_buft_type(&dummy));
        struct ggml_tensor *  tensors[20];
        for (int i = 0; i < 20; i++) {
            tensors[i] = add_tensor(ctx, 1024);
        }
        dummy.allocs_left = failing < 5 ? failing : DUMMY_UNLIMITED;
        dummy.inits_left  = failing < 5 ? DUMMY_UNLIMITED : failing - 5;
        bool fails        = failing < 25;
        CHECK(lastuse_context_realize(ctx) == !fails, "%d: %s", failing, lastuse_last_error());
        CHECK(!fails || error_says("lastuse_context_realize: failed to "), "%s", lastuse_last_error());
        void * before[20];
        for (int i = 0; i < 20; i++) {
            before[i] = tensors[i]->data;
            CHECK((before[i] == NULL) == (tensors[i]->buffer == NULL), "tensor %d has half a memory", i);
        }
        dummy.allocs_left = DUMMY_UNLIMITED;
        dummy.inits_left  = DUMMY_UNLIMITED;
        CHECK(lastuse_context_realize(ctx), "%d: %s", failing, lastuse_last_error());
        for (int i = 0; i < 20; i++) {
            CHECK(tensors[i]->data != NULL, "tensor %d has no memory", i);
            CHECK(before[i] == NULL || before[i] == tensors[i]->data, "tensor %d has moved", i);
            set_pattern(tensors[i], i);
        }
        for (int i = 0; i < 20; i++) {
            check_pattern(tensors[i], i);
        }
        bool init_failed = failing >= 5 && fails;
        CHECK(dummy.counts.init_tensor == 20 + (size_t) init_failed, "%zu calls", dummy.counts.init_tensor);
        CHECK(dummy.live_buffers == 5, "%zu buffers", dummy.live_buffers);
        lastuse_context_free(ctx);
        CHECK(dummy.live_buffers == 0, "%zu buffers are left", dummy.live_buffers);
    }
}

CASE(no_spare_bytes_are_requested_when_memory_is_short) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    dummy.byte_cap            = 10 * KIB;
    struct ggml_context * ctx = context_in(dummy_buft_type(&dummy));
    for (int i = 0; i < 10; i++) {
        add_tensor(ctx, KIB);
        CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
    }
    struct ggml_tensor * last = add_tensor(ctx, KIB);
    CHECK(!lastuse_context_realize(ctx) && last->data == NULL, "there is no more memory");
    CHECK(error_says("failed to allocate dummy buffer of size 1024"), "%s", lastuse_last_error());
    lastuse_context_free(ctx);
}

#if GGML_BACKEND_API_VERSION >= 3
static enum ggml_backend_dev_type is_made_of_several(ggml_backend_dev_t device) {
    (void) device;
    return GGML_BACKEND_DEVICE_TYPE_META;
}

// Fails when no tensor can be initialized any more, and leaves their addresses in them.
static ggml_backend_buffer_t place_backwards(ggml_backend_buffer_type_t type, struct ggml_tensor ** tensors,
                                             int n_tensors) {
    struct dummy_buft *   dummy   = type->context;
    ggml_backend_buffer_t buffer  = ggml_backend_buft_alloc_buffer(type, 8192);
    struct ggml_tallocr   tallocr = ggml_tallocr_new(buffer);
    for (int i = n_tensors - 1; i >= 0; i--) {
        ggml_tallocr_alloc(&tallocr, tensors[i]);
    }
    if (dummy->inits_left == 0) {
        ggml_backend_buffer_free(buffer);
        return NULL;
    }
    return buffer;
}

// Such a type must place all new tensors itself, at once.
CASE(type_made_of_several_places_all_tensors_itself) {
    struct ggml_backend_device device = { .iface = { .get_type = is_made_of_several } };
    struct dummy_buft          dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    dummy.type.device               = &device;
    dummy.type.iface.alloc_buffer_n = place_backwards;
    struct ggml_context * ctx       = context_in(dummy_buft_type(&dummy));
    struct ggml_tensor *  tensors[4];
    for (int i = 0; i < 4; i++) {
        tensors[i] = add_tensor(ctx, 100);
        if (i % 2 == 1) {
            dummy.inits_left = 0;
            CHECK(!lastuse_context_realize(ctx), "the type has failed");
            CHECK(tensors[i]->data == NULL && tensors[i]->buffer == NULL, "an address is left");
            dummy.inits_left = DUMMY_UNLIMITED;
            CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
            CHECK((char *) tensors[i - 1]->data == (char *) tensors[i]->data + 128, "the type has not placed them");
        }
    }
    CHECK(dummy.live_buffers == 2, "%zu buffers", dummy.live_buffers);
    ggml_reset(ctx);
    add_tensor(ctx, 100);
    CHECK(lastuse_context_realize(ctx) && dummy.live_buffers == 1, "%zu buffers", dummy.live_buffers);
    lastuse_context_free(ctx);
    CHECK(dummy.live_buffers == 0, "%zu buffers are left", dummy.live_buffers);
}
#endif

// Emptying

CASE(emptied_context_uses_its_buffers_again) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * ctx     = context_in(dummy_buft_type(&dummy));
    struct ggml_context * others  = new_context(LASTUSE_CONTEXT_IMMEDIATE);
    struct ggml_tensor *  another = add_tensor(others, 100);
    void *                first[3];
    for (int token = 0; token < 1000; token++) {
        ggml_reset(ctx);
        // The first tensor is not the first that is realized.
        struct ggml_tensor * view = ggml_view_1d(ctx, another, 10, 0);
        for (int i = 0; i < 3; i++) {
            ggml_view_1d(ctx, add_tensor(ctx, (size_t) (100 * (i + 1))), 10, 0);
            if (i == 1 && token % 2 == 1) {
                CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
            }
        }
        CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
        int i = 0;
        for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
            if (t->view_src == NULL) {
                first[i] = token == 0 ? t->data : first[i];
                CHECK(t->data == first[i], "tensor %d of token %d is elsewhere", i, token);
                i++;
            }
        }
        CHECK(dummy.counts.alloc_buffer == 1, "token %d takes more memory", token);
        CHECK(view->data == another->data, "token %d has moved a view", token);
    }
    CHECK(dummy.counts.reset == 999, "the backend is notified %zu times", dummy.counts.reset);
    lastuse_context_free(ctx);
    lastuse_context_free(others);
}

CASE(emptied_context_takes_more_when_it_must) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * ctx = context_in(dummy_buft_type(&dummy));
    for (int token = 0; token < 1000; token++) {
        ggml_reset(ctx);
        size_t mask = ALIGNMENT * (size_t) (1000 + 100 * token);
        add_tensor(ctx, 64);
        add_tensor(ctx, mask);
        CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
        size_t needed = 64 + mask;
        CHECK(dummy.live_bytes <= needed + needed / 8 + 64 * KIB, "%zu bytes for %zu", dummy.live_bytes, needed);
        CHECK(dummy.live_buffers == 1, "%zu buffers", dummy.live_buffers);
    }
    CHECK(dummy.counts.alloc_buffer < 60, "%zu buffers were made", dummy.counts.alloc_buffer);
    lastuse_context_free(ctx);
}

// The program allocates its own tensor at the address of an earlier one: live bytes are never allocated twice.
CASE(live_tensors_are_not_overwritten) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * ctx   = context_in(dummy_buft_type(&dummy));
    struct ggml_tensor *  first = add_tensor(ctx, 1000);
    struct ggml_tensor *  kept  = add_tensor(ctx, 1000);
    CHECK(lastuse_context_realize(ctx), "%s", lastuse_last_error());
    set_pattern(kept, 7);
    first->data   = NULL;
    first->buffer = NULL;
    struct ggml_tensor * later = add_tensor(ctx, 3000);
    CHECK(lastuse_context_realize(ctx) && first->data != NULL && later->data != NULL, "%s", lastuse_last_error());
    set_pattern(first, 1);
    set_pattern(later, 2);
    check_pattern(kept, 7);
    lastuse_context_free(ctx);
}

// Realized by graphs

// out = (in + weight)^2
static struct ggml_cgraph * a_graph(struct ggml_context * graphs, struct ggml_tensor * in,
                                    struct ggml_tensor * weight) {
    struct ggml_cgraph * graph = ggml_new_graph(graphs);
    ggml_build_forward_expand(graph, ggml_sqr(graphs, ggml_add(graphs, in, weight)));
    return graph;
}

CASE(graph_that_reads_a_context_realizes_it) {
    for (int reserving = 0; reserving < 2; reserving++) {
        struct dummy_buft weights_type;
        struct dummy_buft compute_type;
        dummy_buft_init(&weights_type, "weights", ALIGNMENT, 0);
        dummy_buft_init(&compute_type, "compute", ALIGNMENT, 0);
        struct ggml_context * weights   = context_in(dummy_buft_type(&weights_type));
        struct ggml_context * unread    = context_in(dummy_buft_type(&weights_type));
        struct ggml_context * graphs    = new_context(LASTUSE_CONTEXT_DEFERRED);
        struct ggml_tensor *  weight    = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 16);
        struct ggml_tensor *  elsewhere = ggml_new_tensor_1d(unread, GGML_TYPE_F32, 16);
        struct ggml_tensor *  in        = ggml_new_tensor_1d(graphs, GGML_TYPE_F32, 16);
        ggml_set_input(in);
        struct ggml_cgraph * graph  = a_graph(graphs, in, weight);
        ggml_gallocr_t       galloc = ggml_gallocr_new(dummy_buft_type(&compute_type));
        if (reserving) {
            CHECK(ggml_gallocr_reserve(galloc, graph), "not reserved");
            CHECK(weight->data != NULL, "reserving gives it memory");
            CHECK(ggml_gallocr_get_buffer_size(galloc, 0) <= 128, "the weight is in the compute buffer");
        }
        CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
        CHECK(dummy_buft_contains(&weights_type, weight->data, 64), "the weight is not where its context puts it");
        CHECK(dummy_buft_contains(&compute_type, ggml_graph_node(graph, -1)->data, 64), "the result is elsewhere");
        CHECK(elsewhere->data == NULL, "that tensor was not requested");

        ggml_set_f32(in, 2.0f);
        ggml_set_f32(weight, 3.0f);
        ggml_backend_t backend = new_cpu(1);
        CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "not computed");
        CHECK(ggml_get_f32_1d(ggml_graph_node(graph, -1), 15) == 25.0f, "wrong result");
        CHECK(ggml_get_f32_1d(weight, 15) == 3.0f, "the weight was overwritten");
        ggml_backend_free(backend);
        ggml_gallocr_free(galloc);
        lastuse_context_free(graphs);
        lastuse_context_free(unread);
        lastuse_context_free(weights);
    }
}

CASE(measuring_allocates_nothing) {
    if (!lastuse_enabled()) {
        return; // ggml measures what it would put into the compute buffer
    }
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * weights = context_in(dummy_buft_type(&dummy));
    struct ggml_context * graphs  = new_context(LASTUSE_CONTEXT_DEFERRED);
    struct ggml_tensor *  weight  = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 1000);
    struct ggml_tensor *  row     = ggml_view_1d(weights, weight, 16, 64);
    struct ggml_tensor *  in      = ggml_new_tensor_1d(graphs, GGML_TYPE_F32, 16);
    struct ggml_cgraph *  graph   = a_graph(graphs, in, row);
    ggml_gallocr_t        galloc  = ggml_gallocr_new(dummy_buft_type(&dummy));
    size_t                size    = 0;
    ggml_gallocr_reserve_n_size(galloc, graph, NULL, NULL, &size);
    CHECK(weight->data == NULL && dummy.live_buffers == 0, "something was allocated");
    CHECK(ggml_gallocr_reserve(galloc, graph), "not reserved");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == size, "measured %zu", size);
    CHECK(size <= 128, "%zu bytes: the weight is in the compute buffer", size);
    CHECK(ggml_gallocr_alloc_graph(galloc, graph) && row->data == (char *) weight->data + 64, "the view is elsewhere");
    ggml_gallocr_free(galloc);
    lastuse_context_free(graphs);
    lastuse_context_free(weights);
}

// What a scheduler does: it sets the buffer of each tensor, whatever the context will do.
CASE(graph_must_expect_a_tensor_where_its_context_puts_it) {
    if (!lastuse_enabled()) {
        return; // nothing is checked
    }
    struct dummy_buft weights_type;
    struct dummy_buft other_type;
    dummy_buft_init(&weights_type, "weights", ALIGNMENT, 0);
    dummy_buft_init(&other_type, "other", ALIGNMENT, 0);
    ggml_backend_buffer_type_t types[2] = { dummy_buft_type(&weights_type), dummy_buft_type(&other_type) };
    struct ggml_context * weights = context_in(types[0]);
    struct ggml_context * graphs  = new_context(LASTUSE_CONTEXT_DEFERRED);
    struct ggml_tensor *  weight  = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 16);
    struct ggml_tensor *  in      = ggml_new_tensor_1d(graphs, GGML_TYPE_F32, 16);
    struct ggml_cgraph *  graph   = a_graph(graphs, weight, in); // the leafs in this order
    ggml_gallocr_t        galloc  = ggml_gallocr_new_n(types, 2);
    const int             nodes[2]    = { 1, 1 };
    const int             wrong[2]    = { 1, 1 };
    const int             expected[2] = { 0, 1 };
    struct log_capture    logged;
    log_capture_start(&logged);
    CHECK(!ggml_gallocr_reserve_n(galloc, graph, nodes, wrong), "the weight is expected elsewhere");
    log_capture_stop();
    CHECK(log_capture_has(&logged, "call lastuse_context_realize before"), "%s", logged.lines[0]);
    CHECK(weight->data == NULL, "the graph would not know");
    CHECK(!ggml_gallocr_alloc_graph(galloc, graph), "nothing is reserved");
    CHECK(ggml_gallocr_reserve_n(galloc, graph, nodes, expected), "the weight is where it is expected");
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    CHECK(dummy_buft_contains(&weights_type, weight->data, 64), "the weight is elsewhere");
    ggml_gallocr_free(galloc);

    struct ggml_tensor * more = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 16);
    CHECK(lastuse_context_realize(weights), "%s", lastuse_last_error());
    ggml_reset(graphs);
    in     = ggml_new_tensor_1d(graphs, GGML_TYPE_F32, 16);
    graph  = a_graph(graphs, more, in);
    galloc = ggml_gallocr_new_n(types, 2);
    CHECK(ggml_gallocr_reserve_n(galloc, graph, nodes, wrong), "a realized tensor is expected where it is");
    ggml_gallocr_free(galloc);
    lastuse_context_free(graphs);
    lastuse_context_free(weights);
}

CASE(scheduler_computes_with_realized_weights) {
    ggml_backend_t        backend = new_cpu(1);
    ggml_backend_sched_t  sched   = ggml_backend_sched_new(&backend, NULL, 1, 64, false, false);
    struct ggml_context * weights = context_in(ggml_backend_get_default_buffer_type(backend));
    struct ggml_context * inputs  = context_in(ggml_backend_get_default_buffer_type(backend));
    struct ggml_context * graphs  = new_context(LASTUSE_CONTEXT_DEFERRED);
    struct ggml_tensor *  weight  = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 16);
    CHECK(lastuse_context_realize(weights), "%s", lastuse_last_error());
    ggml_set_f32(weight, 3.0f);
    for (int token = 0; token < 20; token++) {
        ggml_reset(graphs);
        ggml_reset(inputs);
        // Not realized by the program: with one backend there is one buffer type only.
        struct ggml_tensor * in    = ggml_new_tensor_1d(inputs, GGML_TYPE_F32, 16);
        struct ggml_cgraph * graph = a_graph(graphs, in, weight);
        ggml_backend_sched_reset(sched);
        CHECK(ggml_backend_sched_alloc_graph(sched, graph), "not allocated");
        ggml_set_f32(in, (float) token);
        CHECK(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "not computed");
        float result = ggml_get_f32_1d(ggml_graph_node(graph, -1), 0);
        CHECK(result == (token + 3.0f) * (token + 3.0f), "token %d gives %g", token, result);
        CHECK(ggml_get_f32_1d(in, 0) == (float) token, "the input was overwritten");
    }
    lastuse_context_free(graphs);
    lastuse_context_free(inputs);
    lastuse_context_free(weights);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
}

CASE(without_memory_the_graph_is_refused) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct ggml_context * weights = context_in(dummy_buft_type(&dummy));
    struct ggml_context * graphs  = new_context(LASTUSE_CONTEXT_DEFERRED);
    struct ggml_tensor *  weight  = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 16);
    struct ggml_cgraph *  graph   = a_graph(graphs, ggml_new_tensor_1d(graphs, GGML_TYPE_F32, 16), weight);
    ggml_gallocr_t        galloc  = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    dummy.allocs_left             = 0;
    CHECK(!ggml_gallocr_reserve(galloc, graph) && !ggml_gallocr_alloc_graph(galloc, graph), "there is no memory");
    dummy.allocs_left = DUMMY_UNLIMITED;
    CHECK(ggml_gallocr_alloc_graph(galloc, graph) && weight->buffer != NULL, "there is memory");
    ggml_gallocr_free(galloc);
    lastuse_context_free(graphs);
    lastuse_context_free(weights);
}

// Contexts are made, realized by graphs and freed while other threads do the same.
static void * fill_and_free(void * arg) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    for (int i = 0; i < 300; i++) {
        struct ggml_context * weights = context_in(dummy_buft_type(&dummy));
        struct ggml_context * graphs  = new_context(LASTUSE_CONTEXT_DEFERRED);
        struct ggml_tensor *  weight  = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 16);
        struct ggml_cgraph *  graph   = a_graph(graphs, ggml_new_tensor_1d(graphs, GGML_TYPE_F32, 16), weight);
        CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
        CHECK(dummy_buft_contains(&dummy, weight->data, 64) && dummy.live_buffers == 1, "the weight is elsewhere");
        lastuse_context_free(graphs);
        lastuse_context_free(weights);
        CHECK(dummy.live_buffers == 0, "%zu buffers are left", dummy.live_buffers);
    }
    ggml_gallocr_free(galloc);
    return arg;
}

CASE(contexts_in_threads) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_create(&threads[i], NULL, fill_and_free, NULL) == 0, "no thread");
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
}
