// runs: ggml-0.26 sanitized
//
// Plans that an allocator remembers: a graph that matches a cached plan is not planned again, one that is only
// similar is.
//
//   remembered <case> [first seed] [number of seeds]

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "graph_fields.h"
#include "lastuse.h"
#include "plan_check.h"
#include "random_graph.h"
#include "reports.h"
#include "splitmix.h"
#include "transformer.h"

#define ALIGNMENT  64
#define REMEMBERED 16 // plans of one allocator, at least
#define LARGE      24 // layers: at most twice that many plans of such graphs are remembered

struct need {
    size_t size;
    size_t lower_bound;
};

// The size and lower bound of a graph in its own allocator.
static struct need need_of(struct ggml_cgraph * graph) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "own", ALIGNMENT, 0);
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    CHECK(ggml_gallocr_reserve(galloc, graph), "not reserved");
    struct need need = { plan_size_of(galloc, 0), lower_bound_of(galloc, 0) };
    ggml_gallocr_free(galloc);
    return need;
}

// Repeated graphs

static const struct shape SHAPES[] = {
    { .layers = 2, .tokens = 32, .past = 0 }, { .layers = 2, .tokens = 1, .past = 32 },
    { .layers = 2, .tokens = 7, .past = 5 },  { .layers = 2, .tokens = 3, .past = 60 },
    { .layers = 2, .tokens = 20, .past = 9 },
};

#define N_SHAPES (int) (sizeof(SHAPES) / sizeof(SHAPES[0]))

// Reserves the first `count` graphs in turn.
static void reserve_in_turn(int count) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct built   built[N_SHAPES];
    struct need    needs[N_SHAPES];
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    size_t         size   = 0;
    for (int i = 0; i < count; i++) {
        built[i] = transformer_new(SHAPES[i]);
        needs[i] = need_of(built[i].graph);
    }
    uint64_t plans = plans_made();
    for (int round = 0; round < 4 * count; round++) {
        int i = round % count;
        CHECK(ggml_gallocr_reserve(galloc, built[i].graph), "not reserved");
        CHECK(plan_size_of(galloc, 0) == needs[i].size, "the size is that of another graph");
        CHECK(lower_bound_of(galloc, 0) == needs[i].lower_bound, "the bound is that of another graph");
        CHECK(ggml_gallocr_get_buffer_size(galloc, 0) >= size, "the buffer has shrunk");
        size = ggml_gallocr_get_buffer_size(galloc, 0);
    }
    plans = plans_made() - plans;
    CHECK(plans == (uint64_t) count, "%llu plans for %d graphs", (unsigned long long) plans, count);
    ggml_gallocr_free(galloc);
    for (int i = 0; i < count; i++) {
        built_free(built[i]);
    }
}

CASE(reserved_in_turn) {
    for (int count = 1; count <= N_SHAPES; count++) {
        reserve_in_turn(count);
    }
}

// Each is rebuilt at the same addresses and allocated; sometimes it is reserved before.
CASE(allocated_in_turn) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct built   rooms[N_SHAPES];
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    for (int i = 0; i < N_SHAPES; i++) {
        rooms[i] = transformer_new(SHAPES[i]);
    }
    for (int round = 0; round < 6 * N_SHAPES; round++) {
        int i    = round % N_SHAPES;
        rooms[i] = transformer_in(built_again(rooms[i]), SHAPES[i]);
        CHECK(round % 3 == 0 || ggml_gallocr_reserve(galloc, rooms[i].graph), "not reserved");
        CHECK(ggml_gallocr_alloc_graph(galloc, rooms[i].graph), "not allocated");
        CHECK_PLAN(rooms[i].graph, "in turn, %lld", (long long) (round));
    }
    ggml_gallocr_free(galloc);
    for (int i = 0; i < N_SHAPES; i++) {
        built_free(rooms[i]);
    }
}

