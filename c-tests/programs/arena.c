// runs: ggml-0.26 ggml-0.9.5 ggml-0.28
// Allocators that share memory in turns: together they take the bytes of the largest, and every result is what it is in
// memory of its own.

#include "cases.h"
#include "chains.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "shared_turns.h"
#include "threads.h"

static size_t size_of(ggml_gallocr_t galloc) {
    return ggml_gallocr_get_buffer_size(galloc, 0);
}

static size_t sum_of(ggml_gallocr_t * all, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += size_of(all[i]);
    }
    return sum;
}

static struct lastuse_arena * new_arena(void) {
    struct lastuse_arena * arena = lastuse_arena_new(ggml_backend_cpu_buffer_type());
    CHECK(arena != NULL, "%s", lastuse_last_error());
    return arena;
}

static ggml_gallocr_t new_tenant(struct lastuse_arena * arena) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_gallocr_share(galloc, arena), "%s", lastuse_last_error());
    return galloc;
}

CASE(random_graphs_in_turns) {
    ggml_backend_t cpu   = new_cpu(1);
    struct seeds   seeds = seeds_from(args, 60);
    FOR_SEEDS(seed, seeds) {
        shared_turns(cpu, (uint64_t) seed);
    }
    ggml_backend_free(cpu);
}

static void set_all(struct ggml_tensor * t, float value) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        ((float *) t->data)[i] = value;
    }
}

static void check_all(const struct ggml_tensor * t, float value, const char * what) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        float found = ((float *) t->data)[i];
        CHECK(found == value, "%s: element %lld is %g, not %g", what, (long long) i, (double) found, (double) value);
    }
}

static void compute(ggml_backend_t cpu, struct chain * chain) {
    CHECK(ggml_backend_graph_compute(cpu, chain->graph) == GGML_STATUS_SUCCESS, "not computed");
}

CASE(a_graph_stays_where_it_is_while_others_grow) {
    ggml_backend_t  cpu   = new_cpu(1);
    struct lastuse_arena * arena = new_arena();
    ggml_gallocr_t  all[] = { new_tenant(arena), new_tenant(arena) };
    struct chain    small = new_chain(NULL, 8), large = new_chain(NULL, 64);
    CHECK(ggml_gallocr_alloc_graph(all[0], small.graph), "refused");
    void * data = small.input->data;
    CHECK(ggml_gallocr_alloc_graph(all[1], large.graph), "refused");
    set_all(large.input, 0.25f);
    compute(cpu, &large);
    check_all(large.result, truth_of(0.25f), "large");
    CHECK(small.input->data == data, "moved");
    set_all(small.input, 0.5f);
    compute(cpu, &small);
    check_all(small.result, truth_of(0.5f), "small");
    check_all(large.result, truth_of(0.25f), "its memory is another one until the small graph is allocated again");
    CHECK(size_of(all[0]) > 0, "the small graph is in memory that is not counted");
    struct lastuse_gallocr_sizes sizes = { .struct_size = sizeof(sizes) };
    CHECK(lastuse_gallocr_report(all[1], 0, &sizes), "%s", lastuse_last_error());
    for (int i = 0; i < small.graph->n_nodes; i++) {
        small.graph->nodes[i]->data   = NULL;
        small.graph->nodes[i]->buffer = NULL;
    }
    small.input->data   = NULL;
    small.input->buffer = NULL;
    CHECK(ggml_gallocr_alloc_graph(all[0], small.graph), "refused");
    CHECK(sum_of(all, 2) == sizes.plan_size, "%zu bytes for both, %zu for the larger one", sum_of(all, 2), sizes.plan_size);
    ggml_gallocr_free(all[0]);
    ggml_gallocr_free(all[1]);
    lastuse_arena_free(arena);
    ggml_free(small.ctx);
    ggml_free(large.ctx);
    ggml_backend_free(cpu);
}

