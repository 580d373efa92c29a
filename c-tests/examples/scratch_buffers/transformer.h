// The common part of before.c and after.c: a small transformer with random weights, and the tokens it is asked for.
#pragma once

#include "ggml.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VOCAB   = 256,
    WIDTH   = 64, // of an embedding
    HEADS   = 4,
    HEAD    = WIDTH / HEADS,
    HIDDEN  = 192, // width of the feed-forward part
    LAYERS  = 3,
    CONTEXT = 96, // positions in a cache
    PROMPT  = 24,
    ANSWER  = 6, // tokens that follow the prompt
};

struct layer {
    struct ggml_tensor * norm_1; // [WIDTH]
    struct ggml_tensor * wq;     // [WIDTH, WIDTH]
    struct ggml_tensor * wk;
    struct ggml_tensor * wv;
    struct ggml_tensor * wo;
    struct ggml_tensor * norm_2; // [WIDTH]
    struct ggml_tensor * up;     // [WIDTH, HIDDEN]
    struct ggml_tensor * down;   // [HIDDEN, WIDTH]

    struct ggml_tensor * keys;   // [WIDTH, CONTEXT], the cache
    struct ggml_tensor * values;
};

struct model {
    struct ggml_tensor * embeddings; // [WIDTH, VOCAB]
    struct ggml_tensor * positions;  // [WIDTH, CONTEXT]
    struct ggml_tensor * norm;       // [WIDTH]
    struct layer         layers[LAYERS];
};

// A row of `rows` values; rows 0 means a vector. Equal seeds give equal values.
static inline struct ggml_tensor * new_weight(struct ggml_context * ctx, int width, int rows, uint32_t * seed) {
    struct ggml_tensor * weight = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, width, rows);
    float *              data   = (float *) weight->data;
    for (int i = 0; i < width * rows; i++) {
        *seed   = *seed * 1664525u + 1013904223u;
        data[i] = (float) (*seed >> 8) / (float) (1 << 24) - 0.5f;
    }
    return weight;
}

// The tensors must have memory as soon as they are made.
static inline void make_weights(struct model * model, struct ggml_context * ctx) {
    uint32_t seed     = 1;
    model->embeddings = new_weight(ctx, WIDTH, VOCAB, &seed);
    model->positions  = new_weight(ctx, WIDTH, CONTEXT, &seed);
    model->norm       = new_weight(ctx, WIDTH, 1, &seed);
    for (int i = 0; i < LAYERS; i++) {
        struct layer * layer = &model->layers[i];
        layer->norm_1        = new_weight(ctx, WIDTH, 1, &seed);
        layer->wq            = new_weight(ctx, WIDTH, WIDTH, &seed);
        layer->wk            = new_weight(ctx, WIDTH, WIDTH, &seed);
        layer->wv            = new_weight(ctx, WIDTH, WIDTH, &seed);
        layer->wo            = new_weight(ctx, WIDTH, WIDTH, &seed);
        layer->norm_2        = new_weight(ctx, WIDTH, 1, &seed);
        layer->up            = new_weight(ctx, WIDTH, HIDDEN, &seed);
        layer->down          = new_weight(ctx, HIDDEN, WIDTH, &seed);
    }
}

static inline void make_caches(struct model * model, struct ggml_context * ctx) {
    for (int i = 0; i < LAYERS; i++) {
        model->layers[i].keys   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, CONTEXT);
        model->layers[i].values = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, CONTEXT);
    }
}

// Some tokens, and how many came before them.
struct batch {
    const int32_t * tokens;
    int             n;
    int             past;
};

// Runs a batch and gives the logits of its last token.
typedef void (*step_fn)(void * program, struct batch batch, float * logits);

static inline int32_t most_likely(const float * logits) {
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

// Runs the prompt, then one token after the other, and prints a hash (FNV-1a) over every logit.
static inline void generate(void * program, step_fn step) {
    int32_t  tokens[PROMPT + ANSWER];
    float    logits[VOCAB];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < PROMPT; i++) {
        tokens[i] = i * 37 % VOCAB;
    }
    for (int i = PROMPT; i < PROMPT + ANSWER; i++) {
        int past = i == PROMPT ? 0 : i - 1;
        step(program, (struct batch){ .tokens = &tokens[past], .n = i - past, .past = past }, logits);
        const unsigned char * bytes = (const unsigned char *) logits;
        for (size_t j = 0; j < sizeof(logits); j++) {
            hash = (hash ^ bytes[j]) * UINT64_C(0x100000001b3);
        }
        tokens[i] = most_likely(logits);
    }
    printf("answer=");
    for (int i = PROMPT; i < PROMPT + ANSWER; i++) {
        printf("%d ", (int) tokens[i]);
    }
    printf("\nlogits_hash=%016" PRIx64 "\n", hash);
}
