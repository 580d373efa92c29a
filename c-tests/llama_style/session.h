// Running the model: the reservation, the prompt, the decode steps.
#pragma once

#include "copy_time.h"
#include "errors.h"
#include "ggml.h"
#include "ggml-backend.h"
#include "graph.h"
#include "graph_memory.h"
#include "hash.h"
#include "model.h"
#include "random.h"
#include "timing.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PLAN_SAMPLES 21

struct session {
    const struct model * model;
    struct arena         arena;
    struct graph_memory  memory;
    int32_t *            prompt;
    float *              logits;
};

struct results {
    size_t   measured_size;      // of the worst-case graph; only by lastuse's API, and for an allocator alone
    size_t   buffer_size;
    bool     has_lower_bound;
    size_t   lower_bound;
    int      n_nodes;            // of the worst-case graph
    double   plan_us;
    double   alloc_graph_us;     // of the decode steps; unknown without any
    double   prompt_tokens_per_s;
    double   decode_tokens_per_s; // unknown without decode steps
    uint64_t logits_hash;
    struct copies copies;        // of the worst-case graph
    struct copy_time copy_time;  // of the prompt
};

static int32_t * random_prompt(const struct options * opt) {
    int32_t * tokens = checked_calloc((size_t) opt->prompt, sizeof(*tokens));
    uint64_t state = ~(uint64_t) opt->seed; // another stream than the weights
    for (int i = 0; i < opt->prompt; i++) {
        tokens[i] = (int32_t) (next_random(&state) % (uint64_t) opt->vocab);
    }
    return tokens;
}

static struct session session_new(const struct model * model, ggml_backend_t backend) {
    const struct options * opt = &model->opt;
    struct session session = {
        .model  = model,
        .arena  = arena_new(opt),
        .prompt = random_prompt(opt),
        .logits = checked_calloc((size_t) opt->vocab, sizeof(float)),
    };
    session.memory = graph_memory_new(opt->allocator, backend, session.arena.max_nodes);
    return session;
}

static void session_free(struct session * session) {
    graph_memory_free(&session->memory);
    free(session->logits);
    free(session->prompt);
    arena_free(&session->arena);
}

// Token i attends to the cache rows up to its own position; the rest, the padding included, is masked.
static void set_mask(struct ggml_tensor * mask, const struct batch * batch) {
    const size_t n_kv  = (size_t) batch->n_kv;
    const size_t count = n_kv * (size_t) batch->n_tokens;
    float * values = checked_calloc(count, sizeof(*values));
    for (int i = 0; i < batch->n_tokens; i++) {
        for (int j = batch->first_pos + i + 1; j < batch->n_kv; j++) {
            values[(size_t) i * n_kv + (size_t) j] = -INFINITY;
        }
    }
    ggml_backend_tensor_set(mask, values, 0, count * sizeof(*values));
    free(values);
}

static void set_inputs(const struct graph * graph, const struct batch * batch) {
    const size_t n = (size_t) batch->n_tokens;
    int32_t * positions = checked_calloc(n, sizeof(*positions));
    int64_t * kv_rows   = checked_calloc(n, sizeof(*kv_rows));
    for (int i = 0; i < batch->n_tokens; i++) {
        positions[i] = batch->first_pos + i;
        kv_rows[i]   = batch->first_pos + i;
    }
    const int32_t last_token = batch->n_tokens - 1;

    ggml_backend_tensor_set(graph->tokens,    batch->tokens, 0, n * sizeof(*batch->tokens));
    ggml_backend_tensor_set(graph->positions, positions,     0, n * sizeof(*positions));
    if (graph->kv_rows != NULL) {
        ggml_backend_tensor_set(graph->kv_rows, kv_rows, 0, n * sizeof(*kv_rows));
    }
    if (graph->out_rows != NULL) {
        ggml_backend_tensor_set(graph->out_rows, &last_token, 0, sizeof(last_token));
    }
    set_mask(graph->mask, batch);
    free(positions);
    free(kv_rows);
}

// Runs one batch from an empty graph to the logits of its last token; returns the time of the allocation in microseconds.
static double run_batch(struct session * session, const struct batch * batch) {
    struct graph graph = graph_new(session->model, &session->arena, batch);
    const double alloc_us = graph_memory_alloc(&session->memory, &graph);
    set_inputs(&graph, batch);
    graph_memory_compute(&session->memory, &graph);
    const size_t row_size = (size_t) session->model->opt.vocab * sizeof(*session->logits);
    ggml_backend_tensor_get(graph.logits, session->logits, ggml_nbytes(graph.logits) - row_size, row_size);
    graph_free(&session->arena, &graph);
    return alloc_us;
}

