// runs: ggml-0.26 ggml-0.9.5
//
// Tensors that are registered as retained, or named, hold their values after the run, until a node, and across plans.
//
//   retain_tensors <case>

#include "cases.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "reports.h"
#include "retained_chain.h"
#include "separate_backends.h"
#include "upstream.h"

#define WIDTH 1024

static const size_t ONE = WIDTH * sizeof(float);

static ggml_gallocr_t new_allocator(void) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(galloc != NULL, "no allocator");
    return galloc;
}

static void retain(ggml_gallocr_t galloc, struct ggml_tensor * t) {
    CHECK(lastuse_tensor_retain(galloc, t, NULL), "%s", lastuse_last_error());
}

static void retain_until(ggml_gallocr_t galloc, struct ggml_tensor * t, struct ggml_tensor * node) {
    CHECK(lastuse_tensor_retain(galloc, t, node), "%s", lastuse_last_error());
}

static void release(ggml_gallocr_t galloc, struct ggml_tensor * t) {
    CHECK(lastuse_tensor_release(galloc, t), "%s", lastuse_last_error());
}

// Allocates a graph, and returns the bytes that it uses.
static size_t allocate(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    CHECK(ggml_gallocr_alloc_graph(galloc, graph), "not allocated");
    return bytes_in_use(graph);
}

static void drop_memory(struct ggml_cgraph * graph) {
    for (int i = 0; i < graph->n_leafs + graph->n_nodes; i++) {
        struct ggml_tensor * t = i < graph->n_leafs ? graph->leafs[i] : graph->nodes[i - graph->n_leafs];
        t->data                = NULL;
        t->buffer              = NULL;
    }
}

static size_t allocate_again(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    drop_memory(graph);
    return allocate(galloc, graph);
}

static void check_held(const struct chain * chain, const char * expected) {
    for (int i = -1; i < CHAIN; i++) {
        bool holds = chain_holds(chain, i);
        CHECK(holds == (expected[i + 1] == '1'), "value %d is %s", i, holds ? "there" : "not there");
    }
}

static void check_error(bool ok, const char * part) {
    CHECK(!ok, "it should fail");
    CHECK(strstr(lastuse_last_error(), part) != NULL, "\"%s\" does not contain \"%s\"", lastuse_last_error(), part);
}

// Without retention all nodes are in one place; each retained value takes one more.
CASE(values_of_a_chain) {
    ggml_backend_t cpu    = new_cpu(1);
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = new_allocator();
    CHECK(allocate(galloc, chain.graph) == ONE, "the chain is in place");
    chain_compute(cpu, &chain, 0, CHAIN);
    check_held(&chain, "0000001");
    retain(galloc, chain.nodes[1]);
    retain(galloc, chain.nodes[3]);
    retain(galloc, chain.input);
    CHECK(allocate_again(galloc, chain.graph) == 4 * ONE, "three more");
    chain_compute(cpu, &chain, 0, CHAIN);
    check_held(&chain, "1010101");
    ggml_gallocr_free(galloc);
    chain_free(&chain);
    ggml_backend_free(cpu);
}

// The memory is used again after the node; the node that reads the value does not overwrite it.
CASE(until_a_node) {
    ggml_backend_t cpu = new_cpu(1);
    for (int end = 1; end < CHAIN; end++) {
        struct chain   chain  = chain_of(WIDTH);
        ggml_gallocr_t galloc = new_allocator();
        retain_until(galloc, chain.nodes[1], chain.nodes[end]);
        CHECK(allocate(galloc, chain.graph) == (end == 1 ? 1 : 2) * ONE, "%d", end);
        for (int i = 0; i < CHAIN; i++) {
            chain_compute(cpu, &chain, i, i + 1);
            CHECK(i < 1 || i > end || chain_holds(&chain, 1), "until node %d: lost at node %d", end, i);
        }
        CHECK(chain_holds(&chain, CHAIN - 1), "the result");
        ggml_gallocr_free(galloc);
        chain_free(&chain);
    }
    ggml_backend_free(cpu);
}

// Three large values, each read by the next: two at a time without retention.
CASE(until_a_node_takes_less_than_to_the_end) {
    struct ggml_context * ctx   = no_alloc_context(1 << 20);
    struct ggml_tensor *  input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64);
    ggml_set_input(input);
    struct ggml_tensor * t[5];
    struct ggml_tensor * last = input;
    for (int i = 0; i < 5; i++) {
        last = t[i] = ggml_mul_mat(ctx, last, last); // not in place
    }
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, last);
    ggml_gallocr_t galloc = new_allocator();
    size_t         none   = allocate(galloc, graph);
    retain_until(galloc, t[0], t[2]);
    size_t until = allocate_again(galloc, graph);
    retain(galloc, t[0]);
    retain(galloc, t[1]);
    size_t all = allocate_again(galloc, graph);
    CHECK(none < until && until < all, "%zu, %zu, %zu bytes", none, until, all);
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
}

