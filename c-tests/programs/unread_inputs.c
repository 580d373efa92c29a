// runs: ggml-0.26
//
// Programs place an input for tokens and one for embeddings, and read one of them; or they compute something of each,
// and select one of both results. A graph that reads or selects the other one needs another plan, yet no new plan each
// time the two alternate, and no new buffer.
//
//   unread_inputs <case>

#include "cases.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"
#include "plan_check.h"
#include "reports.h"
#include "transformer.h"
#include "upstream.h"

#define ALIGNMENT 64
#define ROUNDS    10
#define TOKENS    12

static struct built new_room(void) {
    return built_new(64, 65536);
}

// Whether both are computed and one is selected.
static bool selects;

// Both graphs have the same number of nodes and leafs, of the same sizes.
static struct built graph_in(struct built b, bool reads_tokens) {
    struct ggml_tensor * embeddings = new_input(b.ctx, WIDTH, TOKENS);
    struct ggml_tensor * tokens     = ggml_new_tensor_1d(b.ctx, GGML_TYPE_I32, TOKENS);
    struct ggml_tensor * table      = ggml_new_tensor_2d(b.weights, GGML_TYPE_F32, WIDTH, INDEX_LIMIT);
    struct ggml_tensor * scale      = ggml_new_tensor_1d(b.weights, GGML_TYPE_F32, WIDTH);
    ggml_set_input(tokens);
    ggml_build_forward_expand(b.graph, tokens);
    ggml_build_forward_expand(b.graph, embeddings);
    struct ggml_tensor * x = NULL;
    if (selects) {
        struct ggml_tensor * both[] = { ggml_get_rows(b.ctx, table, tokens), ggml_mul(b.ctx, embeddings, scale) };
        x = ggml_build_forward_select(b.graph, both, 2, reads_tokens ? 0 : 1);
    } else if (reads_tokens) {
        x = ggml_get_rows(b.ctx, table, tokens);
    } else {
        x = ggml_mul(b.ctx, embeddings, scale);
    }
    for (int layer = 0; layer < 3; layer++) {
        struct ggml_tensor * wide = ggml_silu(b.ctx, project(b, normalize(b, x), 2 * WIDTH));
        x                         = ggml_add(b.ctx, project(b, wide, WIDTH), x);
    }
    ggml_set_output(x);
    ggml_build_forward_expand(b.graph, x);
    return b;
}

// An allocator or a scheduler.
struct placing {
    bool (*place)(struct placing * placing, struct built built);
    ggml_gallocr_t             galloc;
    ggml_backend_sched_t       sched;
    ggml_backend_t             backends[2];
    int                        n_types;
    struct dummy_buft          dummies[2];
    ggml_backend_buffer_type_t types[2];
    int                        ids[64]; // of nodes
};

static void placing_init(struct placing * p, int n_types) {
    *p = (struct placing){ .n_types = n_types };
    for (int i = 0; i < n_types; i++) {
        dummy_buft_init(&p->dummies[i], i == 0 ? "first" : "second", ALIGNMENT, 0);
        p->types[i] = dummy_buft_type(&p->dummies[i]);
    }
    for (int i = 0; i < 64; i++) {
        p->ids[i] = n_types > 1 && i % 5 > 2;
    }
}

static void check_same_as_upstream(ggml_backend_t cpu, struct built built, bool reads_tokens, int round) {
    struct built   truth    = graph_in(new_room(), reads_tokens);
    ggml_gallocr_t upstream = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(upstream_ggml_gallocr_alloc_graph(upstream, truth.graph), "upstream allocates it");
    compute_with_values(cpu, built.graph, (uint64_t) round);
    compute_with_values(cpu, truth.graph, (uint64_t) round);
    check_same_outputs_of(built.graph, truth.graph, (uint64_t) round, reads_tokens ? "tokens" : "embeddings");
    upstream_ggml_gallocr_free(upstream);
    built_free(truth);
}

// Programs rebuild each graph: usually where the one before was, some elsewhere.
static void alternate(struct placing * p, bool same_memory) {
    ggml_backend_t cpu   = new_cpu(1);
    struct built   room  = new_room();
    uint64_t       plans = plans_made();
    for (int round = 0; round < ROUNDS; round++) {
        bool         reads_tokens = round % 2 == 0;
        struct built built        = graph_in(same_memory ? built_again(room) : new_room(), reads_tokens);
        CHECK(p->place(p, built), "round %d: not allocated", round);
        CHECK_PLAN(built.graph, "round %d", round);
        check_same_as_upstream(cpu, built, reads_tokens, round);
        if (same_memory) {
            room = built;
        } else {
            built_free(built);
        }
    }
    plans = plans_made() - plans;
    CHECK(plans == 2, "%llu plans for two graphs", (unsigned long long) plans);
    for (int i = 0; i < p->n_types; i++) {
        size_t count = p->dummies[i].counts.alloc_buffer;
        CHECK(count >= 1 && count <= 2, "buffer %d was allocated %zu times", i, count);
    }
    built_free(room);
    ggml_backend_free(cpu);
}

static bool place_alone(struct placing * p, struct built built) {
    return ggml_gallocr_alloc_graph(p->galloc, built.graph);
}

static bool reserve_and_place(struct placing * p, struct built built) {
    CHECK(ggml_gallocr_reserve_n(p->galloc, built.graph, p->ids, NULL), "not reserved");
    return ggml_gallocr_alloc_graph(p->galloc, built.graph);
}

