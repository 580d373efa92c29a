// Work on a model that encodes.

#pragma once

#include "session.h"

// Encodes the added tokens, unless they are more than the context computes at once: encoders do not divide batches.
static void encode(struct session * session) {
    if ((uint32_t) session->batch.n_tokens <= llama_n_ubatch(session->context)) {
        decode(session); // llama_decode encodes where there is no decoder
        take_embeddings(session);
    }
    session->batch.n_tokens = 0;
}

static void run_encoder(struct session * session) {
    static const int32_t sizes[] = { 512, 1, 2, 3, 7, 16, 33, 64, 127, 256, 511 };
    llama_set_embeddings(session->context, true);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        add_prompt(session, sizes[i], 0, 0, true);
        encode(session);
    }
    for (int32_t size = 4; size <= 100; size *= 5) {
        for (llama_seq_id sequence = 0; sequence < SEQUENCES; sequence++) {
            add_prompt(session, size + sequence, 0, sequence, true);
        }
        encode(session);
    }
}