CASE(through_views) {
    ggml_backend_t        cpu   = new_cpu(1);
    struct ggml_context * ctx   = no_alloc_context(1 << 20);
    struct ggml_tensor *  input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, WIDTH);
    ggml_set_input(input);
    struct ggml_tensor * root   = ggml_scale(ctx, input, 2.0f);
    struct ggml_tensor * rows   = ggml_reshape_2d(ctx, root, 32, WIDTH / 32);
    struct ggml_tensor * part   = ggml_view_2d(ctx, rows, 32, 4, rows->nb[1], 8 * rows->nb[1]);
    struct ggml_tensor * result = ggml_neg(ctx, ggml_sqr(ctx, ggml_cont(ctx, part)));
    struct ggml_cgraph * graph  = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sqr(ctx, ggml_neg(ctx, ggml_mul_mat(ctx, rows, ggml_repeat(ctx, result, rows)))));
    ggml_gallocr_t galloc = new_allocator();
    retain(galloc, part);
    allocate(galloc, graph);
    compute_with_values(cpu, graph, 3);
    float * truth = malloc(ONE);
    set_values(&(struct ggml_tensor){ .type = GGML_TYPE_F32, .ne = { WIDTH, 1, 1, 1 }, .nb = { 4, ONE, ONE, ONE },
                                      .data = truth }, 3 * 4096);
    for (int i = 0; i < 4 * 32; i++) {
        CHECK(((float *) part->data)[i] == 2.0f * truth[8 * 32 + i], "element %d of the view", i);
    }
    free(truth);
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
    ggml_backend_free(cpu);
}

// A registration is for every graph with the tensor; plans are remembered with their retained tensors.
CASE(across_plans) {
    ggml_backend_t cpu    = new_cpu(1);
    struct chain   small  = chain_of(WIDTH);
    struct chain   large  = chain_of(4 * WIDTH);
    ggml_gallocr_t galloc = new_allocator();
    retain(galloc, small.nodes[2]);
    retain(galloc, large.nodes[0]);
    for (int round = 0; round < 3; round++) {
        uint64_t plans = plans_made();
        CHECK(allocate_again(galloc, small.graph) >= 2 * ONE, "round %d", round);
        chain_compute(cpu, &small, 0, CHAIN);
        check_held(&small, "0001001");
        CHECK(allocate_again(galloc, large.graph) == 8 * ONE, "round %d", round);
        chain_compute(cpu, &large, 0, CHAIN);
        check_held(&large, "0100001");
        CHECK((plans_made() == plans) == (round > 0), "round %d: the plans are remembered", round);
    }
    ggml_gallocr_free(galloc);
    chain_free(&small);
    chain_free(&large);
    ggml_backend_free(cpu);
}