// Programs whose inputs have several shapes take them in turns, and expect no graph to be planned again.
CASE(shapes_in_turns_are_planned_once) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct built   rooms[REMEMBERED];
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    uint64_t       plans  = plans_made();
    for (int round = 0; round < 3 * REMEMBERED; round++) {
        const int    i     = round % REMEMBERED;
        struct shape shape = { .layers = LARGE, .tokens = 64 - i, .past = 1 + 5 * i };
        rooms[i] = round < REMEMBERED ? transformer_new(shape) : transformer_in(built_again(rooms[i]), shape);
        CHECK(ggml_gallocr_alloc_graph(galloc, rooms[i].graph), "not allocated");
        CHECK_PLAN(rooms[i].graph, "in turns, %lld", (long long) round);
    }
    plans = plans_made() - plans;
    CHECK(plans <= REMEMBERED, "%llu plans for %d shapes", (unsigned long long) plans, REMEMBERED);
    ggml_gallocr_free(galloc);
    for (int i = 0; i < REMEMBERED; i++) {
        built_free(rooms[i]);
    }
}

// Small graphs

// The end of the tensor that ends last in the buffer, in bytes.
static size_t bytes_used(struct ggml_cgraph * graph, ggml_backend_buffer_t buffer) {
    size_t used = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        struct ggml_tensor * t = graph->nodes[i];
        if (t->buffer == buffer) {
            char * base = ggml_backend_buffer_get_base(buffer);
            size_t end  = (size_t) ((char *) t->data - base) + ggml_nbytes(t);
            used        = end > used ? end : used;
        }
    }
    return used;
}

// Allocates a graph without reserving it, which replaces no buffer, and returns the number of plans that were made.
static uint64_t plans_for(ggml_gallocr_t galloc, struct built built, size_t held) {
    uint64_t plans = plans_made();
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == held, "the buffer was replaced");
    CHECK_PLAN(built.graph, "%lld plans before", (long long) plans);
    return plans_made() - plans;
}

// A graph that the plan of a larger one fits is spread over the memory of that one, unless it has its own plan.
CASE(small_graphs_have_plans_of_their_own) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct built   large  = transformer_new((struct shape) { .layers = LARGE, .tokens = 64, .past = 64 });
    struct built   near   = transformer_new((struct shape) { .layers = LARGE, .tokens = 62, .past = 63 });
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    // Such plans would keep all inputs that the plan of the larger graph may keep.
    CHECK(lastuse_gallocr_set(galloc, "rules", "no-keep-inputs"), "the rule is known");
    CHECK(ggml_gallocr_reserve(galloc, large.graph), "not reserved");
    size_t held = ggml_gallocr_get_buffer_size(galloc, 0);
    CHECK(plans_for(galloc, near, held) == 0, "a graph of nearly the planned sizes was planned");
    // More than an allocator remembers, each twice.
    for (int tokens = 2; tokens < 2 + 2 * REMEMBERED; tokens++) {
        struct shape shape = { .layers = LARGE, .tokens = tokens, .past = 2 * tokens };
        struct built small = transformer_new(shape);
        size_t       size  = need_of(small.graph).size;
        CHECK(plans_for(galloc, small, held) == 1, "%d tokens have no separate plan", tokens);
        size_t used = bytes_used(small.graph, small.graph->nodes[small.graph->n_nodes - 1]->buffer);
        CHECK(used <= size, "%d tokens use %zu bytes and need %zu", tokens, used, size);
        small = transformer_in(built_again(small), shape);
        CHECK(plans_for(galloc, small, held) == 0, "%d tokens were planned twice", tokens);
        built_free(small);
    }
    large = transformer_in(built_again(large), (struct shape) { .layers = LARGE, .tokens = 64, .past = 64 });
    CHECK(plans_for(galloc, large, held) == 0, "plans of small graphs have displaced the one that was reserved");
    ggml_gallocr_free(galloc);
    built_free(large);
    built_free(near);
}

// All of their buffers are there from the start, and graphs that are recorded rely on addresses.
CASE(small_graphs_on_devices_are_not_planned) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    dummy.type.iface.is_host = NULL;
    struct built   large     = transformer_new((struct shape) { .layers = 2, .tokens = 64, .past = 64 });
    struct built   small     = transformer_new((struct shape) { .layers = 2, .tokens = 2, .past = 2 });
    ggml_gallocr_t galloc    = ggml_gallocr_new(dummy_buft_type(&dummy));
    CHECK(ggml_gallocr_reserve(galloc, large.graph), "not reserved");
    size_t held = ggml_gallocr_get_buffer_size(galloc, 0);
    CHECK(plans_for(galloc, small, held) == 0, "the plan fits, and another one was made");
    ggml_gallocr_free(galloc);
    built_free(large);
    built_free(small);
}