static void check_and_hash_logits(const struct session * session, int position, uint64_t * hash) {
    const int vocab = session->model->opt.vocab;
    for (int i = 0; i < vocab; i++) {
        if (!isfinite(session->logits[i])) {
            die("logit %d after the token at position %d is not finite: %f", i, position, (double) session->logits[i]);
        }
    }
    *hash = fnv1a_64(*hash, session->logits, (size_t) vocab * sizeof(*session->logits));
}

static int32_t most_likely_token(const struct session * session) {
    int32_t best = 0;
    for (int32_t i = 1; i < session->model->opt.vocab; i++) {
        if (session->logits[i] > session->logits[best]) {
            best = i;
        }
    }
    return best;
}

// Reserves for the prompt over the whole KV cache, the largest graph that will come. The first call creates the buffer;
// the timed ones find it there, so that they show planning and not the system's memory. Every call gets a graph of its
// own, because a scheduler may not see the same tensors twice.
static void reserve_worst_case(struct session * session, struct results * results) {
    const struct batch worst = {
        .tokens = session->prompt, .n_tokens = session->model->opt.prompt, .n_kv = session->model->kv_capacity,
    };
    double samples[PLAN_SAMPLES];
    for (int i = -1; i < PLAN_SAMPLES; i++) {
        struct graph graph = graph_new(session->model, &session->arena, &worst);
        if (i < 0 && session->model->opt.api == API_LASTUSE && session->memory.gallocr != NULL) {
            results->measured_size = api_measure(graph.cgraph, session->memory.backend);
        }
        const double time = graph_memory_reserve(&session->memory, &graph);
        if (i >= 0) {
            samples[i] = time;
        }
        results->n_nodes = ggml_graph_n_nodes(graph.cgraph);
        results->copies  = graph.copies;
        graph_free(&session->arena, &graph);
    }
    results->plan_us         = median(samples, PLAN_SAMPLES);
    results->buffer_size     = graph_memory_size(&session->memory);
    results->has_lower_bound = graph_memory_lower_bound(&session->memory, &results->lower_bound);
}

static void run_prompt(struct session * session, struct results * results) {
    const int n_tokens = session->model->opt.prompt;
    const struct batch batch = { .tokens = session->prompt, .n_tokens = n_tokens, .n_kv = pad_kv_length(n_tokens) };
    const double start = now_us();
    run_batch(session, &batch);
    results->prompt_tokens_per_s = n_tokens / ((now_us() - start) * 1e-6);
    check_and_hash_logits(session, n_tokens - 1, &results->logits_hash);
}

static void run_decode(struct session * session, struct results * results) {
    const int n_steps = session->model->opt.decode;
    double * alloc_us = checked_calloc((size_t) n_steps, sizeof(*alloc_us));
    double total_us = 0;
    for (int i = 0; i < n_steps; i++) {
        const int     position = session->model->opt.prompt + i;
        const double  start    = now_us();
        const int32_t token    = most_likely_token(session);
        const struct batch batch = {
            .tokens = &token, .n_tokens = 1, .first_pos = position, .n_kv = pad_kv_length(position + 1),
        };
        alloc_us[i] = run_batch(session, &batch);
        total_us += now_us() - start;
        check_and_hash_logits(session, position, &results->logits_hash);
    }
    if (n_steps > 0) {
        results->alloc_graph_us      = median(alloc_us, n_steps);
        results->decode_tokens_per_s = n_steps / (total_us * 1e-6);
    }
    free(alloc_us);
}

// At the end: it leaves anything in the cache.
static struct copy_time time_copies(struct session * session) {
    const int n_tokens = session->model->opt.prompt;
    const struct batch batch = { .tokens = session->prompt, .n_tokens = n_tokens, .n_kv = pad_kv_length(n_tokens) };
    struct graph graph = graph_new(session->model, &session->arena, &batch);
    graph_memory_alloc(&session->memory, &graph);
    const struct copy_time found = measure_copies(session->memory.backend, &graph);
    graph_free(&session->arena, &graph);
    return found;
}

static struct results run_session(struct session * session) {
    struct results results = { .logits_hash = FNV1A_64_START };
    reserve_worst_case(session, &results);
    run_prompt(session, &results);
    run_decode(session, &results);
    results.copy_time = time_copies(session);

    const size_t final_size = graph_memory_size(&session->memory);
    if (final_size != results.buffer_size) {
        fprintf(stderr, "llama_style: warning: the compute buffer went from %zu to %zu bytes after the reservation\n",
                results.buffer_size, final_size);
        results.buffer_size = final_size;
    }
    return results;
}