static bool place_or_reserve(struct placing * p, struct built built) {
    return ggml_gallocr_alloc_graph(p->galloc, built.graph) || reserve_and_place(p, built);
}

static void alternate_in_allocator(int n_types, bool (*place)(struct placing *, struct built), bool same_memory) {
    struct placing p;
    placing_init(&p, n_types);
    p.place  = place;
    p.galloc = ggml_gallocr_new_n(p.types, n_types);
    alternate(&p, same_memory);
    ggml_gallocr_free(p.galloc);
}

CASE(one_type) {
    alternate_in_allocator(1, place_alone, true);
    alternate_in_allocator(1, place_alone, false);
    alternate_in_allocator(1, reserve_and_place, true);
}

CASE(two_types) {
    alternate_in_allocator(2, reserve_and_place, true);
    alternate_in_allocator(2, place_or_reserve, true);
    alternate_in_allocator(2, place_or_reserve, false);
}

static bool place_by_scheduler(struct placing * p, struct built built) {
    ggml_backend_sched_reset(p->sched);
    for (int i = 0; i < ggml_graph_n_nodes(built.graph); i++) {
        ggml_backend_sched_set_tensor_backend(p->sched, ggml_graph_node(built.graph, i), p->backends[p->ids[i]]);
    }
    return ggml_backend_sched_alloc_graph(p->sched, built.graph);
}

static void alternate_in_scheduler(int n_types, bool same_memory) {
    struct placing p;
    placing_init(&p, n_types);
    for (int i = 0; i < n_types; i++) {
        p.backends[i] = new_cpu(1);
    }
    p.place = place_by_scheduler;
    p.sched = ggml_backend_sched_new(p.backends, p.types, n_types, 64, false, false);
    alternate(&p, same_memory);
    ggml_backend_sched_free(p.sched);
    for (int i = 0; i < n_types; i++) {
        ggml_backend_free(p.backends[i]);
    }
}

CASE(scheduler) {
    for (int n_types = 1; n_types <= 2; n_types++) {
        alternate_in_scheduler(n_types, true);
        alternate_in_scheduler(n_types, false);
    }
}

CASE(selecting_in_one_type) {
    selects = true;
    one_type(args);
}

CASE(selecting_in_two_types) {
    selects = true;
    two_types(args);
}

// With two backends the scheduler copies sources of nodes that are not computed, too.
CASE(selecting_in_a_scheduler) {
    selects = true;
    scheduler(args);
}

// A callback gets every node, computed or not.
struct node_counts {
    int computed;
    int skipped;
};

static bool count_node(struct ggml_tensor * t, bool ask, void * data) {
    struct node_counts * counts = data;
    char          bytes[TOKENS * WIDTH * sizeof(float)];
    if (!ask && t->view_src == NULL && ggml_nbytes(t) <= sizeof(bytes)) {
        ggml_backend_tensor_get(t, bytes, 0, ggml_nbytes(t));
        int * count = (t->flags & GGML_TENSOR_FLAG_COMPUTE) != 0 ? &counts->computed : &counts->skipped;
        *count += 1;
    }
    return true;
}

CASE(callbacks_get_every_node) {
    selects                    = true;
    ggml_backend_t       cpu   = new_cpu(1);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false);
    struct node_counts   counts = { 0, 0 };
    ggml_backend_sched_set_eval_callback(sched, count_node, &counts);
    for (int tokens = 0; tokens < 2; tokens++) {
        struct built built = graph_in(new_room(), tokens == 1);
        CHECK(ggml_backend_sched_alloc_graph(sched, built.graph), "not allocated");
        set_leaf_values(built.graph, 1);
        CHECK(ggml_backend_sched_graph_compute(sched, built.graph) == GGML_STATUS_SUCCESS, "not computed");
        struct built   truth    = graph_in(new_room(), tokens == 1);
        ggml_gallocr_t upstream = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
        CHECK(upstream_ggml_gallocr_alloc_graph(upstream, truth.graph), "upstream allocates it");
        compute_with_values(cpu, truth.graph, 1);
        check_same_outputs_of(built.graph, truth.graph, 1, "with a callback");
        upstream_ggml_gallocr_free(upstream);
        built_free(truth);
        ggml_backend_sched_reset(sched);
        built_free(built);
    }
    CHECK(counts.computed > 10 && counts.skipped == 2, "%d computed, %d skipped", counts.computed, counts.skipped);
    ggml_backend_sched_free(sched);
    ggml_backend_free(cpu);
}

static size_t size_with(const char * rules) {
    struct built   built  = graph_in(new_room(), true);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_gallocr_set(galloc, "rules", rules), "%s is known", rules);
    CHECK(ggml_gallocr_alloc_graph(galloc, built.graph), "not allocated");
    CHECK_PLAN(built.graph, "%s", rules);
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    CHECK(size == lower_bound_of(galloc, 0), "%zu bytes are more than are live", size);
    ggml_gallocr_free(galloc);
    built_free(built);
    return size;
}

// The input for embeddings and their product, which are as large as the result that is selected.
CASE(selecting_takes_no_memory_for_the_rest) {
    size_t unread = size_with("all");
    selects       = true;
    CHECK(size_with("all") == unread, "%zu bytes where one is selected, and %zu where only one is computed",
          size_with("all"), unread);
    CHECK(size_with("all,no-inactive") > unread, "the rule is never off");
}