// As the encoder and the decoder of whisper.cpp: one graph reads the result of another one where that lies.
CASE(results_that_other_graphs_read_are_kept) {
    ggml_backend_t  cpu   = new_cpu(1);
    struct lastuse_arena * arena = new_arena();
    ggml_gallocr_t  all[] = { new_tenant(arena), new_tenant(arena), new_tenant(arena) };
    size_t          first = 0, last = 0;
    for (int run = 0; run < 6; run++) {
        float        value  = 0.1f * (float) (run + 1);
        struct chain encode = new_chain(NULL, 48);
        CHECK(ggml_gallocr_alloc_graph(all[0], encode.graph), "refused");
        set_all(encode.input, value);
        compute(cpu, &encode);
        struct chain cross = new_chain(encode.result, 0), decode = new_chain(NULL, 48);
        CHECK(ggml_gallocr_alloc_graph(all[1], cross.graph), "refused");
        check_all(encode.result, truth_of(value), "encoded");
        compute(cpu, &cross);
        check_all(cross.result, truth_of(truth_of(value)), "crossed");
        CHECK(ggml_gallocr_alloc_graph(all[2], decode.graph), "refused");
        set_all(decode.input, value);
        compute(cpu, &decode);
        check_all(decode.result, truth_of(value), "decoded");
        last  = sum_of(all, 3);
        first = run == 0 ? last : first;
        if (run > 0) {
            check_all(encode.result, truth_of(value), "kept apart");
        }
        if (run == 5) {
            // The largest, and what crosses.
            struct lastuse_gallocr_sizes sizes = { .struct_size = sizeof(sizes) };
            CHECK(lastuse_gallocr_report(all[2], 0, &sizes), "%s", lastuse_last_error());
            CHECK(last <= sizes.plan_size + ggml_nbytes(encode.result), "%zu bytes, of which the largest needs %zu", last,
                  sizes.plan_size);
        }
        ggml_free(encode.ctx);
        ggml_free(cross.ctx);
        ggml_free(decode.ctx);
    }
    CHECK(last < first, "%zu bytes, at first %zu", last, first);
    for (int i = 0; i < 3; i++) {
        ggml_gallocr_free(all[i]);
    }
    lastuse_arena_free(arena);
    ggml_backend_free(cpu);
}

// A scheduler with a chain.
struct scheduled {
    ggml_backend_t       cpu;
    ggml_backend_sched_t sched;
};

// With a second backend, a scheduler's allocator takes memory for reservations only.
static struct scheduled new_scheduled_on_two(ggml_backend_t cpus[2]) {
    struct scheduled it = { .cpu = cpus[0] };
    it.sched            = ggml_backend_sched_new(cpus, NULL, 2, 256, false, false);
    return it;
}

static struct scheduled new_scheduled(void) {
    struct scheduled it = { .cpu = new_cpu(1) };
    it.sched            = ggml_backend_sched_new(&it.cpu, NULL, 1, 256, false, false);
    return it;
}

static void free_scheduled(struct scheduled * it) {
    ggml_backend_sched_free(it->sched);
    ggml_backend_free(it->cpu);
}

static void schedule(struct scheduled * it, struct chain * chain, float value) {
    ggml_backend_sched_reset(it->sched);
    CHECK(ggml_backend_sched_alloc_graph(it->sched, chain->graph), "refused");
    set_all(chain->input, value);
    CHECK(ggml_backend_sched_graph_compute(it->sched, chain->graph) == GGML_STATUS_SUCCESS, "not computed");
    check_all(chain->result, truth_of(value), "scheduled");
}

static void set_arena(const char * value) {
    CHECK(lastuse_set("arena", value), "%s", lastuse_last_error());
}

