// runs: ggml-0.26 ggml-0.9.5 ggml-0.28
// Compute buffers of freed allocators wait for the next ones, within limits of bytes and seconds.

#include <unistd.h>

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "threads.h"

#define MIB ((int64_t) 1024 * 1024)

static void recycle(const char * limit) {
    CHECK(lastuse_set("recycle", limit), "%s", lastuse_last_error());
}

static enum ggml_backend_dev_type is_cpu(ggml_backend_dev_t device) {
    (void) device;
    return GGML_BACKEND_DEVICE_TYPE_CPU;
}

static struct ggml_backend_device device = { .iface = { .get_type = is_cpu } };

// A buffer type with a device, as all have that outlive their buffers.
static void init_type(struct dummy_buft * dummy) {
    dummy_buft_init(dummy, "counting", 64, 0);
    dummy->type.device = &device;
}

// Allocates a graph with that many bytes in a new allocator, and frees it.
static void allocate(ggml_backend_buffer_type_t type, int64_t bytes) {
    struct ggml_context * ctx   = no_alloc_context(ggml_graph_overhead() + 4 * ggml_tensor_overhead());
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    struct ggml_tensor *  input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, bytes / 4);
    ggml_set_input(input);
    ggml_build_forward_expand(graph, ggml_relu_inplace(ctx, input));
    ggml_gallocr_t galloc = ggml_gallocr_new(type);
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) >= (size_t) bytes, "the buffer is too small");
    memset(input->data, 7, (size_t) bytes);
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}

CASE(nothing_waits_unless_asked_for) {
    struct dummy_buft dummy;
    init_type(&dummy);
    for (int i = 0; i < 20; i++) {
        allocate(dummy_buft_type(&dummy), MIB);
        CHECK(dummy.live_bytes == 0, "%zu bytes are held", dummy.live_bytes);
    }
    CHECK(dummy.counts.alloc_buffer == 20, "asked %zu times", dummy.counts.alloc_buffer);
}

CASE(one_buffer_serves_allocators_in_turn) {
    struct dummy_buft dummy;
    init_type(&dummy);
    recycle("4MiB");
    for (int i = 0; i < 20; i++) {
        allocate(dummy_buft_type(&dummy), MIB);
    }
    CHECK(dummy.counts.alloc_buffer == 1 && dummy.live_buffers == 1, "asked %zu times", dummy.counts.alloc_buffer);
    // Smaller ones take it, unless it is more than twice as large.
    allocate(dummy_buft_type(&dummy), MIB / 2);
    CHECK(dummy.counts.alloc_buffer == 1, "asked %zu times", dummy.counts.alloc_buffer);
    allocate(dummy_buft_type(&dummy), MIB / 2 - 64);
    CHECK(dummy.counts.alloc_buffer == 2, "asked %zu times", dummy.counts.alloc_buffer);
    recycle("off");
    CHECK(dummy.live_bytes == 0, "%zu bytes are held", dummy.live_bytes);
}

CASE(no_more_waits_than_the_limit) {
    struct dummy_buft dummy;
    init_type(&dummy);
    recycle("4MiB");
    for (int64_t size = 1; size <= 3; size++) {
        allocate(dummy_buft_type(&dummy), size * size * MIB / 2);
        CHECK(dummy.live_bytes <= (size_t) (4 * MIB), "%zu bytes wait", dummy.live_bytes);
    }
    // The oldest had to go, and what is larger than the limit.
    CHECK(dummy.live_buffers == 0, "%zu buffers wait", dummy.live_buffers);
    allocate(dummy_buft_type(&dummy), 3 * MIB);
    allocate(dummy_buft_type(&dummy), MIB);
    CHECK(dummy.live_buffers == 2, "%zu buffers wait", dummy.live_buffers);
    CHECK(lastuse_gallocr_trim(NULL), "%s", lastuse_last_error());
    CHECK(dummy.live_bytes == 0, "%zu bytes are held", dummy.live_bytes);
    allocate(dummy_buft_type(&dummy), MIB);
    CHECK(dummy.live_buffers == 1, "%zu buffers wait", dummy.live_buffers);
    recycle("");
    CHECK(dummy.live_bytes == 0, "%zu bytes are held", dummy.live_bytes);
}

CASE(buffers_wait_for_a_time) {
    struct dummy_buft dummy;
    init_type(&dummy);
    recycle("4MiB,0");
    allocate(dummy_buft_type(&dummy), MIB);
    usleep(2000);
    // The next call that takes or frees a buffer looks.
    allocate(ggml_backend_cpu_buffer_type(), MIB);
    CHECK(dummy.live_bytes == 0, "%zu bytes are held", dummy.live_bytes);
    recycle("off");
}

CASE(memory_that_is_short_is_not_waiting) {
    struct dummy_buft dummy;
    init_type(&dummy);
    recycle("64MiB");
    allocate(dummy_buft_type(&dummy), 3 * MIB);
    dummy.byte_cap = (size_t) (4 * MIB);
    allocate(dummy_buft_type(&dummy), MIB + MIB / 4);
    CHECK(dummy.live_bytes < (size_t) (2 * MIB), "%zu bytes wait", dummy.live_bytes);
    // Also for the tensors of a context.
    struct ggml_context * ctx = no_alloc_context(2 * ggml_tensor_overhead());
    ggml_new_tensor_1d(ctx, GGML_TYPE_I8, 3 * MIB);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, dummy_buft_type(&dummy));
    CHECK(buffer != NULL, "not allocated");
    CHECK(dummy.live_buffers == 1, "%zu buffers", dummy.live_buffers);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    recycle("off");
}

// Programs may free their own types with the last buffer.
CASE(types_of_the_program_have_their_buffers_freed) {
    struct dummy_buft dummy;
    init_type(&dummy);
    dummy.type.device = NULL;
    recycle("64MiB");
    allocate(dummy_buft_type(&dummy), MIB);
    CHECK(dummy.live_bytes == 0, "%zu bytes are held", dummy.live_bytes);
    recycle("off");
}

static void * allocate_often(void * number) {
    for (int64_t i = 0; i < 50; i++) {
        allocate(ggml_backend_cpu_buffer_type(), (1 + (i + *(int *) number) % 3) * MIB / 4);
    }
    return NULL;
}

CASE(buffers_go_from_thread_to_thread) {
    recycle("2MiB");
    int numbers[4] = { 0, 1, 2, 3 };
    in_threads(4, allocate_often, numbers, sizeof(*numbers));
    recycle("off");
}

CASE(malformed_limits_are_refused) {
    CHECK(!lastuse_set("recycle", "much"), "accepted");
    CHECK(strstr(lastuse_last_error(), "recycle: \"much\" is not a limit") != NULL, "%s", lastuse_last_error());
}
