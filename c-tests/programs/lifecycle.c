// runs: ggml-0.26 sanitized
//
// One allocator and many graphs: what programs do with it from the first reserve to the last free.
// Most cases run the same body on lastuse and on upstream. Plans are validated by plan_check().
//
//   lifecycle <case>

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "plan_check.h"
#include "threads.h"
#include "transformer.h"
#include "upstream.h"

#include <pthread.h>

#define ALIGNMENT 64

static void alloc_and_check(const struct allocator_api * api, ggml_gallocr_t galloc, struct built built) {
    CHECK(api->alloc_graph(galloc, built.graph), "%s did not allocate the graph", api->name);
    CHECK_PLAN(built.graph, "%s", api->name);
}

// For cases that need one graph on one allocator.
static void check_one(const struct allocator_api * api, struct built built) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc = api->new(dummy_buft_type(&dummy));
    alloc_and_check(api, galloc, built);
    api->free(galloc);
    CHECK(dummy.live_buffers == 0, "%zu buffers leaked", dummy.live_buffers);
}

static bool has_memory(struct built built) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(built.ctx); t != NULL; t = ggml_get_next_tensor(built.ctx, t)) {
        if (t->data != NULL || t->buffer != NULL) {
            return true;
        }
    }
    return false;
}

// One graph after another

CASE_ON_BOTH(growing_and_shrinking_graphs) {
    static const int  tokens[] = { 4, 16, 2, 32, 8, 1, 64, 3 };
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc = api->new(dummy_buft_type(&dummy));
    size_t         size   = 0;
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        struct built built = transformer_new((struct shape){ .layers = 2, .tokens = tokens[i], .past = 5 });
        CHECK(api->reserve(galloc, built.graph), "not reserved");
        CHECK(!has_memory(built), "reserve changed the graph");
        alloc_and_check(api, galloc, built);
        size_t new_size = api->get_buffer_size(galloc, 0);
        CHECK(new_size >= size, "the buffer shrank from %zu to %zu bytes", size, new_size);
        CHECK(dummy.live_buffers == 1, "%zu buffers at once", dummy.live_buffers);
        size = new_size;
        built_free(built);
    }
    api->free(galloc);
    CHECK(dummy.live_buffers == 0, "%zu buffers leaked", dummy.live_buffers);
}

// The first prompt is the largest graph, so nothing that follows needs another buffer.
CASE_ON_BOTH(prompt_and_decode_alternate) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc = api->new(dummy_buft_type(&dummy));
    for (int round = 0; round < 6; round++) {
        int          past   = 10 - round;
        struct built prompt = transformer_new((struct shape){ .layers = 2, .tokens = 32 - round, .past = past });
        struct built decode = transformer_new((struct shape){ .layers = 2, .tokens = 1, .past = past + 1 });
        alloc_and_check(api, galloc, prompt);
        alloc_and_check(api, galloc, decode);
        built_free(prompt);
        built_free(decode);
    }
    CHECK(dummy.counts.alloc_buffer == 1, "%zu buffers were allocated", dummy.counts.alloc_buffer);
    api->free(galloc);
}

// Servers rely on this: one reserve for the worst case, and no allocation afterwards.
CASE_ON_BOTH(largest_plan_serves_smaller_graphs) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc  = api->new(dummy_buft_type(&dummy));
    struct built   largest = transformer_new((struct shape){ .layers = 3, .tokens = 32, .past = 96 });
    CHECK(api->reserve(galloc, largest.graph), "not reserved");
    size_t size = api->get_buffer_size(galloc, 0);
    for (int tokens = 32; tokens > 1; tokens -= 3) {
        struct built smaller = transformer_new((struct shape){ .layers = 3, .tokens = tokens, .past = 2 * tokens });
        alloc_and_check(api, galloc, smaller);
        built_free(smaller);
    }
    CHECK(dummy.counts.alloc_buffer == 1, "%zu buffers were allocated", dummy.counts.alloc_buffer);
    CHECK(api->get_buffer_size(galloc, 0) == size, "the buffer has another size");
    api->free(galloc);
    built_free(largest);
}