// No plan is used for another retention than its own, and none is made twice.
CASE(changes_of_registrations) {
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = new_allocator();
    uint64_t       plans  = plans_made();
    for (int round = 0; round < 3; round++) {
        CHECK(allocate_again(galloc, chain.graph) == ONE, "nothing is retained");
        retain(galloc, chain.nodes[2]);
        CHECK(allocate_again(galloc, chain.graph) == 2 * ONE, "one is retained");
        retain_until(galloc, chain.nodes[2], chain.nodes[2]);
        CHECK(allocate_again(galloc, chain.graph) == ONE, "until it has run");
        release(galloc, chain.nodes[2]);
        check_error(lastuse_tensor_release(galloc, chain.nodes[2]), "\"hidden-2\" is not retained by");
    }
    CHECK(plans_made() - plans == 3, "%llu plans", (unsigned long long) (plans_made() - plans));
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

// Registered before the graph is reserved, and measured with it.
CASE(reservations) {
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = new_allocator();
    retain(galloc, chain.nodes[2]);
    size_t size = 0;
    ggml_gallocr_reserve_n_size(galloc, chain.graph, NULL, NULL, &size);
    CHECK(size == 2 * ONE, "measured %zu", size);
    CHECK(ggml_gallocr_reserve(galloc, chain.graph), "not reserved");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == 2 * ONE, "%zu", ggml_gallocr_get_buffer_size(galloc, 0));
    uint64_t plans = plans_made();
    CHECK(allocate(galloc, chain.graph) == 2 * ONE && plans_made() == plans, "planned again");
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

// With several buffers a change needs a reservation, as every other change of a graph.
CASE(several_buffers) {
    struct dummy_buft dummies[2];
    dummy_buft_init(&dummies[0], "first", 32, 0);
    dummy_buft_init(&dummies[1], "second", 32, 0);
    ggml_backend_buffer_type_t types[2] = { dummy_buft_type(&dummies[0]), dummy_buft_type(&dummies[1]) };
    struct chain               chain    = chain_of(WIDTH);
    ggml_gallocr_t             galloc   = ggml_gallocr_new_n(types, 2);
    const int node_ids[CHAIN] = { 0, 1, 0, 1, 0, 1 };
    const int leaf_ids[1]     = { 0 };
    CHECK(ggml_gallocr_reserve_n(galloc, chain.graph, node_ids, leaf_ids), "not reserved");
    retain(galloc, chain.nodes[1]);
    CHECK(!ggml_gallocr_alloc_graph(galloc, chain.graph), "the plan retains nothing");
    CHECK(ggml_gallocr_reserve_n(galloc, chain.graph, node_ids, leaf_ids), "not reserved");
    CHECK(ggml_gallocr_alloc_graph(galloc, chain.graph), "not allocated");
    for (int i = 2; i < CHAIN; i++) {
        CHECK(chain.nodes[i]->data != chain.nodes[1]->data, "node %d is in the memory of a retained one", i);
    }
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

// A graph that is built again counts as the one that was registered; another tensor at its address does not.
CASE(rebuilt_in_the_same_memory) {
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = new_allocator();
    // Within the memory of a larger graph, all inputs would be kept.
    CHECK(lastuse_gallocr_set(galloc, "rules", "no-keep-inputs"), "%s", lastuse_last_error());
    retain(galloc, chain.nodes[2]);
    const struct ggml_tensor * address = chain.nodes[2];
    CHECK(allocate(galloc, chain.graph) == 2 * ONE, "retained");
    ggml_reset(chain.ctx);
    chain_build(&chain, WIDTH);
    CHECK(chain.nodes[2] == address && allocate(galloc, chain.graph) == 2 * ONE, "the same tensor");
    ggml_reset(chain.ctx);
    chain_build(&chain, 2 * WIDTH);
    CHECK(chain.nodes[2] == address && allocate(galloc, chain.graph) == 2 * ONE, "of other extents: not retained");
    ggml_reset(chain.ctx);
    chain_build(&chain, WIDTH);
    chain.nodes[2]->op = GGML_OP_SQR;
    CHECK(allocate(galloc, chain.graph) == ONE, "another operation: not retained");
    ggml_gallocr_free(galloc);
    chain_free(&chain);
}

// Ends that are in another graph, before the tensor, or no nodes at all.
CASE(unusual_ends) {
    struct chain   chain  = chain_of(WIDTH);
    struct chain   other  = chain_of(WIDTH);
    ggml_gallocr_t galloc = new_allocator();
    retain_until(galloc, chain.nodes[2], other.nodes[3]);
    CHECK(allocate(galloc, chain.graph) == 2 * ONE, "not in the graph: to the end");
    retain_until(galloc, chain.nodes[2], chain.nodes[0]);
    CHECK(allocate_again(galloc, chain.graph) == ONE, "before the tensor: not retained");
    check_error(lastuse_tensor_retain(galloc, chain.nodes[2], chain.input), "\"input\" is computed by no operation");
    CHECK(allocate_again(galloc, chain.graph) == ONE, "the call has changed nothing");
    retain(galloc, other.nodes[1]);
    CHECK(allocate_again(galloc, chain.graph) == ONE, "a tensor of no graph: no effect");
    ggml_gallocr_free(galloc);
    chain_free(&chain);
    chain_free(&other);
}

// A graph with an operation that writes into a retained tensor: its value is the last one written.
CASE(explicit_writes_stay) {
    ggml_backend_t        cpu   = new_cpu(1);
    struct ggml_context * ctx   = no_alloc_context(1 << 20);
    struct ggml_tensor *  input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, WIDTH);
    ggml_set_input(input);
    struct ggml_tensor * t       = ggml_neg(ctx, input);
    struct ggml_tensor * twice   = ggml_scale_inplace(ctx, t, 2.0f);
    struct ggml_cgraph * graph   = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_neg(ctx, ggml_sqr(ctx, twice)));
    ggml_gallocr_t galloc = new_allocator();
    retain(galloc, t);
    retain(galloc, input);
    allocate(galloc, graph);
    compute_with_values(cpu, graph, 5);
    for (int i = 0; i < WIDTH; i++) {
        CHECK(((float *) t->data)[i] == -2.0f * ((float *) input->data)[i], "element %d", i);
    }
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
    ggml_backend_free(cpu);
}

CASE(allocators_of_ggml) {
    struct chain   chain  = chain_of(WIDTH);
    ggml_gallocr_t galloc = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    check_error(lastuse_tensor_retain(galloc, chain.nodes[0], NULL), "lastuse_tensor_retain: ");
    check_error(lastuse_tensor_retain(galloc, chain.nodes[0], chain.nodes[1]), "lastuse_tensor_retain: ");
    check_error(lastuse_tensor_release(galloc, chain.nodes[0]), "lastuse_tensor_release: ");
    upstream_ggml_gallocr_free(galloc);
    chain_free(&chain);
}
