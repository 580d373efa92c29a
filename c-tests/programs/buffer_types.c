// runs: ggml-0.26 sanitized
//
// How an allocator uses its buffer types: which requests it makes, in which order, and what it does when they fail.
// Most cases run the same body on lastuse and on upstream.
//
//   buffer_types <case>

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "reports.h"
#include "upstream.h"

#define WIDTH       64                      // floats in a tensor
#define BYTES       (WIDTH * sizeof(float)) // of a tensor; a multiple of ALIGNMENT
#define ALIGNMENT   64
#define MAX_RESULTS 64

// A graph in which nothing is ever free, so that every valid plan needs the same bytes: one input and
// `count` results, results[i] = input * (i + 1), all of them outputs.
struct all_live {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  input;
    struct ggml_tensor *  results[MAX_RESULTS];
    int                   count;
};

static struct all_live all_live_new(int count) {
    CHECK(count <= MAX_RESULTS, "%d results are too many", count);
    struct all_live live = { .ctx = no_alloc_context(1024 * 1024), .count = count };
    live.graph           = ggml_new_graph(live.ctx);
    live.input           = ggml_new_tensor_1d(live.ctx, GGML_TYPE_F32, WIDTH);
    ggml_set_input(live.input);
    ggml_set_output(live.input);
    for (int i = 0; i < count; i++) {
        live.results[i] = ggml_scale(live.ctx, live.input, (float) (i + 1));
        ggml_set_output(live.results[i]);
        ggml_build_forward_expand(live.graph, live.results[i]);
    }
    return live;
}

static size_t all_live_bytes(const struct all_live * live) {
    return (size_t) (live->count + 1) * BYTES;
}

// Computes the allocated graph and compares its results.
static void check_computes(const struct all_live * live) {
    for (int i = 0; i < WIDTH; i++) {
        ((float *) live->input->data)[i] = (float) i;
    }
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, 1);
    CHECK(ggml_backend_graph_compute(backend, live->graph) == GGML_STATUS_SUCCESS, "the graph was not computed");
    ggml_backend_free(backend);
    for (int r = 0; r < live->count; r++) {
        for (int i = 0; i < WIDTH; i++) {
            float value = ((const float *) live->results[r]->data)[i];
            CHECK(value == (float) (i * (r + 1)), "result %d holds %g at %d", r, (double) value, i);
        }
    }
}

static void check_no_leak(const struct dummy_buft * dummy) {
    CHECK(dummy->live_buffers == 0, "%zu buffers of %s leaked", dummy->live_buffers, dummy->name);
}

// Failed allocations

// Lets every allocation fail in turn, first the first, then the second, until none fails. After each
// failure the same allocator gets its memory and computes.
static void fail_everywhere(const struct allocator_api * api, struct dummy_buft * dummies, int n_dummies,
                            const int * node_ids, size_t n_failures) {
    ggml_backend_buffer_type_t types[2] = { dummy_buft_type(&dummies[0]), dummy_buft_type(&dummies[n_dummies - 1]) };
    for (size_t failure = 0; failure < n_failures; failure++) {
        // Type 1 comes after all allocations of type 0.
        size_t of_first        = n_dummies == 1 ? n_failures : n_failures / 2;
        dummies[0].allocs_left = failure < of_first ? (long) failure : DUMMY_UNLIMITED;
        if (n_dummies == 2) {
            dummies[1].allocs_left = failure < of_first ? DUMMY_UNLIMITED : (long) (failure - of_first);
        }
        struct all_live live   = all_live_new(7);
        ggml_gallocr_t  galloc = api->new_n(types, n_dummies);
        CHECK(!api->reserve_n(galloc, live.graph, node_ids, NULL), "allocation %zu must fail", failure);
        for (int i = 0; i < n_dummies; i++) {
            dummies[i].allocs_left = DUMMY_UNLIMITED;
        }
        CHECK(api->reserve_n(galloc, live.graph, node_ids, NULL), "nothing fails after failure %zu", failure);
        CHECK(api->alloc_graph(galloc, live.graph), "the plan is new");
        check_computes(&live);
        api->free(galloc);
        ggml_free(live.ctx);
        for (int i = 0; i < n_dummies; i++) {
            check_no_leak(&dummies[i]);
        }
    }
}

