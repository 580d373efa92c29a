// Work on a model that remembers decoded tokens.

#pragma once

#include "session.h"
#include "states.h"

// Batches of all sizes, with one result or with all, and single tokens between them.
static void prompts_and_single_tokens(struct session * session) {
    static const int32_t sizes[] = { 1, 2, 512, 3, 7, 16, 33, 64, 127, 256, 300 };
    forget(session);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        add_prompt(session, sizes[i], end_of(session, 0), 0, i % 2 == 1);
        decode(session);
        generate(session, take_logits(session), 2, 0);
    }
}

static void step_sequences(struct session * session, int32_t steps) {
    for (int32_t step = 0; step < steps; step++) {
        for (llama_seq_id sequence = 0; sequence < SEQUENCES; sequence++) {
            add_token(session, random_token(session), end_of(session, sequence), sequence, true);
        }
        decode(session);
        take_logits(session);
    }
}

// Prompts of several sequences in one batch, steps of all at once, one that is replaced by a copy of another.
static void several_sequences(struct session * session) {
    static const int32_t sizes[SEQUENCES] = { 5, 40, 130, 13 };
    llama_memory_t       memory           = llama_get_memory(session->context);
    forget(session);
    for (llama_seq_id sequence = 0; sequence < SEQUENCES; sequence++) {
        add_prompt(session, sizes[sequence], 0, sequence, false);
    }
    decode(session);
    take_logits(session);
    step_sequences(session, 6);
    check(llama_memory_seq_rm(memory, 2, -1, -1), "a sequence cannot be removed");
    generate(session, random_token(session), 2, 1);
    llama_memory_seq_cp(memory, 0, 2, -1, -1);
    step_sequences(session, 4);
}

// Results that are embeddings, logits alone again, embeddings again.
static void embeddings(struct session * session) {
    forget(session);
    for (int turn = 0; turn < 3; turn++) {
        const bool wanted = turn != 1;
        llama_set_embeddings(session->context, wanted);
        add_prompt(session, 20 + turn, end_of(session, 0), 0, true);
        decode(session);
        if (wanted) {
            take_embeddings(session);
        }
        if (wanted && llama_get_logits_ith(session->context, 0) == NULL) {
            session->batch.n_tokens = 0; // some graphs leave out the logits then
        } else {
            take_logits(session);
        }
    }
    llama_set_embeddings(session->context, false);
}

// Forgets tokens in the middle and moves those behind them, as programs do whose context is full.
static void shift(struct session * session) {
    llama_memory_t memory = llama_get_memory(session->context);
    if (strcmp(session->settings->shift, "off") == 0 || !llama_memory_can_shift(memory)) {
        return;
    }
    forget(session);
    const llama_token token = prompt(session, 200);
    if (llama_memory_seq_rm(memory, 0, 10, 60)) {
        llama_memory_seq_add(memory, 0, 60, -1, -50);
    }
    generate(session, token, 4, 0);
}

static void run_decoder(struct session * session) {
    prompts_and_single_tokens(session);
    several_sequences(session);
    embeddings(session);
    save_and_restore(session);
    save_sequence(session);
    shift(session);
}