CASE_ON_BOTH(allocated_graph_is_left_alone) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc = api->new(dummy_buft_type(&dummy));
    struct built   built  = transformer_new((struct shape){ .layers = 1, .tokens = 8, .past = 0 });
    alloc_and_check(api, galloc, built);
    int     n_nodes = ggml_graph_n_nodes(built.graph);
    void ** before  = calloc((size_t) n_nodes, sizeof(void *));
    CHECK(before != NULL, "out of memory");
    for (int i = 0; i < n_nodes; i++) {
        before[i] = ggml_graph_node(built.graph, i)->data;
    }
    CHECK(api->alloc_graph(galloc, built.graph), "a graph with memory is not a failure");
    for (int i = 0; i < n_nodes; i++) {
        CHECK(ggml_graph_node(built.graph, i)->data == before[i], "node %d moved", i);
    }
    CHECK_PLAN(built.graph, "%s", api->name);
    CHECK(dummy.counts.alloc_buffer == 1, "%zu buffers were allocated", dummy.counts.alloc_buffer);

    struct built next = transformer_new((struct shape){ .layers = 1, .tokens = 8, .past = 0 });
    alloc_and_check(api, galloc, next);
    CHECK(dummy.counts.alloc_buffer == 1, "%zu buffers were allocated", dummy.counts.alloc_buffer);
    api->free(galloc);
    free(before);
    built_free(next);
    built_free(built);
}

// The last step reads four of eight rows, those behind the first `skip` ones.
static struct built built_with_offset(int skip) {
    struct built         b    = built_new(16, 16384);
    struct ggml_tensor * x    = project(b, new_input(b.ctx, WIDTH, 8), WIDTH);
    struct ggml_tensor * view = ggml_view_2d(b.ctx, x, WIDTH, 4, x->nb[1], (size_t) skip * x->nb[1]);
    struct ggml_tensor * out  = ggml_sqr(b.ctx, view);
    ggml_set_output(out);
    ggml_build_forward_expand(b.graph, out);
    return b;
}

// A plan may put the result over the viewed rows, but then only over the rows of this offset.
CASE_ON_BOTH(plan_does_not_outlive_a_views_offset) {
    struct built      first  = built_with_offset(0);
    struct built      second = built_with_offset(2);
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc = api->new(dummy_buft_type(&dummy));
    CHECK(api->reserve(galloc, first.graph), "not reserved");
    alloc_and_check(api, galloc, second);
    api->free(galloc);
    built_free(first);
    built_free(second);
}

// Several buffer types

// Layers are often split between two devices. Here every third node is on the second one.
static int * split_ids(struct built built) {
    int   n_nodes = ggml_graph_n_nodes(built.graph);
    int * ids     = calloc((size_t) n_nodes, sizeof(int));
    CHECK(ids != NULL, "out of memory");
    for (int i = 0; i < n_nodes; i++) {
        ids[i] = i % 3 == 2;
    }
    return ids;
}

// Without a plan, or with one for another topology, only the program knows the buffers of nodes.
CASE_ON_BOTH(several_types_need_a_reserve) {
    struct dummy_pair two;
    dummy_pair_init(&two, ALIGNMENT);
    struct built   prompt = transformer_new((struct shape){ .layers = 2, .tokens = 16, .past = 4 });
    struct built   decode = transformer_new((struct shape){ .layers = 2, .tokens = 1, .past = 20 });
    int *          ids    = split_ids(prompt);
    ggml_gallocr_t galloc = api->new_n(two.types, 2);

    CHECK(!api->alloc_graph(galloc, prompt.graph), "there is no plan yet");
    CHECK(!has_memory(prompt), "a refused graph was changed");
    CHECK(api->reserve_n(galloc, prompt.graph, ids, NULL), "not reserved");
    CHECK(!api->alloc_graph(galloc, decode.graph), "the plan is for another graph");
    CHECK(!has_memory(decode), "a refused graph was changed");
    alloc_and_check(api, galloc, prompt);
    const char * wrong = plan_check_buffer_types(prompt.graph, two.types, ids, NULL);
    CHECK(wrong == NULL, "%s: %s", api->name, wrong);

    api->free(galloc);
    free(ids);
    built_free(prompt);
    built_free(decode);
    CHECK(two.dummies[0].live_buffers + two.dummies[1].live_buffers == 0, "a buffer leaked");
}