CASE_ON_BOTH(every_failure_in_one_chunk) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    fail_everywhere(api, &dummy, 1, NULL, 1);
}

CASE_ON_BOTH(every_failure_in_several_chunks) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 2 * BYTES);
    fail_everywhere(api, &dummy, 1, NULL, 4); // 8 tensors in chunks of 2
}

CASE_ON_BOTH(every_failure_in_two_types) {
    static const int  node_ids[7] = { 0, 1, 0, 1, 0, 1, 1 };
    struct dummy_buft dummies[2];
    dummy_buft_init(&dummies[0], "first", ALIGNMENT, 2 * BYTES);
    dummy_buft_init(&dummies[1], "second", ALIGNMENT, 2 * BYTES);
    fail_everywhere(api, dummies, 2, node_ids, 4); // 4 tensors each: the input is in type 0
}

// The log of a failed reserve. `max_size` decides about the number of chunks.
static void log_failed_reserve(const struct allocator_api * api, size_t max_size, struct log_capture * capture) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "a named type", ALIGNMENT, max_size);
    dummy.allocs_left      = max_size == 0 ? 0 : 2; // the last of several chunks fails
    struct all_live live   = all_live_new(9);
    ggml_gallocr_t  galloc = api->new(dummy_buft_type(&dummy));

    log_capture_start(capture);
    CHECK(!api->reserve(galloc, live.graph), "there is not enough memory");
    log_capture_stop();
    if (api == &lastuse_api) {
        size_t reported = plan_size_of(galloc, 0);
        CHECK(reported == all_live_bytes(&live), "%zu bytes are reported", reported);
    }
    api->free(galloc);
    ggml_free(live.ctx);
    check_no_leak(&dummy);
}

// Programs look for this line: it names the type and the size of all its chunks together.
CASE(failure_is_logged_like_upstream) {
    static const size_t       max_sizes[] = { 0, 4 * BYTES }; // one chunk, and 10 tensors in three
    static struct log_capture ours;
    static struct log_capture theirs;
    char                      expected[LOG_CAPTURE_LENGTH];
    snprintf(expected, sizeof(expected), "failed to allocate a named type buffer of size %zu\n", 10 * BYTES);
    for (int i = 0; i < 2; i++) {
        log_failed_reserve(&lastuse_api, max_sizes[i], &ours);
        log_failed_reserve(&upstream_api, max_sizes[i], &theirs);
        CHECK(log_capture_same(&ours, &theirs), "lastuse logs other lines than upstream");
        int          index = 0;
        const char * line  = log_capture_next(&ours, &index, "failed to allocate");
        CHECK(line != NULL, "the failure was not logged");
        CHECK(strcmp(log_message(line), expected) == 0, "logged: %s", line);
        CHECK(strncmp(line, "ggml_gallocr_reserve_n", 22) == 0, "logged: %s", line);
    }
}

// A larger graph does not fit: the smaller one that was there before must still run.
CASE_ON_BOTH(failed_growth_leaves_a_usable_allocator) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    dummy.byte_cap         = 20 * BYTES;
    struct all_live small  = all_live_new(5);
    struct all_live large  = all_live_new(40);
    ggml_gallocr_t  galloc = api->new(dummy_buft_type(&dummy));
    CHECK(api->reserve(galloc, small.graph), "6 tensors fit");
    CHECK(!api->reserve(galloc, large.graph), "41 tensors do not fit");
    CHECK(api->alloc_graph(galloc, small.graph), "6 tensors still fit");
    check_computes(&small);
    api->free(galloc);
    ggml_free(small.ctx);
    ggml_free(large.ctx);
    check_no_leak(&dummy);
}

