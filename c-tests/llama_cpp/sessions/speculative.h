// Speculative decoding: a draft model proposes tokens, and the model decodes them in one batch and keeps those that it would have
// chosen itself.

#pragma once

#include "session.h"

enum { SPECULATED_ROUNDS = 40, SPECULATED_PROMPT = 150, MOST_DRAFTED = 16 };

// The tokens of a text, and how many there are.
struct text {
    llama_token tokens[SPECULATED_PROMPT + SPECULATED_ROUNDS * (MOST_DRAFTED + 1)];
    int32_t     count;
};

// Decodes what a session does not have of the text; of the last `results` tokens the logits are wanted.
static void decode_rest(struct session * session, const struct text * text, int32_t results) {
    session->batch.n_tokens = 0;
    for (llama_pos position = end_of(session, 0); position < text->count; position++) {
        add_token(session, text->tokens[position], position, 0, position >= text->count - results);
    }
    decode(session);
}

// Has the draft propose tokens behind the text.
static void propose(struct session * draft, struct text * text, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        decode_rest(draft, text, 1);
        text->tokens[text->count++] = take_logits(draft);
    }
}

// Keeps what the model would have chosen of the last `proposed` tokens, and adds its next one. Returns how many are kept.
static int32_t keep_chosen(struct session * session, struct session * draft, struct text * text, int32_t proposed) {
    const int32_t known = text->count - proposed;
    decode_rest(session, text, proposed + 1);
    const int32_t first = session->batch.n_tokens - proposed - 1;
    int32_t       kept  = 0;
    llama_token   next  = 0;
    for (;; kept++) {
        const float * logits = llama_get_logits_ith(session->context, first + kept);
        write_floats(session, logits, session->vocab);
        next = most_likely_token(logits, session->vocab);
        if (kept == proposed || next != text->tokens[known + kept]) {
            break;
        }
    }
    text->count                 = known + kept;
    text->tokens[text->count++] = next;
    struct session * both[]     = { session, draft };
    for (int i = 0; i < 2; i++) {
        check(llama_memory_seq_rm(llama_get_memory(both[i]->context), 0, known + kept, -1), "tokens cannot be removed");
        both[i]->batch.n_tokens = 0;
    }
    return kept;
}

static void speculate(struct session * session, struct session * draft) {
    static struct text text;
    const int32_t      proposed = (int32_t) session->settings->speculate;
    long long          kept     = 0;
    for (text.count = 0; text.count < SPECULATED_PROMPT; text.count++) {
        text.tokens[text.count] = random_token(session);
    }
    struct session * both[] = { session, draft };
    for (int i = 0; i < 2; i++) {
        both[i]->batch = llama_batch_init(MOST_TOKENS, 0, 1);
    }
    for (int round = 0; round < SPECULATED_ROUNDS; round++) {
        propose(draft, &text, proposed);
        kept += keep_chosen(session, draft, &text, proposed);
    }
    printf("kept=%lld\nproposed=%d\n", kept, SPECULATED_ROUNDS * (int) proposed);
    for (int i = 0; i < 2; i++) {
        llama_batch_free(both[i]->batch);
        llama_free(both[i]->context);
    }
}
