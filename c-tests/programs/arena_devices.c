// runs: ggml-0.26 ggml-0.9.5 ggml-0.28
// Schedulers that share memory of a device which computes while the program goes on: the turn of each is told, and what another one
// computes has ended before.

#include "cases.h"
#include "ggml-alloc.h"
#include "late_contexts.h"
#include "lastuse.h"
#include "splitmix.h"
#include "threads.h"

enum { CONTEXTS = 3, TURNS = 60 };

static void set_arena(const char * value) {
    CHECK(lastuse_set("arena", value), "%s", lastuse_last_error());
}

static void tell_turn(ggml_backend_sched_t sched) {
    lastuse_arena_turn(sched, sched != NULL ? ggml_backend_sched_synchronize : NULL);
}

static void tell_nothing(ggml_backend_sched_t sched) {
    (void) sched;
}

static void do_not_wait(ggml_backend_sched_t sched) {
    (void) sched;
}

static void tell_without_waiting(ggml_backend_sched_t sched) {
    lastuse_arena_turn(sched, sched != NULL ? do_not_wait : NULL);
}

struct outcome {
    size_t bytes; // of the device, when all have computed
    size_t wrong;
};

static void init_backends(struct separate_backends * separate, bool is_never_reset) {
    separate_backends_init(separate, 1);
    for (int i = 0; i < separate->count; i++) {
        separate->dummies[i].is_never_reset = is_never_reset;
    }
}

// Contexts of 8, 32 and 128 rows in turns, some of which compute their latest graph again. Backends may keep something of each
// tensor in buffers that they reset.
static struct outcome in_turns_on(bool is_never_reset, const char * setting, begin_turn_fn begin_turn, uint64_t seed) {
    struct separate_backends separate;
    struct late_context      contexts[CONTEXTS];
    struct outcome           outcome = { 0, 0 };
    init_backends(&separate, is_never_reset);
    set_arena(setting);
    for (int i = 0; i < CONTEXTS; i++) {
        late_context_init(&contexts[i], &separate, (int64_t) 8 << (2 * i));
    }
    set_arena("off");
    for (int turn = 0; turn < TURNS; turn++) {
        struct late_context * it    = &contexts[turn < CONTEXTS ? turn : (int) (splitmix64(&seed) % CONTEXTS)];
        bool                  anew  = splitmix64(&seed) % 2 == 0;
        float                 value = (float) (splitmix64(&seed) % 100 + 1) / 128.0f;
        if (it->expected != 0.0f && begin_turn == tell_turn) {
            outcome.wrong += late_context_wrong(it);
        }
        late_context_turn(it, begin_turn, anew, value);
    }
    for (int i = 0; i < CONTEXTS; i++) {
        outcome.wrong += late_context_wrong(&contexts[i]);
    }
    // Each once more, so that no graph is in memory of before.
    for (int i = 0; i < CONTEXTS; i++) {
        late_context_turn(&contexts[i], begin_turn, true, 0.25f);
    }
    for (int i = 0; i < CONTEXTS; i++) {
        outcome.bytes += late_context_bytes(&contexts[i]);
    }
    begin_turn(NULL);
    for (int i = 0; i < CONTEXTS; i++) {
        lastuse_arena_turn(contexts[i].sched, NULL);
        late_context_free(&contexts[i]);
    }
    separate_backends_free(&separate);
    return outcome;
}

static struct outcome in_turns(const char * setting, begin_turn_fn begin_turn, uint64_t seed) {
    return in_turns_on(true, setting, begin_turn, seed);
}

static size_t of_one(int64_t rows) {
    struct separate_backends separate;
    struct late_context      context;
    init_backends(&separate, true);
    late_context_init(&context, &separate, rows);
    late_context_turn(&context, tell_nothing, true, 0.5f);
    size_t bytes = late_context_bytes(&context);
    late_context_free(&context);
    separate_backends_free(&separate);
    return bytes;
}

CASE(schedulers_of_a_device_take_the_bytes_of_the_largest) {
    struct seeds seeds = seeds_from(args, 20);
    FOR_SEEDS(seed, seeds) {
        struct outcome outcome = in_turns("shared", tell_turn, (uint64_t) seed);
        CHECK(outcome.wrong == 0, "seed %lld: %zu wrong elements", seed, outcome.wrong);
        CHECK(outcome.bytes == of_one(128), "seed %lld: %zu bytes, the largest has %zu", seed, outcome.bytes, of_one(128));
    }
}