// Similar graphs

// With one type a graph may also be reserved before it is allocated; with two it has to be.
static void place(ggml_gallocr_t galloc, struct random_graph * g, struct dummy_pair * two, bool reserve,
                  const char * what) {
    bool several = g->node_buffer_ids != NULL;
    if (several || reserve) {
        CHECK(ggml_gallocr_reserve_n(galloc, g->graph, g->node_buffer_ids, g->leaf_buffer_ids), "not reserved");
    }
    CHECK(ggml_gallocr_alloc_graph(galloc, g->graph), "seed %lld, %s: not allocated", (long long) g->seed, what);
    CHECK_PLAN(g->graph, "%s, seed %lld", what, (long long) g->seed);
    if (several) {
        const char * wrong =
            plan_check_buffer_types(g->graph, two->types, g->node_buffer_ids, g->leaf_buffer_ids);
        CHECK(wrong == NULL, "seed %lld, %s: %s", (long long) g->seed, what, wrong);
    }
}

// Each set of rules comes with some seed.
static void set_some_rules(ggml_gallocr_t galloc, uint64_t seed) {
    static const char * const names[] = { "in-place",      "views",         "rows",     "copies", "concat",
                                          "oldest-source", "unread-inputs", "inactive", "scans",  "leafs-last" };
    char text[128] = "none";
    for (int i = 0; i < 10; i++) {
        if ((seed >> i) % 2 != 0) {
            strcat(strcat(text, ","), names[i]);
        }
    }
    CHECK(lastuse_gallocr_set(galloc, "rules", text), "%s is known", text);
}

// One change after the other, on an allocator that remembers earlier plans.
static void change_and_place(uint64_t seed, int n_types) {
    struct random_graph_options options = { .n_steps = 25, .max_elements = 512, .n_buffers = n_types,
                                            .markers = seed % 3 == 0 };
    struct dummy_pair            two;
    dummy_pair_init(&two, ALIGNMENT);
    struct random_graph g      = random_graph_new(seed, options);
    ggml_gallocr_t      galloc = ggml_gallocr_new_n(two.types, n_types);
    uint64_t            random = seed;
    if (seed % 3 == 0) {
        set_some_rules(galloc, seed / 3);
    }
    place(galloc, &g, &two, false, "nothing");
    for (int i = 0; i < 12; i++) {
        random_graph_drop_memory(&g);
        const char * what = random_graph_change(&g, &random);
        place(galloc, &g, &two, (seed + (uint64_t) i / 2) % 2 == 0, what);
    }
    uint64_t plans = plans_made();
    random_graph_drop_memory(&g);
    place(galloc, &g, &two, false, "nothing");
    CHECK(plans_made() == plans, "seed %llu: planned anew, and nothing has changed", (unsigned long long) seed);
    ggml_gallocr_free(galloc);
    random_graph_free(&g);
}

CASE(changed_graphs_do_not_match) {
    struct seeds seeds = seeds_from(args, 400);
    FOR_SEEDS(seed, seeds) {
        change_and_place((uint64_t) seed, 1 + (int) (seed / 2 % 2));
    }
}

static void set_ids(int * ids, int count, int kind) {
    for (int i = 0; i < count; i++) {
        ids[i] = kind == 0 ? i % 3 == 2 : kind == 1 ? i % 2 : kind == 2;
    }
}

// One graph, for other buffers.
CASE(plans_for_other_buffers_are_not_used) {
    enum { KINDS = 4, IDS = 256 };
    struct dummy_pair two;
    dummy_pair_init(&two, ALIGNMENT);
    int            ids[IDS];
    struct built   room   = transformer_new(SHAPES[0]);
    ggml_gallocr_t galloc = ggml_gallocr_new_n(two.types, 2);
    uint64_t       plans  = plans_made();
    for (int round = 0; round < 5 * KINDS; round++) {
        room = transformer_in(built_again(room), SHAPES[0]);
        CHECK(room.graph->n_nodes <= IDS, "more nodes than expected");
        set_ids(ids, IDS, round % KINDS);
        CHECK(ggml_gallocr_reserve_n(galloc, room.graph, ids, NULL), "not reserved");
        CHECK(ggml_gallocr_alloc_graph(galloc, room.graph), "not allocated");
        CHECK_PLAN(room.graph, "other ids, %lld", (long long) (round));
        const char * wrong = plan_check_buffer_types(room.graph, two.types, ids, NULL);
        CHECK(wrong == NULL, "round %d: %s", round, wrong);
    }
    plans = plans_made() - plans;
    CHECK(plans == KINDS, "%llu plans", (unsigned long long) plans);
    ggml_gallocr_free(galloc);
    built_free(room);
}

