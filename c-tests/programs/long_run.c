// runs: ggml-0.26
//
// Graphs of ever-changing shapes, allocated again and again: memory must not grow. The times of calls are printed: they must not
// rise, which depends on what else the machine does.
//
//   long_run <case> [calls]
//
// prints the processor time of a call of ggml_gallocr_alloc_graph in each tenth of the calls. A million calls:
// docs/internals/measurements.md.

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "ggml.h"
#include "lastuse.h"
#include "plan_check.h"
#include "processor_clock.h"
#include "splitmix.h"
#include "threads.h"
#include "transformer.h"

#define ALIGNMENT   64
#define MOST_LAYERS 3
#define TENTHS      10
#define N_THREADS   4
#define FEW_CALLS   20000
#define GROWTH      (256 * 1024) // bytes that malloc may keep more at the end than after the first tenth

static const struct shape LARGEST = { .layers = MOST_LAYERS, .tokens = 32, .past = 90 };

static struct shape next_shape(uint64_t * random) {
    return (struct shape){
        .layers = 1 + (int) (splitmix64(random) % (uint64_t) LARGEST.layers),
        .tokens = 1 + (int) (splitmix64(random) % (uint64_t) LARGEST.tokens),
        .past   = (int) (splitmix64(random) % (uint64_t) (LARGEST.past + 1)),
    };
}

// An allocator, and the memory in which graphs are built again and again: one for each number of layers.
struct runner {
    uint64_t          random;
    struct dummy_buft dummy;
    ggml_gallocr_t    galloc;
    struct built      rooms[MOST_LAYERS];
};

// `runner` must not be moved until it is freed: its allocator has the address of its buffer type.
static void runner_init(struct runner * runner, uint64_t seed) {
    runner->random = seed;
    dummy_buft_init(&runner->dummy, "dummy", ALIGNMENT, 0);
    runner->dummy.imaginary = true;
    runner->galloc          = ggml_gallocr_new(dummy_buft_type(&runner->dummy));
    for (int i = 0; i < MOST_LAYERS; i++) {
        runner->rooms[i] = transformer_new((struct shape){ i + 1, LARGEST.tokens, LARGEST.past });
        CHECK(ggml_gallocr_alloc_graph(runner->galloc, runner->rooms[i].graph), "not allocated");
    }
}

static void runner_free(struct runner * runner) {
    ggml_gallocr_free(runner->galloc);
    for (int i = 0; i < MOST_LAYERS; i++) {
        built_free(runner->rooms[i]);
    }
    CHECK(runner->dummy.live_buffers == 0, "%zu buffers leaked", runner->dummy.live_buffers);
}

// Returns the microseconds of processor time that the allocations take together.
static double allocate(struct runner * runner, long long calls) {
    double spent = 0.0;
    for (long long i = 0; i < calls; i++) {
        struct shape   shape = next_shape(&runner->random);
        struct built * room  = &runner->rooms[shape.layers - 1];
        *room                = transformer_in(built_again(*room), shape);
        double start         = processor_seconds_now();
        CHECK(ggml_gallocr_alloc_graph(runner->galloc, room->graph), "not allocated");
        spent += (processor_seconds_now() - start) * 1e6;
    }
    return spent;
}

static void check_last_plan(const struct runner * runner) {
    for (int i = 0; i < MOST_LAYERS; i++) {
        CHECK_PLAN(runner->rooms[i].graph, "%s", "the latest graph");
    }
}

static void run_tenths(long long calls) {
    struct runner runner;
    size_t        first = 0;
    runner_init(&runner, 1);
    size_t buffer = ggml_gallocr_get_buffer_size(runner.galloc, 0);
    for (int tenth = 0; tenth < TENTHS; tenth++) {
        double spent = allocate(&runner, calls / TENTHS);
        size_t used  = mallinfo2().uordblks + mallinfo2().hblkhd;
        first        = tenth == 0 ? used : first;
        printf("calls %lld to %lld: %.2f us each, %zu bytes allocated\n", tenth * (calls / TENTHS) + 1,
               (tenth + 1) * (calls / TENTHS), spent * TENTHS / (double) calls, used);
        CHECK(used < first + GROWTH, "%zu bytes became %zu", first, used);
    }
    check_last_plan(&runner);
    CHECK(ggml_gallocr_get_buffer_size(runner.galloc, 0) == buffer, "the buffer has grown for smaller graphs");
    CHECK(runner.dummy.live_buffers == 1, "%zu buffers", runner.dummy.live_buffers);
    runner_free(&runner);
}

CASE(memory_does_not_grow) {
    run_tenths(case_number(args, 0, FEW_CALLS));
}

CASE(memory_does_not_grow_with_another_order) {
    setenv("LASTUSE_REORDER", "on", 1);
    run_tenths(case_number(args, 0, FEW_CALLS));
}

static size_t resident_pages(void) {
    FILE *    file = fopen("/proc/self/statm", "r");
    long long all = 0, resident = 0;
    CHECK(file != NULL && fscanf(file, "%lld %lld", &all, &resident) == 2, "no /proc/self/statm");
    fclose(file);
    return (size_t) resident;
}

struct share {
    uint64_t  seed;
    long long calls;
};

// A program that starts a thread for each request, each with its own allocator.
static void * run_share(void * argument) {
    struct share  share = *(const struct share *) argument;
    struct runner runner;
    runner_init(&runner, share.seed);
    allocate(&runner, share.calls);
    runner_free(&runner);
    return NULL;
}

static void run_in_threads(long long calls, uint64_t seed) {
    struct share shares[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        shares[i] = (struct share){ .seed = seed + (uint64_t) i, .calls = calls };
    }
    in_threads(N_THREADS, run_share, shares, sizeof(*shares));
}

CASE(memory_does_not_grow_with_threads_that_come_and_go) {
    long long rounds = 100;
    long long calls  = case_number(args, 0, FEW_CALLS) / rounds / N_THREADS;
    size_t    first  = 0;
    for (int round = 0; round < rounds; round++) {
        run_in_threads(calls, 1 + (uint64_t) round * N_THREADS);
        malloc_trim(0);
        size_t pages = resident_pages();
        first        = round == rounds / TENTHS ? pages : first;
        // Stacks and arenas of threads are kept by the C library, in pieces.
        CHECK(first == 0 || pages < first + 512, "%zu resident pages became %zu in round %d", first, pages, round);
    }
    printf("%lld threads: %zu resident pages, %zu at the end\n", rounds * N_THREADS, first, resident_pages());
}
