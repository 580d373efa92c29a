// runs: ggml-0.26 ggml-0.9.5 ggml-0.28 LASTUSE_ON_DEMAND=all
// Compute buffers. Those of the CPU: pages beyond what later graphs need are given back after a number of runs, at unchanged
// addresses. Those of devices: memory is taken for the graphs that are allocated, not for those that are reserved. Every result
// is what it is with ggml's own allocator.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "separate_backends.h"
#include "splitmix.h"
#include "threads.h"
#include "upstream.h"

enum { WIDTH = 64, WIDE = 2048, PROMPT = 512, LAYERS = 2, NODES = 64, TOKENS = 64 };

#define KIB ((size_t) 1024)
#define MIB (1024 * KIB)

// Weights, on a backend.
struct model {
    ggml_backend_t        backend;
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor *  up[LAYERS];
    struct ggml_tensor *  down[LAYERS];
};

// A graph of n rows.
struct run {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  rows;
    struct ggml_tensor *  result;
    int                   n;
};

static void set_random(struct ggml_tensor * tensor, uint64_t seed) {
    size_t  count  = (size_t) ggml_nelements(tensor);
    float * values = malloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++) {
        values[i] = (float) (splitmix64(&seed) % 2001) / 1000.0f - 1.0f;
    }
    ggml_backend_tensor_set(tensor, values, 0, count * sizeof(float));
    free(values);
}

static struct model new_model(void) {
    struct model model = { .backend = new_cpu(1), .ctx = no_alloc_context(64 * KIB) };
    for (int i = 0; i < LAYERS; i++) {
        model.up[i]   = ggml_new_tensor_2d(model.ctx, GGML_TYPE_F32, WIDTH, WIDE);
        model.down[i] = ggml_new_tensor_2d(model.ctx, GGML_TYPE_F32, WIDE, WIDTH);
    }
    model.buffer = ggml_backend_alloc_ctx_tensors(model.ctx, model.backend);
    CHECK(model.buffer != NULL, "no memory");
    for (int i = 0; i < LAYERS; i++) {
        set_random(model.up[i], 100 + (uint64_t) i);
        set_random(model.down[i], 200 + (uint64_t) i);
    }
    return model;
}

static void free_model(struct model * model) {
    ggml_backend_buffer_free(model->buffer);
    ggml_free(model->ctx);
    ggml_backend_free(model->backend);
}

static struct run new_run(const struct model * model, int n) {
    struct run run = { .ctx = no_alloc_context(MIB), .n = n };
    run.graph      = ggml_new_graph_custom(run.ctx, NODES, false);
    run.rows       = ggml_new_tensor_2d(run.ctx, GGML_TYPE_F32, WIDTH, n);
    ggml_set_input(run.rows);
    struct ggml_tensor * x = run.rows;
    for (int i = 0; i < LAYERS; i++) {
        struct ggml_tensor * wide = ggml_silu(run.ctx, ggml_mul_mat(run.ctx, model->up[i], x));
        x                         = ggml_add(run.ctx, x, ggml_mul_mat(run.ctx, model->down[i], wide));
    }
    run.result = ggml_cont(run.ctx, ggml_view_2d(run.ctx, x, WIDTH / 2, n, x->nb[1], 0));
    ggml_set_output(run.result);
    ggml_build_forward_expand(run.graph, run.result);
    return run;
}

static size_t result_bytes(int n) {
    return (size_t) n * WIDTH / 2 * sizeof(float);
}

// What ggml's own allocator has a graph compute; the caller frees it.
static char * expected(const struct model * model, int n, uint64_t seed) {
    struct run     run    = new_run(model, n);
    ggml_gallocr_t galloc = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(upstream_ggml_gallocr_alloc_graph(galloc, run.graph), "not allocated");
    set_random(run.rows, seed);
    CHECK(ggml_backend_graph_compute(model->backend, run.graph) == GGML_STATUS_SUCCESS, "not computed");
    char * result = malloc(result_bytes(n));
    ggml_backend_tensor_get(run.result, result, 0, result_bytes(n));
    upstream_ggml_gallocr_free(galloc);
    ggml_free(run.ctx);
    return result;
}