// The required size is reported while there is no memory, and afterwards.
CASE(wanted_size_per_type) {
    static const int  node_ids[5] = { 0, 1, 1, 1, 1 };
    struct dummy_buft dummies[2];
    dummy_buft_init(&dummies[0], "first", ALIGNMENT, 0);
    dummy_buft_init(&dummies[1], "second", ALIGNMENT, 0);
    ggml_backend_buffer_type_t types[2] = { dummy_buft_type(&dummies[0]), dummy_buft_type(&dummies[1]) };
    struct all_live            live     = all_live_new(5);
    ggml_gallocr_t             galloc   = ggml_gallocr_new_n(types, 2);
    for (long left = 0; left < 2; left++) {
        dummies[1].allocs_left = left;
        CHECK(ggml_gallocr_reserve_n(galloc, live.graph, node_ids, NULL) == (left == 1), "%ld allocations", left);
        CHECK(plan_size_of(galloc, 0) == 2 * BYTES, "an input and a result are in type 0");
        CHECK(plan_size_of(galloc, 1) == 4 * BYTES, "4 results are in type 1");
        size_t had = ggml_gallocr_get_buffer_size(galloc, 1);
        CHECK(had == (left == 1 ? 4 * BYTES : 0), "type 1 has %zu bytes", had);
    }
    ggml_gallocr_free(galloc);
    ggml_free(live.ctx);
    check_no_leak(&dummies[0]);
    check_no_leak(&dummies[1]);
}

// A tensor that its backend could not prepare is not usable. (Upstream returns true.)
CASE(failed_init_tensor_is_not_success) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    for (long left = 0; left <= 6; left++) {
        struct all_live live = all_live_new(5);
        dummy.inits_left     = left;
        CHECK(ggml_gallocr_alloc_graph(galloc, live.graph) == (left == 6), "%ld of 6 tensors can be prepared", left);
        if (left == 6) {
            check_computes(&live);
        }
        ggml_free(live.ctx);
    }
    ggml_gallocr_free(galloc);
    check_no_leak(&dummy);
}

// Requests to buffer types

// Old and new buffer together would be over the cap.
CASE_ON_BOTH(old_buffer_is_freed_first) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct all_live small  = all_live_new(5);
    struct all_live large  = all_live_new(9);
    dummy.byte_cap         = all_live_bytes(&large);
    ggml_gallocr_t  galloc = api->new(dummy_buft_type(&dummy));
    CHECK(api->reserve(galloc, small.graph), "6 tensors fit");
    CHECK(api->reserve(galloc, large.graph), "10 tensors fit alone");
    CHECK(api->alloc_graph(galloc, large.graph), "the plan is new");
    check_computes(&large);
    api->free(galloc);
    ggml_free(small.ctx);
    ggml_free(large.ctx);
    check_no_leak(&dummy);
}

// Three chunks: each has its usage set, and each is reset once for each graph that is allocated.
CASE_ON_BOTH(chunks_are_prepared_and_reset) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 2 * BYTES);
    struct all_live first  = all_live_new(5);
    struct all_live second = all_live_new(5);
    ggml_gallocr_t  galloc = api->new(dummy_buft_type(&dummy));
    CHECK(api->reserve(galloc, first.graph), "not reserved");
    CHECK(dummy.live_buffers == 3, "6 tensors, 2 a chunk, and %zu chunks", dummy.live_buffers);
    CHECK(dummy_buft_all_have_usage(&dummy, GGML_BACKEND_BUFFER_USAGE_COMPUTE), "a chunk is not for computing");
    size_t size = api->get_buffer_size(galloc, 0);
    CHECK(size == all_live_bytes(&first), "the size of all chunks is %zu", size);
    CHECK(dummy.counts.reset == 0, "reserve resets nothing");

    CHECK(api->alloc_graph(galloc, first.graph), "the plan is new");
    CHECK(dummy.counts.reset == 3, "%zu resets for 3 chunks", dummy.counts.reset);
    CHECK(api->alloc_graph(galloc, second.graph), "the plan fits");
    CHECK(dummy.counts.reset == 6, "%zu resets for 3 chunks and 2 graphs", dummy.counts.reset);
    CHECK(dummy.counts.alloc_buffer == 3, "%zu allocations for 3 chunks", dummy.counts.alloc_buffer);
    check_computes(&second);
    api->free(galloc);
    ggml_free(first.ctx);
    ggml_free(second.ctx);
    check_no_leak(&dummy);
}