// Three products; the last one reads the first or the second.
static struct built built_with_wiring(bool reads_first) {
    struct built         b   = built_new(16, 32768);
    struct ggml_tensor * x   = project(b, new_input(b.ctx, WIDTH, 8), WIDTH);
    struct ggml_tensor * y   = project(b, x, WIDTH);
    struct ggml_tensor * z   = project(b, y, WIDTH);
    struct ggml_tensor * out = ggml_concat(b.ctx, reads_first ? x : y, z, 0);
    ggml_set_output(out);
    ggml_build_forward_expand(b.graph, z);
    ggml_build_forward_expand(b.graph, out);
    return b;
}

// A plan for another wiring is refused, unless it happens to be valid for this one, too. (Upstream
// returns true in any case.)
CASE(several_types_refuse_a_stale_plan) {
    struct dummy_pair two;
    dummy_pair_init(&two, ALIGNMENT);
    struct built   first  = built_with_wiring(false);
    struct built   second = built_with_wiring(true);
    int            ids[4] = { 0, 0, 0, 1 };
    ggml_gallocr_t galloc = ggml_gallocr_new_n(two.types, 2);
    CHECK(ggml_gallocr_reserve_n(galloc, first.graph, ids, NULL), "not reserved");
    if (ggml_gallocr_alloc_graph(galloc, second.graph)) {
        CHECK_PLAN(second.graph, "%s", "on lastuse");
    } else {
        CHECK(!has_memory(second), "a refused graph was changed");
        CHECK(ggml_gallocr_reserve_n(galloc, second.graph, ids, NULL), "not reserved");
        alloc_and_check(&lastuse_api, galloc, second);
    }
    ggml_gallocr_free(galloc);
    built_free(first);
    built_free(second);
}

// A measured plan has no buffers yet. (Upstream crashes.)
CASE(measured_then_allocated) {
    struct dummy_pair two;
    dummy_pair_init(&two, ALIGNMENT);
    struct built   built    = transformer_new((struct shape){ .layers = 2, .tokens = 16, .past = 4 });
    int *          ids      = split_ids(built);
    size_t         sizes[2] = { 0, 0 };
    ggml_gallocr_t galloc   = ggml_gallocr_new_n(two.types, 2);
    ggml_gallocr_reserve_n_size(galloc, built.graph, ids, NULL, sizes);
    CHECK(sizes[0] > 0 && sizes[1] > 0, "both types have tensors");
    CHECK(two.dummies[0].counts.alloc_buffer == 0, "measuring allocates nothing");
    CHECK(!has_memory(built), "measuring changed the graph");
    if (ggml_gallocr_alloc_graph(galloc, built.graph)) {
        CHECK_PLAN(built.graph, "%s", "on lastuse");
    } else {
        CHECK(!has_memory(built), "a refused graph was changed");
        CHECK(ggml_gallocr_reserve_n(galloc, built.graph, ids, NULL), "not reserved");
        alloc_and_check(&lastuse_api, galloc, built);
    }
    for (int i = 0; i < 2; i++) {
        size_t size = ggml_gallocr_get_buffer_size(galloc, i);
        CHECK(size == sizes[i], "measured %zu bytes, allocated %zu", sizes[i], size);
    }
    ggml_gallocr_free(galloc);
    free(ids);
    built_free(built);
}

// Unusual graphs

CASE_ON_BOTH(freeing_null) {
    api->free(NULL);
}