// Allocating a graph has no buffer ids: those of the last reserve are used.
CASE(graph_of_other_buffers_is_refused) {
    enum { IDS = 256 };
    struct dummy_pair two;
    dummy_pair_init(&two, ALIGNMENT);
    int            ids[2][IDS];
    struct built   large  = transformer_new(SHAPES[0]);
    struct built   small  = transformer_new(SHAPES[2]);
    ggml_gallocr_t galloc = ggml_gallocr_new_n(two.types, 2);
    set_ids(ids[0], IDS, 0);
    set_ids(ids[1], IDS, 1);
    CHECK(large.graph->n_nodes == small.graph->n_nodes, "as many nodes in both");
    CHECK(ggml_gallocr_reserve_n(galloc, large.graph, ids[0], NULL), "not reserved");
    CHECK(ggml_gallocr_reserve_n(galloc, small.graph, ids[1], NULL), "not reserved");
    CHECK(!ggml_gallocr_alloc_graph(galloc, large.graph), "a plan for other buffers was used");
    CHECK(large.graph->nodes[0]->data == NULL, "a refused graph was changed");
    CHECK(ggml_gallocr_reserve_n(galloc, large.graph, ids[1], NULL), "not reserved");
    CHECK(ggml_gallocr_alloc_graph(galloc, large.graph), "it was reserved");
    CHECK(ggml_gallocr_alloc_graph(galloc, small.graph), "it was reserved for the same buffers");
    CHECK_PLAN(large.graph, "reserved last, %lld", (long long) (0));
    CHECK_PLAN(small.graph, "reserved before, %lld", (long long) (0));
    const char * wrong = plan_check_buffer_types(small.graph, two.types, ids[1], NULL);
    CHECK(wrong == NULL, "%s", wrong);
    ggml_gallocr_free(galloc);
    built_free(large);
    built_free(small);
}

// Failures

// Under a limit an allocation succeeds exactly when the graph fits, whatever plans are remembered.
CASE(failures_leave_everything_usable) {
    uint64_t          random = (uint64_t) case_number(args, 0, 1);
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    struct built   rooms[N_SHAPES];
    size_t         sizes[N_SHAPES];
    ggml_gallocr_t galloc   = ggml_gallocr_new(dummy_buft_type(&dummy));
    int            failures = 0;
    for (int i = 0; i < N_SHAPES; i++) {
        rooms[i] = transformer_new(SHAPES[i]);
        sizes[i] = need_of(rooms[i].graph).size;
    }
    dummy.byte_cap = sizes[2]; // neither the smallest nor the largest
    for (int round = 0; round < 100; round++) {
        int  i    = (int) (splitmix64(&random) % N_SHAPES);
        bool fits = sizes[i] <= dummy.byte_cap;
        rooms[i]  = transformer_in(built_again(rooms[i]), SHAPES[i]);
        if (splitmix64(&random) % 2 == 0) {
            CHECK(ggml_gallocr_reserve(galloc, rooms[i].graph) == fits, "round %d: %zu bytes", round, sizes[i]);
            CHECK(plan_size_of(galloc, 0) == sizes[i], "round %d: the size is that of another graph", round);
        }
        if (splitmix64(&random) % 2 == 0) {
            CHECK(ggml_gallocr_alloc_graph(galloc, rooms[i].graph) == fits, "round %d: %zu bytes", round, sizes[i]);
            CHECK(fits || rooms[i].graph->nodes[0]->data == NULL, "round %d: a refused graph was changed", round);
        }
        if (rooms[i].graph->nodes[0]->data != NULL) {
            CHECK_PLAN(rooms[i].graph, "under a limit, %lld", (long long) (round));
        }
        failures += !fits;
    }
    CHECK(failures > 20 && failures < 80, "%d of 100 failed", failures);
    ggml_gallocr_free(galloc);
    CHECK(dummy.live_buffers == 0, "%zu buffers leaked", dummy.live_buffers);
    for (int i = 0; i < N_SHAPES; i++) {
        built_free(rooms[i]);
    }
}