CASE_ON_BOTH(unused_type_is_not_called) {
    static const int  all_in_1[6] = { 1, 1, 1, 1, 1, 1 };
    struct dummy_buft dummies[2];
    dummy_buft_init(&dummies[0], "unused", ALIGNMENT, 0);
    dummy_buft_init(&dummies[1], "used", ALIGNMENT, 0);
    ggml_backend_buffer_type_t types[2] = { dummy_buft_type(&dummies[0]), dummy_buft_type(&dummies[1]) };
    struct all_live            live     = all_live_new(5);
    ggml_gallocr_t             galloc   = api->new_n(types, 2);
    CHECK(api->reserve_n(galloc, live.graph, all_in_1, all_in_1), "not reserved");
    CHECK(api->alloc_graph(galloc, live.graph), "the plan is new");
    CHECK(dummies[0].counts.alloc_buffer == 0, "a buffer of a type without tensors was requested");
    CHECK(api->get_buffer_size(galloc, 0) == 0, "a type without tensors has memory");
    CHECK(api->get_buffer_size(galloc, 1) == all_live_bytes(&live), "the other type has all");
    check_computes(&live);
    api->free(galloc);
    ggml_free(live.ctx);
    check_no_leak(&dummies[1]);
}

// Ids 0 and 2 are one type, and so one buffer: the sizes before reserving name it twice, the sizes
// afterwards once.
CASE_ON_BOTH(repeated_type_is_counted_once) {
    static const int  node_ids[5] = { 0, 1, 2, 1, 2 };
    struct dummy_buft dummies[2];
    dummy_buft_init(&dummies[0], "twice", ALIGNMENT, 0);
    dummy_buft_init(&dummies[1], "once", ALIGNMENT, 0);
    ggml_backend_buffer_type_t types[3] = { dummy_buft_type(&dummies[0]), dummy_buft_type(&dummies[1]),
                                            dummy_buft_type(&dummies[0]) };
    struct all_live            live     = all_live_new(5);
    ggml_gallocr_t             galloc   = api->new_n(types, 3);

    size_t sizes[3] = { 0, 0, 0 };
    api->reserve_n_size(galloc, live.graph, node_ids, NULL, sizes);
    CHECK(sizes[0] == 4 * BYTES && sizes[1] == 2 * BYTES && sizes[2] == 4 * BYTES, "sizes are %zu, %zu and %zu",
          sizes[0], sizes[1], sizes[2]);
    CHECK(dummies[0].counts.alloc_buffer == 0, "measuring allocates nothing");

    CHECK(api->reserve_n(galloc, live.graph, node_ids, NULL), "not reserved");
    CHECK(api->get_buffer_size(galloc, 0) == 4 * BYTES, "id 0 has the buffer");
    CHECK(api->get_buffer_size(galloc, 1) == 2 * BYTES, "id 1 has its own");
    CHECK(api->get_buffer_size(galloc, 2) == 0, "id 2 repeats id 0");
    CHECK(dummies[0].live_buffers == 1, "one type, one buffer");
    CHECK(api->alloc_graph(galloc, live.graph), "the plan is new");
    check_computes(&live);
    api->free(galloc);
    ggml_free(live.ctx);
    check_no_leak(&dummies[0]);
    check_no_leak(&dummies[1]);
}

// The maximum is half a tensor: each tensor gets its own chunk size.
CASE_ON_BOTH(oversized_tensor_gets_its_own_chunk) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, BYTES / 2);
    struct all_live live   = all_live_new(3);
    ggml_gallocr_t  galloc = api->new(dummy_buft_type(&dummy));
    CHECK(api->reserve(galloc, live.graph), "not reserved");
    CHECK(dummy.live_buffers == 4, "%zu chunks for 4 tensors", dummy.live_buffers);
    for (size_t i = 0; i < dummy.live_buffers; i++) {
        size_t size = ggml_backend_buffer_get_size(dummy_buft_live(&dummy, i));
        CHECK(size == BYTES, "chunk %zu has %zu bytes", i, size);
    }
    CHECK(api->alloc_graph(galloc, live.graph), "the plan is new");
    check_computes(&live);
    api->free(galloc);
    ggml_free(live.ctx);
    check_no_leak(&dummy);
}