// A graph that is refused first, since it needs more, gets the larger chunks when the smaller ones are freed
CASE(a_device_never_has_the_old_chunks_and_the_new_ones) {
    const char * settings[] = { "shared", "shared,outputs" };
    for (int i = 0; i < 2; i++) {
        struct separate_backends separate;
        struct late_context      context;
        init_backends(&separate, true);
        set_arena(settings[i]);
        late_context_init(&context, &separate, 128);
        set_arena("off");
        for (int64_t rows = 8; rows <= 128; rows *= 4) {
            context.rows = rows;
            late_context_turn(&context, tell_turn, true, 0.5f);
            CHECK(late_context_wrong(&context) == 0, "%s, %lld rows: wrong", settings[i], (long long) rows);
        }
        const struct dummy_buft * device = &separate.dummies[0];
        CHECK(device->peak_bytes == device->live_bytes, "%s: %zu bytes at a time, %zu at the end", settings[i],
              device->peak_bytes, device->live_bytes);
        lastuse_arena_turn(context.sched, NULL);
        late_context_free(&context);
        separate_backends_free(&separate);
    }
}

CASE(outputs_of_a_device_stay) {
    struct outcome outcome = in_turns("shared,outputs", tell_turn, 1);
    CHECK(outcome.wrong == 0, "%zu wrong elements", outcome.wrong);
    size_t results = (8 + 32 + 128) * CHAIN_COLUMNS * sizeof(float);
    CHECK(outcome.bytes <= of_one(128) + results, "%zu bytes", outcome.bytes);
}

CASE(buffers_that_are_reset_are_not_shared) {
    struct outcome outcome = in_turns_on(false, "shared", tell_turn, 1);
    CHECK(outcome.wrong == 0, "%zu wrong elements", outcome.wrong);
    CHECK(outcome.bytes == of_one(8) + of_one(32) + of_one(128), "%zu bytes", outcome.bytes);
}

CASE(nothing_is_shared_where_no_turn_is_told) {
    struct outcome outcome = in_turns("shared", tell_nothing, 1);
    CHECK(outcome.wrong == 0, "%zu wrong elements", outcome.wrong);
    CHECK(outcome.bytes == of_one(8) + of_one(32) + of_one(128), "%zu bytes", outcome.bytes);
}

// The device is as late as a device can be, so this shows that the waiting is what keeps the results.
CASE(results_are_lost_where_nothing_waits) {
    size_t wrong = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        wrong += in_turns("shared", tell_without_waiting, seed).wrong;
    }
    CHECK(wrong > 0, "the device computes at once, or nothing is shared");
}

// A scheduler that another thread goes on with.
static void * turn_elsewhere(void * argument) {
    struct late_context * it = argument;
    late_context_turn(it, tell_turn, true, 0.375f);
    CHECK(late_context_wrong(it) == 0, "wrong on the other thread");
    late_context_turn(it, tell_turn, true, 0.4375f);
    return NULL;
}

CASE(schedulers_move_between_threads) {
    struct separate_backends separate;
    struct late_context      contexts[2];
    init_backends(&separate, true);
    set_arena("shared");
    late_context_init(&contexts[0], &separate, 16);
    late_context_init(&contexts[1], &separate, 64);
    set_arena("off");
    for (int run = 0; run < 4; run++) {
        late_context_turn(&contexts[0], tell_turn, run % 2 == 0, 0.5f);
        late_context_turn(&contexts[1], tell_turn, run % 2 == 0, 0.25f);
        in_threads(1, turn_elsewhere, &contexts[run % 2], sizeof(contexts[0]));
        late_context_turn(&contexts[run % 2], tell_turn, true, 0.125f);
        CHECK(late_context_wrong(&contexts[0]) == 0 && late_context_wrong(&contexts[1]) == 0, "run %d: wrong", run);
    }
    // Freed without a word, while it is its turn.
    ggml_backend_sched_synchronize(contexts[1].sched);
    late_context_free(&contexts[1]);
    late_context_turn(&contexts[0], tell_turn, true, 0.5f);
    CHECK(late_context_wrong(&contexts[0]) == 0, "wrong at the end");
    lastuse_arena_turn(contexts[0].sched, NULL);
    late_context_free(&contexts[0]);
    separate_backends_free(&separate);
}

static void allocate(struct late_context * it, struct ggml_tensor * source) {
    late_context_allocate(it, tell_turn, source);
}

static void discard(struct late_context * it) {
    ggml_backend_sched_reset(it->sched);
    lastuse_arena_discard(it->sched);
}

static void compute(struct late_context * it, float expected) {
    tell_turn(it->sched);
    CHECK(ggml_backend_sched_graph_compute(it->sched, it->chain.graph) == GGML_STATUS_SUCCESS, "not computed");
    ggml_backend_tensor_get(it->chain.result, it->result, 0, ggml_nbytes(it->chain.result));
    it->expected = expected;
    CHECK(late_context_wrong(it) == 0, "wrong");
}

static void init_contexts(struct separate_backends * separate, struct late_context * contexts, const int64_t * rows, int count) {
    init_backends(separate, true);
    set_arena("shared");
    for (int i = 0; i < count; i++) {
        late_context_init(&contexts[i], separate, rows[i]);
    }
    set_arena("off");
}