// A graph that reads its scheduler's own last result, as programs do that rely on where it happens to be. Results are
// added to, so values stay finite.
static void read_own_results(int n_backends) {
    set_arena("shared");
    ggml_backend_t   cpus[2] = { new_cpu(1), new_cpu(1) };
    struct scheduled own     = { cpus[0], ggml_backend_sched_new(cpus, NULL, n_backends, 256, false, false) };
    struct scheduled other   = new_scheduled();
    set_arena("off");
    struct chain before = new_chain(NULL, 16);
    float        value  = 0.03f;
    schedule(&own, &before, value);
    for (int run = 0; run < 12; run++) {
        value             = truth_of(value);
        struct chain next = new_chain(before.result, 0);
        ggml_backend_sched_reset(own.sched);
        CHECK(ggml_backend_sched_alloc_graph(own.sched, next.graph), "refused");
        check_all(before.result, value, "read later");
        CHECK(ggml_backend_sched_graph_compute(own.sched, next.graph) == GGML_STATUS_SUCCESS, "not computed");
        check_all(next.result, truth_of(value), "read");
        ggml_free(before.ctx);
        before = next;
    }
    struct chain last = new_chain(NULL, 16);
    schedule(&other, &last, 0.5f);
    ggml_free(last.ctx);
    ggml_free(before.ctx);
    free_scheduled(&other);
    ggml_backend_sched_free(own.sched);
    ggml_backend_free(cpus[0]);
    ggml_backend_free(cpus[1]);
}

CASE(own_results_are_kept) {
    read_own_results(1);
    read_own_results(2);
}

// What a reservation leaves in place in ggml, too.
CASE(results_are_read_after_a_reservation) {
    ggml_backend_t         cpu   = new_cpu(1);
    struct lastuse_arena * arena = new_arena();
    ggml_gallocr_t         all[] = { new_tenant(arena), new_tenant(arena) };
    for (int larger = 0; larger < 2; larger++) {
        struct chain first = new_chain(NULL, 16);
        CHECK(ggml_gallocr_alloc_graph(all[0], first.graph), "refused");
        set_all(first.input, 0.5f);
        compute(cpu, &first);
        struct chain smaller = new_chain(NULL, 8), reads = new_chain(first.result, 0), large = new_chain(NULL, 200);
        CHECK(ggml_gallocr_reserve(all[0], smaller.graph), "not reserved");
        if (larger == 1) {
            CHECK(ggml_gallocr_reserve(all[1], large.graph), "not reserved");
        }
        CHECK(ggml_gallocr_alloc_graph(all[1], reads.graph), "refused");
        check_all(first.result, truth_of(0.5f), "read later");
        compute(cpu, &reads);
        check_all(reads.result, truth_of(truth_of(0.5f)), "read");
        ggml_free(first.ctx);
        ggml_free(smaller.ctx);
        ggml_free(reads.ctx);
        ggml_free(large.ctx);
    }
    ggml_gallocr_free(all[0]);
    ggml_gallocr_free(all[1]);
    lastuse_arena_free(arena);
    ggml_backend_free(cpu);
}

CASE(what_the_largest_needed_is_freed_with_it) {
    struct lastuse_arena * arena = new_arena();
    ggml_gallocr_t         all[] = { new_tenant(arena), new_tenant(arena) };
    struct chain           small = new_chain(NULL, 8), large = new_chain(NULL, 256);
    CHECK(ggml_gallocr_reserve(all[0], small.graph) && ggml_gallocr_reserve(all[1], large.graph), "not reserved");
    size_t both = sum_of(all, 2);
    ggml_gallocr_free(all[1]);
    CHECK(ggml_gallocr_reserve(all[0], small.graph), "not reserved");
    CHECK(size_of(all[0]) > 0 && size_of(all[0]) < both / 8, "%zu bytes stay, of %zu", size_of(all[0]), both);
    ggml_gallocr_free(all[0]);
    lastuse_arena_free(arena);
    ggml_free(small.ctx);
    ggml_free(large.ctx);
}