static void check_result(const struct model * model, const struct run * run, uint64_t seed) {
    char * wanted = expected(model, run->n, seed);
    char * found  = malloc(result_bytes(run->n));
    ggml_backend_tensor_get(run->result, found, 0, result_bytes(run->n));
    CHECK(memcmp(wanted, found, result_bytes(run->n)) == 0, "%d rows of seed %d differ", run->n, (int) seed);
    free(found);
    free(wanted);
}

// A scheduler on the CPU alone, which has reserved memory for a prompt.
static ggml_backend_sched_t new_sched(const struct model * model, int n) {
    ggml_backend_t       backend = model->backend;
    ggml_backend_sched_t sched   = ggml_backend_sched_new(&backend, NULL, 1, NODES, false, false);
    struct run           run     = new_run(model, n);
    CHECK(ggml_backend_sched_reserve(sched, run.graph), "not reserved");
    ggml_free(run.ctx);
    return sched;
}

static void compute_again(const struct model * model, ggml_backend_sched_t sched, struct run * run, uint64_t seed) {
    set_random(run->rows, seed);
    CHECK(ggml_backend_sched_graph_compute(sched, run->graph) == GGML_STATUS_SUCCESS, "not computed");
    check_result(model, run, seed);
}

static struct run allocated_run(const struct model * model, ggml_backend_sched_t sched, int n) {
    struct run run = new_run(model, n);
    ggml_backend_sched_reset(sched);
    CHECK(ggml_backend_sched_alloc_graph(sched, run.graph), "%d rows are not allocated", n);
    return run;
}

// Allocates and computes a new graph. Returns the buffer that it is in.
static ggml_backend_buffer_t compute(const struct model * model, ggml_backend_sched_t sched, int n, uint64_t seed) {
    struct run            run    = allocated_run(model, sched, n);
    ggml_backend_buffer_t buffer = run.result->buffer;
    compute_again(model, sched, &run, seed);
    ggml_free(run.ctx);
    return buffer;
}

static size_t resident(ggml_backend_buffer_t buffer) {
    size_t          page   = (size_t) sysconf(_SC_PAGESIZE);
    uintptr_t       start  = (uintptr_t) ggml_backend_buffer_get_base(buffer) / page * page;
    uintptr_t       end    = (uintptr_t) ggml_backend_buffer_get_base(buffer) + ggml_backend_buffer_get_size(buffer);
    size_t          pages  = (end - start + page - 1) / page;
    unsigned char * states = malloc(pages);
    CHECK(mincore((void *) start, pages * page, states) == 0, "the memory is not mapped");
    size_t found = 0;
    for (size_t i = 0; i < pages; i++) {
        found += states[i] & 1;
    }
    free(states);
    return found * page;
}

// Bytes that a graph of n rows needs: those of a scheduler that knows no other.
static size_t needed(const struct model * model, int n) {
    ggml_backend_sched_t sched = new_sched(model, n);
    size_t               bytes = ggml_backend_sched_get_buffer_size(sched, model->backend);
    ggml_backend_sched_free(sched);
    return bytes;
}

static void check_given_back(const struct model * model, ggml_backend_buffer_t buffer) {
    // The pages at both ends are the system's to round.
    size_t most = (size_t) (1.1 * (double) needed(model, 1)) + 2 * (size_t) sysconf(_SC_PAGESIZE);
    CHECK(resident(buffer) <= most, "%zu bytes, more than %zu", resident(buffer), most);
}

static void check_kept(ggml_backend_buffer_t buffer) {
    CHECK(resident(buffer) >= 4 * MIB, "only %zu bytes", resident(buffer));
}

CASE(tokens_after_a_prompt_give_its_pages_back) {
    struct model          model  = new_model();
    ggml_backend_sched_t  sched  = new_sched(&model, PROMPT);
    size_t                size   = ggml_backend_sched_get_buffer_size(sched, model.backend);
    ggml_backend_buffer_t buffer = compute(&model, sched, PROMPT, 1);
    check_kept(buffer);
    for (uint64_t token = 0; token < TOKENS; token++) {
        CHECK(compute(&model, sched, 1, token) == buffer, "the buffer is another one");
    }
    check_given_back(&model, buffer);
    CHECK(ggml_backend_sched_get_buffer_size(sched, model.backend) == size, "the buffer shrank");
    CHECK(compute(&model, sched, PROMPT, 2) == buffer, "the buffer is another one");
    check_kept(buffer);
    ggml_backend_sched_free(sched);
    free_model(&model);
}

