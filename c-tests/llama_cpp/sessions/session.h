// A model with a context: batches are added to, decoded, and their results written.

#pragma once

#include "../decoding.h"
#include "splitmix.h"

#include "ggml-backend.h"
#include "llama.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "sessions"

enum {
    MOST_TOKENS    = 512, // of a batch
    LEAST_TOKENS   = 64,  // that are computed at once
    SEQUENCES      = 4,
    SEQUENCE_CELLS = 2048,
    MOST_SERVERS   = 16,
    MOST_CONTEXTS  = 64,
};

struct settings {
    const char * model_path;
    const char * other_path; // the model of every other context, or NULL
    const char * output;
    const char * flash;
    const char * cache;
    const char * shift;
    const char * rpc;
    long long    gpus;
    long long    repeat;
    long long    threads;
    long long    contexts;
    long long    cells;
    const char * cells_type;
    const char * cells_on;
    const char * time;
    const char * turns;
    long long    speculate;
    const char * projector_path; // of images, or NULL
};

struct session {
    const struct settings * settings;
    struct llama_model *    model;
    struct llama_context *  context;
    int32_t                 vocab;
    int32_t                 width; // of embeddings
    struct llama_batch      batch;
    FILE *                  output;
    uint64_t                random;
    long long               tokens;
    long long               reallocations; // of graphs that the scheduler's allocator refused
    double                  seconds;       // of the processor
};

static void fail(const char * why) {
    fprintf(stderr, PROGRAM ": %s\n", why);
    exit(EXIT_FAILURE);
}

static void check(bool good, const char * why) {
    if (!good) {
        fail(why);
    }
}

static struct llama_context * new_context(const struct session * session) {
    const struct settings *     settings = session->settings;
    struct llama_context_params params   = llama_context_default_params();
    params.n_ctx           = SEQUENCES * (uint32_t) settings->cells;
    params.n_seq_max       = SEQUENCES;
    params.n_batch         = MOST_TOKENS;
    params.n_ubatch        = MOST_TOKENS;
    params.n_threads       = (int32_t) settings->threads;
    params.n_threads_batch = (int32_t) settings->threads;
    params.swa_full        = false;
    params.kv_unified      = strcmp(settings->cache, "unified") == 0;
    params.offload_kqv     = strcmp(settings->cells_on, "devices") == 0;
    params.type_k          = strcmp(settings->cells_type, "q8_0") == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    params.type_v          = params.type_k;
    params.flash_attn_type = strcmp(settings->flash, "on") == 0
        ? LLAMA_FLASH_ATTN_TYPE_ENABLED
        : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    // Smaller batches need smaller compute buffers.
    struct llama_context * context = llama_init_from_model(session->model, params);
    while (context == NULL && params.n_ubatch > LEAST_TOKENS) {
        params.n_ubatch /= 2;
        fprintf(stderr, PROGRAM ": no context, trying batches of %u tokens\n", (unsigned) params.n_ubatch);
        context = llama_init_from_model(session->model, params);
    }
    check(context != NULL, "cannot create a context");
    return context;
}

static llama_token random_token(struct session * session) {
    return (llama_token) (splitmix64(&session->random) % (uint64_t) session->vocab);
}

static void write_floats(struct session * session, const float * floats, int32_t count) {
    check(floats != NULL, "a result is missing");
    for (int32_t i = 0; i < count; i++) {
        check(isfinite(floats[i]), "a result is not finite: it would be equal to any other such one");
    }
    check(fwrite(floats, sizeof(float), (size_t) count, session->output) == (size_t) count, "cannot write the results");
}

static void add_token(struct session * session, llama_token token, llama_pos position, llama_seq_id sequence, bool has_result) {
    struct llama_batch * batch = &session->batch;
    const int32_t        i     = batch->n_tokens++;
    batch->token[i]     = token;
    batch->pos[i]       = position;
    batch->n_seq_id[i]  = 1;
    batch->seq_id[i][0] = sequence;
    batch->logits[i]    = has_result;
}

// Adds random tokens behind `position`; the last one has a result, or all have.
static void add_prompt(struct session * session, int32_t count, llama_pos position, llama_seq_id sequence, bool all) {
    for (int32_t i = 0; i < count; i++) {
        add_token(session, random_token(session), position + i, sequence, all || i + 1 == count);
    }
}

static void end_turn(void);

// Decodes the added tokens, and keeps the batch for its results.
static void decode(struct session * session) {
    const double  start  = processor_seconds_now();
    const int32_t status = llama_decode(session->context, session->batch);
    llama_synchronize(session->context);
    session->seconds += processor_seconds_now() - start;
    session->tokens += session->batch.n_tokens;
    check(status == 0, "llama_decode failed");
    end_turn();
}

// Writes the logits of all tokens of the batch that have some, and begins the next batch. Returns the token that is the
// most likely after the last one.
static llama_token take_logits(struct session * session) {
    llama_token next = 0;
    for (int32_t i = 0; i < session->batch.n_tokens; i++) {
        if (session->batch.logits[i]) {
            const float * logits = llama_get_logits_ith(session->context, i);
            write_floats(session, logits, session->vocab);
            next = most_likely_token(logits, session->vocab);
        }
    }
    session->batch.n_tokens = 0;
    return next;
}

static void take_embeddings(struct session * session) {
    for (int32_t i = 0; i < session->batch.n_tokens; i++) {
        if (session->batch.logits[i]) {
            write_floats(session, llama_get_embeddings_ith(session->context, i), session->width);
        }
    }
}

static llama_pos end_of(const struct session * session, llama_seq_id sequence) {
    return llama_memory_seq_pos_max(llama_get_memory(session->context), sequence) + 1;
}

static void forget(struct session * session) {
    llama_memory_clear(llama_get_memory(session->context), true);
}

// Decodes a random prompt as sequence 0, which must not be there yet.
static llama_token prompt(struct session * session, int32_t count) {
    add_prompt(session, count, 0, 0, false);
    decode(session);
    return take_logits(session);
}

static llama_token generate(struct session * session, llama_token token, int32_t count, llama_seq_id sequence) {
    for (int32_t i = 0; i < count; i++) {
        add_token(session, token, end_of(session, sequence), sequence, true);
        decode(session);
        token = take_logits(session);
    }
    return token;
}