CASE(schedulers_share_if_the_user_asks_for_it) {
    set_arena("shared");
    struct scheduled all[]  = { new_scheduled(), new_scheduled() };
    struct chain     large  = new_chain(NULL, 64), small = new_chain(NULL, 16);
    ggml_gallocr_t   direct = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    set_arena("off");
    struct scheduled alone = new_scheduled();
    CHECK(ggml_backend_sched_reserve(all[0].sched, small.graph), "not reserved");
    size_t of_small = ggml_backend_sched_get_buffer_size(all[0].sched, all[0].cpu);
    CHECK(ggml_backend_sched_reserve(all[1].sched, large.graph), "not reserved");
    CHECK(ggml_backend_sched_reserve(alone.sched, large.graph), "not reserved");
    size_t larger = ggml_backend_sched_get_buffer_size(alone.sched, alone.cpu);
    for (int run = 0; run < 3; run++) {
        size_t sum = ggml_backend_sched_get_buffer_size(all[0].sched, all[0].cpu) +
                     ggml_backend_sched_get_buffer_size(all[1].sched, all[1].cpu);
        CHECK(sum == larger && of_small < larger, "%zu bytes for both, %zu for the larger one", sum, larger);
        for (int i = 0; i < 2; i++) {
            struct chain again = new_chain(NULL, i == 0 ? 16 : 64);
            schedule(&all[i], &again, 0.125f * (float) (run + 1));
            ggml_free(again.ctx);
        }
    }
    // A program that uses an allocator itself may set inputs once, and compute several times.
    CHECK(ggml_gallocr_alloc_graph(direct, small.graph), "refused");
    CHECK(size_of(direct) >= of_small, "an allocator without a scheduler has %zu bytes", size_of(direct));
    ggml_gallocr_free(direct);
    free_scheduled(&all[0]);
    free_scheduled(&all[1]);
    free_scheduled(&alone);
    ggml_free(large.ctx);
    ggml_free(small.ctx);
}

CASE(outputs_stay_if_the_user_asks_for_it) {
    set_arena("shared,outputs");
    struct scheduled all[]  = { new_scheduled(), new_scheduled() };
    struct chain     first = new_chain(NULL, 32), second = new_chain(NULL, 32);
    set_arena("off");
    for (int run = 0; run < 3; run++) {
        ggml_free(first.ctx);
        ggml_free(second.ctx);
        first  = new_chain(NULL, 32);
        second = new_chain(NULL, 32);
        ggml_set_output(first.result);
        CHECK(ggml_backend_sched_reserve(all[0].sched, first.graph), "not reserved");
        CHECK(first.result->data == NULL && first.result->buffer == NULL, "a reservation leaves its marks");
        schedule(&all[0], &first, 0.5f);
        schedule(&all[1], &second, 0.75f);
        check_all(first.result, truth_of(0.5f), "read late");
        check_all(second.result, truth_of(0.75f), "read late");
    }
    free_scheduled(&all[0]);
    free_scheduled(&all[1]);
    ggml_free(first.ctx);
    ggml_free(second.ctx);
}

CASE(schedulers_read_results_of_each_other) {
    for (int outputs = 0; outputs < 2; outputs++) {
        set_arena(outputs ? "shared,outputs" : "shared");
        ggml_backend_t   cpus[2] = { new_cpu(1), new_cpu(1) };
        struct scheduled all[]   = { new_scheduled(), new_scheduled_on_two(cpus), new_scheduled() };
        set_arena("off");
        for (int run = 0; run < 20; run++) {
            float        value = 0.04f * (float) run;
            struct chain first = new_chain(NULL, 8 + 8 * (run % 3));
            schedule(&all[0], &first, value);
            struct chain reads = new_chain(first.result, 0);
            ggml_backend_sched_reset(all[1].sched);
            CHECK(ggml_backend_sched_alloc_graph(all[1].sched, reads.graph), "run %d: refused", run);
            check_all(first.result, truth_of(value), "before it is read");
            CHECK(ggml_backend_sched_graph_compute(all[1].sched, reads.graph) == GGML_STATUS_SUCCESS, "not computed");
            check_all(reads.result, truth_of(truth_of(value)), "read");
            struct chain last = new_chain(NULL, 40);
            schedule(&all[2], &last, value);
            ggml_free(first.ctx);
            ggml_free(reads.ctx);
            ggml_free(last.ctx);
        }
        ggml_backend_sched_free(all[1].sched);
        ggml_backend_free(cpus[0]);
        ggml_backend_free(cpus[1]);
        free_scheduled(&all[0]);
        free_scheduled(&all[2]);
    }
}