// Programs run a graph again without allocating it.
CASE(a_token_that_is_run_again_gives_pages_back) {
    struct model         model = new_model();
    ggml_backend_sched_t sched = new_sched(&model, PROMPT);
    compute(&model, sched, PROMPT, 1);
    struct run run = allocated_run(&model, sched, 1);
    for (uint64_t token = 0; token < TOKENS; token++) {
        compute_again(&model, sched, &run, token);
    }
    check_given_back(&model, run.result->buffer);
    ggml_free(run.ctx);
    compute(&model, sched, PROMPT, 2);
    ggml_backend_sched_free(sched);
    free_model(&model);
}

CASE(prompts_and_tokens_in_turns_keep_the_pages) {
    struct model          model  = new_model();
    ggml_backend_sched_t  sched  = new_sched(&model, PROMPT);
    ggml_backend_buffer_t buffer = NULL;
    for (uint64_t turn = 0; turn < 8; turn++) {
        buffer = compute(&model, sched, PROMPT, turn);
        for (uint64_t token = 0; token < 10; token++) {
            compute(&model, sched, 1, token);
            check_kept(buffer);
        }
    }
    ggml_backend_sched_free(sched);
    free_model(&model);
}

CASE(graphs_of_random_sizes) {
    struct model         model = new_model();
    ggml_backend_sched_t sched = new_sched(&model, PROMPT);
    uint64_t             state = 7;
    for (int i = 0; i < 150; i++) {
        int n = splitmix64(&state) % 8 == 0 ? (int) (splitmix64(&state) % PROMPT) + 1 : (int) (splitmix64(&state) % 16) + 1;
        compute(&model, sched, n, (uint64_t) i);
    }
    ggml_backend_sched_free(sched);
    free_model(&model);
}

// An allocator that a program uses itself keeps its pages until it is told.
CASE(trimmed_allocators_keep_what_the_latest_graph_needs) {
    struct model   model  = new_model();
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct run     prompt = new_run(&model, PROMPT);
    CHECK(ggml_gallocr_alloc_graph(galloc, prompt.graph), "not allocated");
    set_random(prompt.rows, 1);
    CHECK(ggml_backend_graph_compute(model.backend, prompt.graph) == GGML_STATUS_SUCCESS, "not computed");
    check_result(&model, &prompt, 1);
    ggml_backend_buffer_t buffer = prompt.result->buffer;
    struct run            token  = { 0 };
    for (uint64_t i = 0; i < TOKENS; i++) {
        if (token.ctx != NULL) {
            ggml_free(token.ctx);
        }
        token = new_run(&model, 1);
        CHECK(ggml_gallocr_alloc_graph(galloc, token.graph), "not allocated");
        set_random(token.rows, i);
        CHECK(ggml_backend_graph_compute(model.backend, token.graph) == GGML_STATUS_SUCCESS, "not computed");
        check_result(&model, &token, i);
    }
    check_kept(buffer);
    size_t size = ggml_gallocr_get_buffer_size(galloc, 0);
    CHECK(lastuse_gallocr_trim(galloc), "%s", lastuse_last_error());
    check_given_back(&model, buffer);
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) == size, "the buffer shrank");
    check_result(&model, &token, TOKENS - 1);
    struct run second = new_run(&model, PROMPT);
    CHECK(ggml_gallocr_alloc_graph(galloc, second.graph), "not allocated");
    set_random(second.rows, 3);
    CHECK(ggml_backend_graph_compute(model.backend, second.graph) == GGML_STATUS_SUCCESS, "not computed");
    check_result(&model, &second, 3);
    ggml_gallocr_free(galloc);
    ggml_free(second.ctx);
    ggml_free(token.ctx);
    ggml_free(prompt.ctx);
    free_model(&model);
}

