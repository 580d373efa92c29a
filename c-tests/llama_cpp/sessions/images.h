// Images of random pixels: a projector of llama.cpp's libmtmd makes embeddings of them, which the model decodes between
// tokens.

#pragma once

#include "session.h"

#include "log_errors.h"

#include "mtmd.h"

enum { IMAGE_ROUNDS = 3, IMAGE_TOKENS = 6, COLORS = 3 };

// The largest image first: llama.cpp's scheduler reserves memory again for a larger one.
static const uint32_t image_sizes[][2] = { { 512, 512 }, { 64, 96 }, { 320, 320 }, { 200, 300 }, { 512, 64 } };

static mtmd_context * new_projector(const struct session * session) {
    struct mtmd_context_params params = mtmd_context_params_default();
    params.use_gpu         = session->settings->gpus > 0;
    params.print_timings   = false;
    params.n_threads       = (int) session->settings->threads;
    params.flash_attn_type = strcmp(session->settings->flash, "on") == 0
        ? LLAMA_FLASH_ATTN_TYPE_ENABLED
        : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    mtmd_log_set(log_errors_only, NULL);
    mtmd_context * projector = mtmd_init_from_file(session->settings->projector_path, session->model, params);
    check(projector != NULL, "cannot load the projector");
    return projector;
}

// Makes an image, and the one chunk that the projector divides it into.
static mtmd_input_chunks * new_image(struct session * session, const mtmd_context * projector, const uint32_t size[2]) {
    const size_t    bytes  = (size_t) size[0] * size[1] * COLORS;
    unsigned char * pixels = malloc(bytes);
    check(pixels != NULL, "no memory is left");
    for (size_t i = 0; i < bytes; i++) {
        pixels[i] = (unsigned char) (splitmix64(&session->random) >> 56);
    }
    mtmd_bitmap * bitmap = mtmd_bitmap_init(size[0], size[1], pixels);
    free(pixels);
    const struct mtmd_input_part         part  = { .bitmap = bitmap };
    const struct mtmd_input_part * const parts = &part;
    mtmd_input_chunks *                  image = mtmd_input_chunks_init();
    check(mtmd_tokenize_from_parts(projector, image, &parts, 1, false) == 0, "an image is not understood");
    check(mtmd_input_chunks_size(image) == 1, "an image is not one chunk");
    mtmd_bitmap_free(bitmap);
    return image;
}

// What a projector makes of an image; it is the projector's until the next image is encoded.
struct image {
    const float * embeddings;
    int32_t       count;
};

// Encodes a new image of one of the sizes, and writes its embeddings.
static struct image encode_image(struct session * session, mtmd_context * projector, int size) {
    mtmd_input_chunks *      chunks = new_image(session, projector, image_sizes[size]);
    const mtmd_input_chunk * chunk  = mtmd_input_chunks_get(chunks, 0);
    const double             start  = processor_seconds_now();
    check(mtmd_encode_chunk(projector, chunk) == 0, "an image cannot be encoded");
    session->seconds += processor_seconds_now() - start;
    const struct image image = { mtmd_get_output_embd(projector), (int32_t) mtmd_input_chunk_get_n_tokens(chunk) };
    mtmd_input_chunks_free(chunks);
    write_floats(session, image.embeddings, image.count * session->width);
    return image;
}

// Decodes embeddings behind all that sequence 0 has, in the place of tokens.
static void decode_embeddings(struct session * session, const float * embeddings, int32_t count) {
    const llama_pos     position = end_of(session, 0);
    llama_token * const tokens   = session->batch.token;
    for (int32_t i = 0; i < count; i++) {
        add_token(session, 0, position + i, 0, true);
    }
    session->batch.token = NULL;
    session->batch.embd  = (float *) (uintptr_t) embeddings; // it is only read
    decode(session);
    session->batch.embd  = NULL;
    session->batch.token = tokens;
}

// Has the model decode an image, as much of it at a time as a batch may have, and the projector encode the next one before
// the last logits are read. Returns the next one, and writes the most likely token behind the image to `token`.
static struct image see_image(struct session * session, mtmd_context * projector, struct image image, int next_size,
                              llama_token * token) {
    const size_t width = (size_t) session->width;
    for (; image.count > MOST_TOKENS; image.count -= MOST_TOKENS, image.embeddings += MOST_TOKENS * width) {
        decode_embeddings(session, image.embeddings, MOST_TOKENS);
        take_logits(session);
    }
    decode_embeddings(session, image.embeddings, image.count);
    const struct image next = encode_image(session, projector, next_size);
    *token = take_logits(session);
    return next;
}

// Images and tokens in turns, in a sequence that begins again in each round.
static void run_with_images(struct session * session) {
    enum { SIZES = sizeof(image_sizes) / sizeof(image_sizes[0]) };
    mtmd_context * projector = new_projector(session);
    struct image image = encode_image(session, projector, 0);
    for (int round = 0; round < IMAGE_ROUNDS; round++) {
        prompt(session, 20 + round);
        for (int size = 0; size < SIZES; size++) {
            llama_token token;
            image = see_image(session, projector, image, (size + 1) % SIZES, &token);
            generate(session, token, IMAGE_TOKENS, 0);
        }
        forget(session);
    }
    mtmd_free(projector);
}