// With several types a failure drops all plans: the program has to reserve again.
CASE(failure_with_several_types_drops_all_plans) {
    enum { IDS = 256 };
    struct dummy_pair two;
    dummy_pair_init(&two, ALIGNMENT);
    int ids[IDS];
    set_ids(ids, IDS, 0);
    struct built   small  = transformer_new(SHAPES[1]);
    struct built   large  = transformer_new(SHAPES[0]);
    ggml_gallocr_t galloc = ggml_gallocr_new_n(two.types, 2);
    CHECK(ggml_gallocr_reserve_n(galloc, small.graph, ids, NULL), "nothing fails yet");
    two.dummies[1].byte_cap = two.dummies[1].live_bytes;
    CHECK(!ggml_gallocr_reserve_n(galloc, large.graph, ids, NULL), "the second buffer is too large");
    CHECK(!ggml_gallocr_alloc_graph(galloc, small.graph), "there is no buffer for it");
    CHECK(small.graph->nodes[0]->data == NULL, "a refused graph was changed");
    CHECK(ggml_gallocr_reserve_n(galloc, small.graph, ids, NULL), "it fits");
    CHECK(ggml_gallocr_alloc_graph(galloc, small.graph), "it was reserved");
    CHECK_PLAN(small.graph, "after a failure, %lld", (long long) (0));
    ggml_gallocr_free(galloc);
    built_free(small);
    built_free(large);
}

// Queries of sizes

static bool is_referred_to(const struct ggml_cgraph * graph, const struct ggml_tensor * t) {
    for (int i = 0; i < graph->n_leafs; i++) {
        if (graph->leafs[i] == t) {
            return true;
        }
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor * node  = graph->nodes[i];
        bool                       is_it = node == t;
        for (int s = 0; s < GGML_MAX_SRC; s++) {
            const struct ggml_tensor * source = node->src[s];
            is_it = is_it || source == t || (source != NULL && source->view_src == t);
        }
        if (is_it) {
            return true;
        }
    }
    return false;
}

static size_t count_waiting(struct ggml_context * ctx, const struct ggml_cgraph * graph) {
    size_t count = 0;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        count += t->view_src == NULL && t->data == NULL && is_referred_to(graph, t);
    }
    return count;
}

// Returns whether the plan is at its bound. If the first plan is not, another one is tried. Plans of graphs with
// tensors in no list are not remembered.
static bool reserve_and_count(struct ggml_context * ctx, struct ggml_cgraph * graph, bool is_listed,
                              long long number) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    CHECK(ggml_gallocr_reserve(galloc, graph), "not reserved");
    size_t queries = dummy.counts.get_alloc_size;
    size_t waiting = count_waiting(ctx, graph);
    CHECK(queries > 0 && queries <= waiting, "%lld: %zu queries of %zu tensors", number, queries, waiting);
    if (is_listed) {
        CHECK(ggml_gallocr_reserve(galloc, graph), "not reserved");
        CHECK(dummy.counts.get_alloc_size == queries, "%lld: a cached plan queries sizes again", number);
    }
    bool is_optimal = plan_size_of(galloc, 0) == lower_bound_of(galloc, 0);
    ggml_gallocr_free(galloc);
    return is_optimal;
}

CASE(sizes_are_queried_at_most_once) {
    int beyond_bound = 0;
    for (int i = 0; i < N_SHAPES; i++) {
        struct built built = transformer_new(SHAPES[i]);
        reserve_and_count(built.ctx, built.graph, true, i);
        built_free(built);
    }
    long long first = case_number(args, 0, 1);
    for (long long seed = first; seed < first + case_number(args, 1, 300); seed++) {
        struct random_graph_options options = { .unlisted_leafs = seed % 2 == 0 };
        struct random_graph         g       = random_graph_new((uint64_t) seed, options);
        beyond_bound += !reserve_and_count(g.ctx, g.graph, !options.unlisted_leafs, seed);
        random_graph_free(&g);
    }
    CHECK(beyond_bound > 0 || args.count > 0, "each plan is at its bound: none was tried twice");
}