static void * use_schedulers(void * number) {
    struct scheduled all[] = { new_scheduled(), new_scheduled(), new_scheduled() };
    for (int run = 0; run < 40; run++) {
        for (int i = 0; i < 3; i++) {
            struct chain chain = new_chain(NULL, 4 + 8 * ((run + i) % 7));
            schedule(&all[i], &chain, 0.01f * (float) (*(int *) number + run % 5));
            ggml_free(chain.ctx);
        }
    }
    for (int i = 0; i < 3; i++) {
        free_scheduled(&all[i]);
    }
    return NULL;
}

CASE(threads_share_nothing) {
    set_arena("shared");
    int numbers[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    in_threads(8, use_schedulers, numbers, sizeof(*numbers));
    set_arena("off");
}

// Allocators that were made by one thread and are used by another, while the first one uses others.
struct moved {
    struct scheduled it;
    float            value;
};

static void * use_moved(void * moved) {
    struct moved * its = moved;
    for (int run = 0; run < 40; run++) {
        struct chain chain = new_chain(NULL, 4 + 8 * (run % 7));
        schedule(&its->it, &chain, its->value);
        ggml_free(chain.ctx);
    }
    return NULL;
}

CASE(allocators_move_between_threads) {
    set_arena("shared");
    struct moved all[4];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            all[i] = (struct moved) { new_scheduled(), 0.1f * (float) (i + 1) };
            struct chain chain = new_chain(NULL, 8 * (i + 1));
            schedule(&all[i].it, &chain, all[i].value);
            ggml_free(chain.ctx);
        }
        in_threads(4, use_moved, all, sizeof(*all));
        for (int i = 0; i < 4; i++) {
            free_scheduled(&all[i].it);
        }
    }
    set_arena("off");
}

CASE(what_cannot_be_shared_is_refused) {
    struct dummy_buft dummy;
    dummy_buft_init(&dummy, "other", 64, 0);
    struct lastuse_arena * arena  = new_arena();
    ggml_gallocr_t  galloc = ggml_gallocr_new(dummy_buft_type(&dummy));
    CHECK(!lastuse_gallocr_share(galloc, arena), "shared");
    CHECK(strstr(lastuse_last_error(), "is not that of the arena") != NULL, "%s", lastuse_last_error());
    CHECK(!lastuse_set("arena", "everything"), "accepted");
    ggml_gallocr_free(galloc);
    lastuse_arena_free(arena);
    lastuse_arena_free(NULL);
}

CASE(an_allocator_leaves_an_arena) {
    ggml_backend_t  cpu   = new_cpu(1);
    struct lastuse_arena * arena = new_arena();
    ggml_gallocr_t  all[] = { new_tenant(arena), new_tenant(arena) };
    struct chain    first = new_chain(NULL, 32), second = new_chain(NULL, 32);
    CHECK(ggml_gallocr_reserve(all[0], first.graph) && ggml_gallocr_reserve(all[1], second.graph), "not reserved");
    size_t both = sum_of(all, 2);
    CHECK(lastuse_gallocr_share(all[0], NULL), "%s", lastuse_last_error());
    CHECK(ggml_gallocr_alloc_graph(all[0], first.graph) && ggml_gallocr_alloc_graph(all[1], second.graph), "refused");
    CHECK(sum_of(all, 2) == 2 * both, "%zu bytes, %zu when they were shared", sum_of(all, 2), both);
    set_all(first.input, 0.5f);
    compute(cpu, &first);
    set_all(second.input, 0.25f);
    compute(cpu, &second);
    check_all(first.result, truth_of(0.5f), "apart");
    ggml_gallocr_free(all[0]);
    ggml_gallocr_free(all[1]);
    lastuse_arena_free(arena);
    ggml_free(first.ctx);
    ggml_free(second.ctx);
    ggml_backend_free(cpu);
}