// 41 tensors, one fits into a chunk: 15 do, the 16th chunk takes the rest.
CASE_ON_BOTH(sixteen_chunks_at_most) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, BYTES);
    struct all_live live   = all_live_new(40);
    ggml_gallocr_t  galloc = api->new(dummy_buft_type(&dummy));
    CHECK(api->reserve(galloc, live.graph), "not reserved");
    CHECK(dummy.live_buffers == 16, "%zu chunks", dummy.live_buffers);
    CHECK(dummy.live_bytes == all_live_bytes(&live), "%zu bytes", dummy.live_bytes);
    CHECK(dummy.last_requested == 26 * BYTES, "the last chunk has %zu bytes", dummy.last_requested);
    CHECK(api->alloc_graph(galloc, live.graph), "the plan is new");
    check_computes(&live);
    api->free(galloc);
    ggml_free(live.ctx);
    check_no_leak(&dummy);
}

// Over RPC each query is a round trip. (Upstream queries several times.)
CASE(sizes_are_queried_once) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct all_live live   = all_live_new(30);
    ggml_gallocr_t  galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    CHECK(ggml_gallocr_reserve(galloc, live.graph), "not reserved");
    CHECK(dummy.counts.get_alloc_size <= 31, "%zu questions about 31 tensors", dummy.counts.get_alloc_size);
    ggml_gallocr_free(galloc);
    ggml_free(live.ctx);
}

// The bytes of a tensor

static size_t extra_for_leafs(const struct ggml_tensor * tensor) {
    return tensor->op == GGML_OP_NONE ? 1000 : 0;
}

// Whether any of the graph's tensors overlap; each takes its alloc size. All are live to the end.
static void check_apart(struct dummy_buft * dummy, struct ggml_context * ctx) {
    ggml_backend_buffer_type_t type = dummy_buft_type(dummy);
    for (struct ggml_tensor * a = ggml_get_first_tensor(ctx); a != NULL; a = ggml_get_next_tensor(ctx, a)) {
        size_t size = ggml_backend_buft_get_alloc_size(type, a);
        CHECK(dummy_buft_contains(dummy, a->data, size), "a tensor of %zu bytes is outside every buffer", size);
        CHECK((uintptr_t) a->data % dummy->alignment == 0, "a tensor is not aligned to %zu", dummy->alignment);
        for (struct ggml_tensor * b = ggml_get_next_tensor(ctx, a); b != NULL; b = ggml_get_next_tensor(ctx, b)) {
            const char * start_a = a->data;
            const char * start_b = b->data;
            size_t       size_b  = ggml_backend_buft_get_alloc_size(type, b);
            CHECK(start_a + size <= start_b || start_b + size_b <= start_a, "two tensors overlap");
        }
    }
}

static void place_tensors(const struct allocator_api * api, size_t alignment,
                          size_t (*extra)(const struct ggml_tensor *)) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", alignment, 5 * BYTES);
    dummy.extra_bytes      = extra;
    struct all_live live   = all_live_new(9);
    ggml_gallocr_t  galloc = api->new(dummy_buft_type(&dummy));
    CHECK(api->alloc_graph(galloc, live.graph), "not allocated");
    check_apart(&dummy, live.ctx);
    check_computes(&live);
    api->free(galloc);
    ggml_free(live.ctx);
    check_no_leak(&dummy);
}

CASE_ON_BOTH(extra_bytes_are_kept_free) {
    place_tensors(api, ALIGNMENT, extra_for_leafs);
}

CASE_ON_BOTH(every_alignment_is_kept) {
    for (size_t alignment = 4; alignment <= 4096; alignment *= 4) {
        place_tensors(api, alignment, NULL);
    }
}