CASE_ON_BOTH(empty_graph) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct built   empty  = built_new(16, 0);
    ggml_gallocr_t galloc = api->new(dummy_buft_type(&dummy));
    CHECK(api->get_buffer_size(galloc, 0) == 0, "nothing was reserved yet");
    CHECK(api->reserve(galloc, empty.graph), "an empty graph is not a failure");
    CHECK(api->alloc_graph(galloc, empty.graph), "an empty graph is not a failure");
    CHECK(api->get_buffer_size(galloc, 0) == 0, "an empty graph needs no memory");
    CHECK(dummy.counts.alloc_buffer == 0, "an empty graph needs no buffer");
    api->free(galloc);
    built_free(empty);
}

// Programs put leafs into a graph to have memory for them, whether or not a node reads them.
CASE_ON_BOTH(only_leafs) {
    struct built built = built_new(16, 0);
    for (int i = 1; i <= 10; i++) {
        ggml_build_forward_expand(built.graph, ggml_new_tensor_1d(built.ctx, GGML_TYPE_F32, i * 7));
    }
    check_one(api, built);
    built_free(built);
}

// A part of a graph may name sources that it does not list.
CASE_ON_BOTH(source_in_no_list) {
    struct built         built  = built_new(16, 0);
    struct ggml_tensor * source = ggml_new_tensor_1d(built.ctx, GGML_TYPE_F32, 100);
    struct ggml_tensor * last   = source;
    for (int i = 0; i < 8; i++) {
        last = ggml_add(built.ctx, ggml_sqr(built.ctx, last), source);
        ggml_graph_add_node(built.graph, last->src[0]);
        ggml_graph_add_node(built.graph, last);
    }
    check_one(api, built);
    CHECK(source->data != NULL, "a source in no list got no memory");
    built_free(built);
}

// Tensors without elements, as left over when a batch is empty.
CASE_ON_BOTH(zero_size_tensors) {
    struct built         built = built_new(32, 0);
    struct ggml_tensor * some  = new_input(built.ctx, WIDTH, 4);
    struct ggml_tensor * none  = new_input(built.ctx, WIDTH, 0);
    struct ggml_tensor * both  = ggml_concat(built.ctx, ggml_sqr(built.ctx, none), ggml_sqr(built.ctx, some), 1);
    struct ggml_tensor * view  = ggml_view_2d(built.ctx, both, WIDTH, 0, both->nb[1], 0);
    ggml_build_forward_expand(built.graph, ggml_sqr(built.ctx, view));
    ggml_build_forward_expand(built.graph, ggml_sqr(built.ctx, both));
    check_one(api, built);
    CHECK(none->buffer != NULL, "ggml asserts that tensors of a graph have a buffer");
    built_free(built);
}

CASE_ON_BOTH(large_graphs) {
    static const int layers[] = { 11, 170 };
    static const int least[]  = { 300, 5000 };
    for (int i = 0; i < 2; i++) {
        struct built built = transformer_new((struct shape){ .layers = layers[i], .tokens = 4, .past = 4 });
        int          nodes = ggml_graph_n_nodes(built.graph);
        CHECK(nodes > least[i], "the graph has only %d nodes", nodes);
        check_one(api, built);
        built_free(built);
    }
}

// Threads

#define N_THREADS    8
#define N_ITERATIONS 200

static pthread_mutex_t plan_check_lock = PTHREAD_MUTEX_INITIALIZER; // plan_check() returns static text

// Allocators share nothing, so each thread may use its own.
static void * work(void * argument) {
    int               number = *(const int *) argument;
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, (size_t) number * 4096); // several chunks in most threads
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    for (int i = 0; i < N_ITERATIONS; i++) {
        struct built built =
            transformer_new((struct shape){ .layers = 1, .tokens = 1 + (i * 7 + number) % 16, .past = i % 50 });
        CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
        pthread_mutex_lock(&plan_check_lock);
        CHECK_PLAN(built.graph, "%s", "on lastuse");
        pthread_mutex_unlock(&plan_check_lock);
        built_free(built);
    }
    ggml_gallocr_free(galloc);
    CHECK(dummy.live_buffers == 0, "%zu buffers leaked", dummy.live_buffers);
    return NULL;
}

CASE(allocators_in_threads) {
    int numbers[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
    }
    in_threads(N_THREADS, work, numbers, sizeof(*numbers));
}