// Sizes that depend on more than layouts

#define EXTRA (1 << 20) // bytes, more than the whole graph takes

static size_t said_by_last_parameter(const struct ggml_tensor * tensor) {
    return tensor->op == GGML_OP_MUL_MAT ? (size_t) tensor->op_params[15] : 0;
}

static void ask_for_more(struct ggml_cgraph * graph, int32_t bytes) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        ggml_graph_node(graph, i)->op_params[15] = bytes;
    }
}

CASE(parameters_that_determine_sizes_are_compared) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, 0);
    dummy.extra_bytes      = said_by_last_parameter;
    struct built   built  = transformer_new((struct shape) { .layers = 1, .tokens = 1, .past = 1 });
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    CHECK(plan_size_of(galloc, 0) < EXTRA, "the graph is larger than the test believes");
    ask_for_more(built.graph, EXTRA);
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    CHECK(plan_size_of(galloc, 0) > EXTRA, "a plan with too little memory is used");
    ask_for_more(built.graph, 0);
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    CHECK(plan_size_of(galloc, 0) < EXTRA, "a plan with too much memory is used");
    ggml_gallocr_free(galloc);
    built_free(built);
}

// Reserves a separate graph in buffers of this type; returns how many sizes were asked for.
static size_t count_sizes_asked(struct dummy_buft * dummy, int32_t more) {
    struct built   built  = transformer_new((struct shape) { .layers = 1, .tokens = 1, .past = 1 });
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(dummy));
    size_t         before = dummy->counts.get_alloc_size;
    ask_for_more(built.graph, more);
    CHECK(ggml_gallocr_reserve(galloc, built.graph), "not reserved");
    bool is_larger = plan_size_of(galloc, 0) > EXTRA;
    CHECK(is_larger == (more > 0), "%d more bytes for each product give a buffer of the wrong size", (int) more);
    ggml_gallocr_free(galloc);
    built_free(built);
    return dummy->counts.get_alloc_size - before;
}

// ggml's RPC backend names its buffer types so. They are never freed, and their names and addresses not used again.
CASE(sizes_of_servers_are_remembered_by_shape) {
    static struct dummy_buft here, server, other;
    dummy_buft_init(&here, "dummy", ALIGNMENT, 0);
    dummy_buft_init(&server, "RPC0[127.0.0.1:50052]", ALIGNMENT, 0);
    dummy_buft_init(&other, "RPC1[127.0.0.1:50053]", ALIGNMENT, 0);
    here.extra_bytes = server.extra_bytes = other.extra_bytes = said_by_last_parameter;
    size_t all    = count_sizes_asked(&here, 0);
    size_t shapes = count_sizes_asked(&server, 0);
    CHECK(count_sizes_asked(&here, 0) == all, "sizes in memory of the machine are remembered");
    CHECK(shapes > 0 && shapes < all, "%zu sizes for %zu tensors, some of equal shape", shapes, all);
    CHECK(count_sizes_asked(&server, 0) == 0, "a server is asked again");
    CHECK(count_sizes_asked(&other, 0) == shapes, "another server is not asked");
    CHECK(count_sizes_asked(&server, EXTRA) > 0, "a server is not asked about other parameters");
    CHECK(count_sizes_asked(&server, 0) == 0 && count_sizes_asked(&server, EXTRA) == 0, "not all sizes are remembered");
}

// Results of another graph

static void drop_memory(struct ggml_tensor * tensor) {
    tensor->data   = NULL;
    tensor->buffer = NULL;
}

