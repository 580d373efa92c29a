// Writes a small image projector for llama.cpp's libmtmd, with seeded random weights: a vision transformer on images of
// any size, and two matrices behind it. Of the kinds of projectors this one, "phi4", needs no tokens around an image, so
// that the model beside it needs no vocabulary.

#include "options.h"
#include "random_model.h"

#define PROGRAM "write_projector"

enum {
    LAYERS          = 4,
    WIDTH           = 384,
    HEADS           = 12, // without flash attention its compute buffer is larger than that of the model beside it
    FFN             = 1536,
    PATCH           = 16, // pixels, each way
    POSITIONS_ASIDE = 20, // other sizes interpolate between their embeddings
    LEAST_PIXELS    = 64 * 64,
    MOST_PIXELS     = 512 * 512,
    COLORS          = 3,
};

static const char usage[] =
    "usage: write_projector OUT.gguf [options]\n"
    "Writes an image projector with seeded random weights (F16 matrices, F32 norms and biases).\n"
    "  --projection N  embedding length of the model   (default 512)\n"
    "  --seed N        seed of the weights             (default 1)\n"
    "  --help          this text\n";

static void set_metadata(struct gguf_context * gguf, uint32_t projection) {
    static const float half[COLORS] = { 0.5f, 0.5f, 0.5f };
    gguf_set_val_str(gguf, "general.architecture", "clip");
    gguf_set_val_bool(gguf, "clip.has_vision_encoder", true);
    gguf_set_val_str(gguf, "clip.projector_type", "phi4");
    gguf_set_val_bool(gguf, "clip.use_gelu", true);
    gguf_set_val_u32(gguf, "clip.vision.embedding_length", WIDTH);
    gguf_set_val_u32(gguf, "clip.vision.feed_forward_length", FFN);
    gguf_set_val_u32(gguf, "clip.vision.block_count", LAYERS);
    gguf_set_val_u32(gguf, "clip.vision.projection_dim", projection);
    gguf_set_val_u32(gguf, "clip.vision.attention.head_count", HEADS);
    gguf_set_val_f32(gguf, "clip.vision.attention.layer_norm_epsilon", 1e-6f);
    gguf_set_val_u32(gguf, "clip.vision.image_size", POSITIONS_ASIDE * PATCH);
    gguf_set_val_u32(gguf, "clip.vision.patch_size", PATCH);
    gguf_set_val_u32(gguf, "clip.vision.image_min_pixels", LEAST_PIXELS);
    gguf_set_val_u32(gguf, "clip.vision.image_max_pixels", MOST_PIXELS);
    gguf_set_arr_data(gguf, "clip.vision.image_mean", GGUF_TYPE_FLOAT32, half, COLORS);
    gguf_set_arr_data(gguf, "clip.vision.image_std", GGUF_TYPE_FLOAT32, half, COLORS);
}

// Adds "NAME.weight", a matrix, or a norm if `inputs` is 0, and "NAME.bias".
static void add_part(struct gguf_context * gguf, struct ggml_context * ctx, const char * name,
                     int64_t inputs, int64_t outputs) {
    char full[GGML_MAX_NAME];
    snprintf(full, sizeof(full), "%s.weight", name);
    if (inputs == 0) {
        add_vector(gguf, ctx, full, outputs);
    } else {
        add_matrix(gguf, ctx, full, inputs, outputs);
    }
    snprintf(full, sizeof(full), "%s.bias", name);
    add_vector(gguf, ctx, full, outputs);
}

static void add_layer(struct gguf_context * gguf, struct ggml_context * ctx, int layer) {
    static const struct {
        const char * name;
        int64_t      inputs;
        int64_t      outputs;
    } parts[] = {
        { "ln1",      0,     WIDTH }, { "attn_q", WIDTH, WIDTH }, { "attn_k", WIDTH, WIDTH },
        { "attn_v",   WIDTH, WIDTH }, { "attn_out", WIDTH, WIDTH },
        { "ln2",      0,     WIDTH }, { "ffn_up", WIDTH, FFN },   { "ffn_down", FFN, WIDTH },
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char name[GGML_MAX_NAME];
        snprintf(name, sizeof(name), "v.blk.%d.%s", layer, parts[i].name);
        add_part(gguf, ctx, name, parts[i].inputs, parts[i].outputs);
    }
}

static bool add_tensors(struct gguf_context * gguf, int64_t projection) {
    const size_t tensors_per_layer = 16, others = 9;
    struct ggml_context * ctx = new_descriptions(LAYERS * tensors_per_layer + others);
    if (ctx == NULL) {
        return false;
    }
    add_tensor(gguf, ggml_new_tensor_4d(ctx, GGML_TYPE_F16, PATCH, PATCH, COLORS, WIDTH), "v.patch_embd.weight");
    add_vector(gguf, ctx, "v.patch_embd.bias", WIDTH);
    add_tensor(gguf, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, POSITIONS_ASIDE * POSITIONS_ASIDE),
               "v.position_embd.weight");
    for (int layer = 0; layer < LAYERS; layer++) {
        add_layer(gguf, ctx, layer);
    }
    add_part(gguf, ctx, "v.post_ln", 0, WIDTH);
    add_part(gguf, ctx, "mm.0", WIDTH, projection);
    add_part(gguf, ctx, "mm.2", projection, projection);
    ggml_free(ctx);
    return true;
}

int main(int argc, char ** argv) {
    long long    projection = 512;
    long long    seed       = 1;
    const char * path       = NULL;
    const struct option_spec options[] = {
        { "--projection", &projection, 1, 65536,     NULL },
        { "--seed",       &seed,       0, INT64_MAX, NULL },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &path)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    struct gguf_context * gguf = gguf_init_empty();
    set_metadata(gguf, (uint32_t) projection);
    const bool written = add_tensors(gguf, projection) && write_model(path, gguf, (uint64_t) seed);
    gguf_free(gguf);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