CASE(all_allocators_of_a_process_are_trimmed) {
    struct model         model     = new_model();
    ggml_backend_sched_t scheds[2] = { new_sched(&model, PROMPT), new_sched(&model, PROMPT) };
    ggml_gallocr_t       unused    = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_t buffers[2];
    for (int i = 0; i < 2; i++) {
        buffers[i] = compute(&model, scheds[i], PROMPT, 1);
        compute(&model, scheds[i], 1, 2);
        check_kept(buffers[i]);
    }
    CHECK(lastuse_gallocr_trim(NULL), "%s", lastuse_last_error());
    for (int i = 0; i < 2; i++) {
        check_given_back(&model, buffers[i]);
        compute(&model, scheds[i], PROMPT, 3);
        ggml_backend_sched_free(scheds[i]);
    }
    ggml_gallocr_free(unused);
    CHECK(lastuse_gallocr_trim(NULL), "%s", lastuse_last_error());
    free_model(&model);
}

CASE(allocators_without_memory_are_trimmed) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(lastuse_gallocr_trim(galloc), "%s", lastuse_last_error());
    ggml_gallocr_free(galloc);
}

// The system does not take back pages that are locked.
CASE(locked_pages_stay) {
    struct model          model  = new_model();
    ggml_backend_sched_t  sched  = new_sched(&model, PROMPT);
    ggml_backend_buffer_t buffer = compute(&model, sched, PROMPT, 1);
    CHECK(mlock((char *) ggml_backend_buffer_get_base(buffer) + MIB, MIB) == 0, "not locked");
    for (uint64_t token = 0; token < TOKENS; token++) {
        compute(&model, sched, 1, token);
    }
    CHECK(resident(buffer) >= MIB, "only %zu bytes", resident(buffer));
    compute(&model, sched, PROMPT, 2);
    ggml_backend_sched_free(sched);
    free_model(&model);
}

CASE(forked_processes_give_back_pages_of_their_own) {
    struct model         model = new_model();
    ggml_backend_sched_t sched = new_sched(&model, PROMPT);
    compute(&model, sched, PROMPT, 1);
    struct run run = allocated_run(&model, sched, PROMPT);
    compute_again(&model, sched, &run, 5);
    pid_t child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0) {
        check_result(&model, &run, 5);
        for (uint64_t token = 0; token < TOKENS; token++) {
            compute(&model, sched, 1, token);
        }
        compute(&model, sched, PROMPT, 2);
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child ended with %d", status);
    check_result(&model, &run, 5);
    ggml_free(run.ctx);
    ggml_backend_sched_free(sched);
    free_model(&model);
}

// Buffers are freed while pages of others are given back, and new ones are made at their addresses.
static void * use_schedulers(void * argument) {
    uint64_t     first = *(uint64_t *) argument;
    struct model model = new_model();
    for (uint64_t round = 0; round < 4; round++) {
        ggml_backend_sched_t sched = new_sched(&model, PROMPT / 2);
        compute(&model, sched, PROMPT / 2, first + round);
        for (uint64_t token = 0; token < 12 + 4 * round; token++) {
            compute(&model, sched, 1, first + token);
        }
        ggml_backend_sched_free(sched);
    }
    free_model(&model);
    return NULL;
}

CASE(schedulers_of_several_threads) {
    uint64_t seeds[4] = { 10, 20, 30, 40 };
    in_threads(4, use_schedulers, seeds, sizeof(*seeds));
}

// The scores of n rows with each other on the first of two backends, and what is made of them on the second.
static struct run new_scores(ggml_backend_sched_t sched, const struct separate_backends * separate, int n) {
    struct run run = { .ctx = no_alloc_context(MIB), .n = n };
    run.graph      = ggml_new_graph_custom(run.ctx, NODES, false);
    run.rows       = ggml_new_tensor_2d(run.ctx, GGML_TYPE_F32, WIDTH, n);
    ggml_set_input(run.rows);
    struct ggml_tensor * scores = ggml_mul_mat(run.ctx, run.rows, run.rows);
    struct ggml_tensor * halved = ggml_scale(run.ctx, scores, 0.5f);
    struct ggml_tensor * sums   = ggml_sum_rows(run.ctx, ggml_sqr(run.ctx, halved));
    run.result                  = ggml_neg(run.ctx, sums);
    ggml_set_output(run.result);
    ggml_build_forward_expand(run.graph, run.result);
    if (sched != NULL) {
        ggml_backend_sched_set_tensor_backend(sched, scores, separate->backends[0]);
        ggml_backend_sched_set_tensor_backend(sched, halved, separate->backends[0]);
        ggml_backend_sched_set_tensor_backend(sched, sums, separate->backends[0]);
        ggml_backend_sched_set_tensor_backend(sched, run.result, separate->backends[1]);
    }
    return run;
}

