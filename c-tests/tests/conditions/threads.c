// Several allocators in several threads, each with its own graphs: valgrind's helgrind must report nothing, and with
// "race" a data race.
//
//   threads apart|race

#include <pthread.h>

#include "cases.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "random_graph.h"
#include "reports.h"

#define N_THREADS 4
#define N_GRAPHS  12

struct worker {
    pthread_t         thread;
    int               number;
    ggml_gallocr_t    shared; // NULL: each worker has its own allocator
    struct dummy_buft type;
};

static void plan(ggml_gallocr_t galloc, uint64_t seed) {
    struct random_graph_options options = { .n_steps = 12, .max_elements = 256 };
    struct random_graph         g       = random_graph_new(seed, options);
    CHECK(ggml_gallocr_reserve(galloc, g.graph), "not reserved");
    CHECK(ggml_gallocr_alloc_graph(galloc, g.graph), "not allocated");
    random_graph_free(&g);
}

// State shared by all allocators: statistics, the number of plans, the last error.
static void ask_for_totals(ggml_gallocr_t galloc) {
    struct lastuse_stats stats = { .struct_size = sizeof(stats) };
    lastuse_stats_report(&stats);
    CHECK(plans_made() > 0, "a graph was planned");
    CHECK(!lastuse_gallocr_set(galloc, "rules", "no-such-rule"), "it is refused");
    CHECK(lastuse_last_error() != NULL, "there is a reason");
}

static void * work(void * argument) {
    struct worker * worker = argument;
    ggml_gallocr_t  galloc = worker->shared;
    if (galloc == NULL) {
        dummy_buft_init(&worker->type, "own", 64, (size_t) worker->number * 4096); // most need several chunks
        worker->type.imaginary = true;
        galloc                 = ggml_gallocr_new(dummy_buft_type(&worker->type));
    }
    for (int i = 0; i < N_GRAPHS; i++) {
        plan(galloc, (uint64_t) (worker->number * N_GRAPHS + i));
        ask_for_totals(galloc);
    }
    if (worker->shared == NULL) {
        ggml_gallocr_free(galloc);
    }
    return NULL;
}

static void run(ggml_gallocr_t shared) {
    struct worker workers[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){ .number = i, .shared = shared };
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "no thread");
    }
    for (int i = 0; i < N_THREADS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0, "no end of thread %d", i);
    }
}

// Facts about ggml and its operations that are found once are found before: valgrind does not know atomic variables, by
// which it is published.
static void warm_up(void) {
    for (int i = 0; i < N_THREADS; i++) {
        work(&(struct worker){ .number = i });
    }
}

CASE(apart) {
    warm_up();
    run(NULL);
}

// One allocator for all of them, one at a time only by chance: forbidden.
CASE(race) {
    struct dummy_buft type;
    dummy_buft_init(&type, "shared", 64, 0);
    type.imaginary        = true;
    ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&type));
    run(galloc);
    ggml_gallocr_free(galloc);
}