// Like a decoder that reads results of an encoder: by a view whose root is in no list of the graph and has memory.
CASE(results_of_another_graph_are_recognized) {
    struct ggml_context *   outer  = no_alloc_context(1 << 20);
    struct ggml_tensor *    result = ggml_new_tensor_2d(outer, GGML_TYPE_F32, 64, 16);
    ggml_backend_buffer_t   buffer = ggml_backend_alloc_ctx_tensors_from_buft(outer, ggml_backend_cpu_buffer_type());
    struct ggml_context *   ctx    = no_alloc_context(1 << 20);
    struct ggml_cgraph *    graph  = ggml_new_graph(ctx);
    struct ggml_tensor *    view   = ggml_view_tensor(ctx, result);
    struct ggml_tensor *    input  = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 16);
    struct ggml_tensor *    there  = ggml_mul_mat(ctx, view, input);
    struct ggml_tensor *    back   = ggml_mul_mat(ctx, input, view);
    struct ggml_tensor *    output = ggml_sqr(ctx, ggml_add(ctx, there, back));
    ggml_set_input(input);
    ggml_set_output(output);
    ggml_build_forward_expand(graph, output);
    void *         data   = result->data;
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_reserve(galloc, graph), "not reserved");
    uint64_t plans = plans_made();
    CHECK(ggml_gallocr_reserve(galloc, graph) && plans_made() == plans, "it is planned again");
    CHECK(ggml_gallocr_alloc_graph(galloc, graph) && plans_made() == plans, "it is planned once more");
    CHECK_PLAN(graph, "a view of a result, %lld", (long long) (0));
    CHECK(result->data == data && view->data == data && output->data != NULL, "memory is not where it belongs");
    drop_memory(view);
    drop_memory(result);
    CHECK(ggml_gallocr_reserve(galloc, graph) && plans_made() == plans + 1, "lost memory is not noticed");
    ggml_gallocr_free(galloc);
    ggml_free(ctx);
    ggml_backend_buffer_free(buffer);
    ggml_free(outer);
}

// Chunks without bytes

// Two inputs that fill a chunk each. A result without bytes gets its own chunk after them.
static struct built two_inputs(int64_t width, bool with_empty_result) {
    struct built         b      = built_new(16, 1024);
    struct ggml_tensor * first  = new_input(b.ctx, width, 1);
    struct ggml_tensor * second = new_input(b.ctx, width, 1);
    struct ggml_tensor * empty  = ggml_view_2d(b.ctx, second, width, 0, second->nb[1], 0);
    ggml_set_output(first);
    ggml_set_output(second);
    ggml_build_forward_expand(b.graph, first);
    ggml_build_forward_expand(b.graph, with_empty_result ? ggml_scale(b.ctx, empty, 2.0f) : second);
    return b;
}

CASE(chunk_without_bytes_is_added) {
    enum { LIMIT = 128 };
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "dummy", ALIGNMENT, LIMIT);
    struct built   before = two_inputs(LIMIT, false);
    struct built   after  = two_inputs(LIMIT, true);
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    CHECK(ggml_gallocr_alloc_graph(galloc, before.graph) && dummy.live_buffers == 2, "%zu chunks", dummy.live_buffers);
    CHECK(ggml_gallocr_alloc_graph(galloc, after.graph), "not allocated");
    CHECK_PLAN(after.graph, "one result has no bytes, %lld", (long long) (0));
    ggml_gallocr_free(galloc);
    built_free(before);
    built_free(after);
}

// A result that is not computed and has no bytes, alone in its buffer, gets an address too.
CASE(empty_alternative_is_alone_in_its_buffer) {
    struct dummy_pair two;
    dummy_pair_init(&two, ALIGNMENT);
    struct built         b     = built_new(16, 1024);
    struct ggml_tensor * x     = new_input(b.ctx, 16, 1);
    struct ggml_tensor * empty = ggml_scale(b.ctx, ggml_view_2d(b.ctx, x, 16, 0, x->nb[1], 0), 2.0f);
    ggml_build_forward_expand(b.graph, ggml_sqr(b.ctx, x));
    ggml_build_forward_expand(b.graph, empty);
    int ids[3] = { 0, 0, 1 };
    CHECK(b.graph->n_nodes == 3 && b.graph->nodes[2] == empty, "%d nodes", b.graph->n_nodes);
    empty->flags &= ~FLAG_COMPUTE;
    ggml_gallocr_t galloc = ggml_gallocr_new_n(two.types, 2);
    CHECK(ggml_gallocr_reserve_n(galloc, b.graph, ids, NULL), "not reserved");
    CHECK(ggml_gallocr_alloc_graph(galloc, b.graph), "not allocated");
    CHECK_PLAN(b.graph, "an empty alternative, %lld", (long long) (0));
    ggml_gallocr_free(galloc);
    built_free(b);
}