static void free_contexts(struct separate_backends * separate, struct late_context * contexts, int count) {
    for (int i = 0; i < count; i++) {
        lastuse_arena_turn(contexts[i].sched, NULL);
        late_context_free(&contexts[i]);
    }
    CHECK(separate->dummies[0].live_bytes == 0, "%zu bytes are left", separate->dummies[0].live_bytes);
    separate_backends_free(separate);
}

// As whisper.cpp: at the start each graph is allocated, and discarded; two of them read a result of the one before.
CASE(discarded_graphs_leave_their_memory_to_the_next) {
    const int64_t all_rows[][4] = { { 64, 64, 64, 128 }, { 64, 64, 64, 8 } };
    for (int i = 0; i < 2; i++) {
        const int64_t *          rows = all_rows[i];
        struct separate_backends separate;
        struct late_context      contexts[4];
        init_contexts(&separate, contexts, rows, 4);
        const struct dummy_buft * device = &separate.dummies[0];
        size_t                    result = (size_t) rows[0] * CHAIN_COLUMNS * sizeof(float);
        size_t                    most   = of_one(64) + result > of_one(rows[3]) ? of_one(64) + result : of_one(rows[3]);
        for (int at = 0; at < 4; at++) {
            allocate(&contexts[at], at == 1 || at == 2 ? contexts[at - 1].chain.result : NULL);
            discard(&contexts[at]);
        }
        CHECK(device->peak_bytes <= most, "%zu bytes at a time, more than %zu", device->peak_bytes, most);
        for (int run = 0; run < 3; run++) {
            float value = 0.25f * (float) (run + 1);
            allocate(&contexts[0], NULL);
            set_input_to(contexts[0].chain.input, value);
            compute(&contexts[0], truth_of(value));
            allocate(&contexts[1], contexts[0].chain.result);
            compute(&contexts[1], truth_of(truth_of(value)));
            allocate(&contexts[2], contexts[1].chain.result);
            compute(&contexts[2], truth_of(truth_of(truth_of(value))));
            allocate(&contexts[3], NULL);
            set_input_to(contexts[3].chain.input, value);
            compute(&contexts[3], truth_of(value));
        }
        // Both results are apart.
        CHECK(device->peak_bytes <= most + 2 * result, "%zu bytes at a time", device->peak_bytes);
        free_contexts(&separate, contexts, 4);
    }
}

// A program relies on what ggml does not promise: that the input of a discarded graph stays.
CASE(what_the_next_graph_reads_of_a_discarded_one_stays) {
    struct separate_backends separate;
    struct late_context      contexts[2];
    init_contexts(&separate, contexts, (const int64_t[]) { 16, 16 }, 2);
    allocate(&contexts[0], NULL);
    set_input_to(contexts[0].chain.input, 0.5f);
    discard(&contexts[0]);
    allocate(&contexts[1], contexts[0].chain.input);
    compute(&contexts[1], truth_of(0.5f));
    // Freed while its graph is discarded, which another one has read.
    allocate(&contexts[0], NULL);
    discard(&contexts[0]);
    allocate(&contexts[1], contexts[0].chain.result);
    free_contexts(&separate, contexts, 2);
}

// A program that waits itself, and uses allocators without a scheduler.
CASE(allocators_of_a_device_share_an_arena) {
    struct separate_backends separate;
    init_backends(&separate, true);
    struct lastuse_arena * arena = lastuse_arena_new(separate.types[0]);
    ggml_gallocr_t         all[] = { ggml_gallocr_new(separate.types[0]), ggml_gallocr_new(separate.types[0]) };
    ggml_gallocr_t         other = ggml_gallocr_new(separate.types[1]);
    CHECK(arena != NULL && lastuse_gallocr_share(all[0], arena) && lastuse_gallocr_share(all[1], arena), "not shared");
    CHECK(!lastuse_gallocr_share(other, arena), "of another type");
    for (int i = 0; i < 2; i++) {
        struct late_backend late;
        struct chain        chain    = new_chain(NULL, 32);
        float               expected = truth_of(0.5f), first = 0.0f;
        late_backend_init(&late, separate.cpu[0], &separate.devices[0]);
        CHECK(ggml_gallocr_alloc_graph(all[i], chain.graph), "refused");
        set_input_to(chain.input, 0.5f);
        ggml_backend_graph_compute_async(&late.backend, chain.graph);
        ggml_backend_tensor_get_async(&late.backend, chain.result, &first, 0, sizeof(first));
        ggml_backend_synchronize(&late.backend);
        CHECK(first == expected, "%g", (double) first);
        ggml_free(chain.ctx);
    }
    CHECK(ggml_gallocr_get_buffer_size(all[0], 0) > 0 && ggml_gallocr_get_buffer_size(all[1], 0) == 0,
          "the second one takes memory of its own");
    ggml_gallocr_free(all[0]);
    ggml_gallocr_free(all[1]);
    ggml_gallocr_free(other);
    lastuse_arena_free(arena);
    separate_backends_free(&separate);
}