struct scheduled {
    struct separate_backends separate;
    ggml_backend_sched_t     sched;
    ggml_backend_t           cpu;
};

static void reserve_scores(struct scheduled * it, int n) {
    struct run run = new_scores(it->sched, &it->separate, n);
    CHECK(ggml_backend_sched_reserve(it->sched, run.graph), "not reserved");
    ggml_free(run.ctx);
}

// `it` must not be moved.
static void init_scheduled(struct scheduled * it, bool parallel) {
    separate_backends_init(&it->separate, 1);
    it->cpu   = new_cpu(1);
    it->sched = ggml_backend_sched_new(it->separate.backends, it->separate.types, BACKENDS, 4 * NODES, parallel, false);
    reserve_scores(it, PROMPT);
}

static void free_scheduled(struct scheduled * it) {
    ggml_backend_sched_free(it->sched);
    ggml_backend_free(it->cpu);
    separate_backends_free(&it->separate);
}

static size_t held(struct scheduled * it) {
    return ggml_backend_sched_get_buffer_size(it->sched, it->separate.backends[0]);
}

// Allocates and computes the scores of n rows, whose results are those of ggml's own allocator.
static void compute_scores(struct scheduled * it, int n, uint64_t seed) {
    struct run     wanted = new_scores(NULL, NULL, n);
    ggml_gallocr_t galloc = upstream_ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(upstream_ggml_gallocr_alloc_graph(galloc, wanted.graph), "not allocated");
    set_random(wanted.rows, seed);
    CHECK(ggml_backend_graph_compute(it->cpu, wanted.graph) == GGML_STATUS_SUCCESS, "not computed");

    ggml_backend_sched_reset(it->sched);
    struct run found = new_scores(it->sched, &it->separate, n);
    CHECK(ggml_backend_sched_alloc_graph(it->sched, found.graph), "%d rows are not allocated", n);
    // Twice: programs run a graph again without allocating it.
    for (uint64_t again = 2; again-- > 0;) {
        set_random(found.rows, seed + again);
        CHECK(ggml_backend_sched_graph_compute(it->sched, found.graph) == GGML_STATUS_SUCCESS, "not computed");
    }
    float * values = malloc(2 * (size_t) n * sizeof(float));
    ggml_backend_tensor_get(wanted.result, values, 0, (size_t) n * sizeof(float));
    ggml_backend_tensor_get(found.result, values + n, 0, (size_t) n * sizeof(float));
    CHECK(memcmp(values, values + n, (size_t) n * sizeof(float)) == 0, "%d rows differ", n);
    free(values);
    upstream_ggml_gallocr_free(galloc);
    ggml_free(wanted.ctx);
    ggml_free(found.ctx);
}

CASE(devices_take_memory_for_the_graphs_that_are_allocated) {
    struct scheduled it;
    init_scheduled(&it, false);
    size_t all = (size_t) PROMPT * PROMPT * sizeof(float);
    CHECK(held(&it) == 0, "%zu bytes for a reservation", held(&it));
    compute_scores(&it, 4, 1);
    CHECK(held(&it) > 0 && held(&it) < all / 20, "%zu bytes for four rows", held(&it));
    compute_scores(&it, PROMPT / 4, 2);
    CHECK(held(&it) < all / 4, "%zu bytes for a quarter", held(&it));
    compute_scores(&it, PROMPT, 3);
    CHECK(held(&it) >= all, "only %zu bytes for all rows", held(&it));
    size_t most = held(&it);
    compute_scores(&it, 1, 4);
    compute_scores(&it, PROMPT, 5);
    CHECK(held(&it) == most, "%zu bytes, not %zu", held(&it), most);
    CHECK(it.separate.dummies[0].peak_bytes == most, "%zu bytes at once", it.separate.dummies[0].peak_bytes);
    free_scheduled(&it);
}

CASE(buffers_grow_a_few_times) {
    for (int parallel = 0; parallel < 2; parallel++) {
        struct scheduled it;
        init_scheduled(&it, parallel);
        uint64_t state = 11;
        int      grown = 0;
        for (int i = 0; i < 300; i++) {
            size_t before = held(&it);
            compute_scores(&it, (int) (splitmix64(&state) % PROMPT) + 1, (uint64_t) i);
            grown += held(&it) != before;
        }
        CHECK(grown >= 1 && grown <= 8, "%d growths", grown);
        free_scheduled(&it);
    }
}

// A device that has no more memory refuses the graph, and the next smaller one is computed.
CASE(refused_growth_leaves_what_was_held) {
    struct scheduled it;
    init_scheduled(&it, false);
    compute_scores(&it, PROMPT / 4, 1);
    size_t before                   = held(&it);
    it.separate.dummies[0].byte_cap = before + KIB;
    ggml_backend_sched_reset(it.sched);
    struct run run = new_scores(it.sched, &it.separate, PROMPT);
    CHECK(!ggml_backend_sched_alloc_graph(it.sched, run.graph), "there is memory");
    ggml_free(run.ctx);
    CHECK(held(&it) == before, "%zu bytes, not %zu", held(&it), before);
    ggml_backend_sched_reset(it.sched);
    compute_scores(&it, PROMPT / 4, 2);
    it.separate.dummies[0].byte_cap = SIZE_MAX;
    compute_scores(&it, PROMPT, 3);
    free_scheduled(&it);
}

CASE(reservations_after_small_graphs_give_device_memory_back) {
    struct scheduled it;
    init_scheduled(&it, false);
    compute_scores(&it, PROMPT, 1);
    size_t most = held(&it);
    for (uint64_t i = 0; i < TOKENS; i++) {
        compute_scores(&it, 1, i);
    }
    CHECK(held(&it) == most, "%zu bytes without a reservation", held(&it));
    reserve_scores(&it, PROMPT);
    compute_scores(&it, 1, 2);
    CHECK(held(&it) < most / 20, "%zu bytes", held(&it));
    compute_scores(&it, PROMPT, 3);
    free_scheduled(&it);
}

// A scheduler that ends the program where it reserves again has all memory from the reservation on.
CASE(schedulers_that_never_reserve_again_have_all_memory) {
    CHECK(setenv("GGML_SCHED_DEBUG_REALLOC", "1", 1) == 0, "no room in the environment");
    struct scheduled it;
    init_scheduled(&it, false);
    CHECK(held(&it) >= (size_t) PROMPT * PROMPT * sizeof(float), "only %zu bytes", held(&it));
    for (int n = 1; n <= PROMPT; n *= 2) {
        compute_scores(&it, n, (uint64_t) n);
    }
    free_scheduled(&it);
}

// A program that uses an allocator of several buffers itself never reserves again.
CASE(reservations_without_a_scheduler_take_memory) {
    struct separate_backends separate;
    separate_backends_init(&separate, 1);
    ggml_gallocr_t galloc = ggml_gallocr_new_n(separate.types, BACKENDS);
    struct run     large  = new_scores(NULL, NULL, PROMPT);
    int            ids[NODES] = { 0 };
    CHECK(ggml_gallocr_reserve_n(galloc, large.graph, ids, ids), "not reserved");
    CHECK(ggml_gallocr_get_buffer_size(galloc, 0) >= (size_t) PROMPT * PROMPT * sizeof(float), "no memory is held");
    for (int n = 1; n <= PROMPT; n *= 2) {
        struct run run = new_scores(NULL, NULL, n);
        CHECK(ggml_gallocr_alloc_graph(galloc, run.graph), "%d rows are not allocated", n);
        ggml_free(run.ctx);
    }
    ggml_free(large.ctx);
    ggml_gallocr_free(galloc);
    separate_backends_free(&separate);
}
