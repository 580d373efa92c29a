// Writes a small GGUF model of the "llama" architecture with seeded random weights,
// so that a real llama.cpp graph can be run without downloading a model.

#include "options.h"
#include "random_model.h"

#define PROGRAM "write_gguf"

struct model_shape {
    long long layers;
    long long width;
    long long heads;
    long long kv_heads;
    long long ffn;
    long long vocab;
    long long context;
    long long experts;
    long long used;
    long long tied;
    long long seed;
};

static const char usage[] =
    "usage: write_gguf OUT.gguf [options]\n"
    "Writes a llama model with seeded random weights (F16 matrices, F32 norms, no tokenizer), or with\n"
    "matrices of zeros, which take no room on disk.\n"
    "  --layers N     transformer layers            (default 8)\n"
    "  --width N      embedding length              (default 1024)\n"
    "  --heads N      attention heads               (default 16)\n"
    "  --kv-heads N   key/value heads               (default 4)\n"
    "  --ffn N        feed-forward length           (default 4096)\n"
    "  --vocab N      vocabulary size               (default 32000)\n"
    "  --context N    training context length       (default 2048)\n"
    "  --experts N    experts in each layer         (default 0: one FFN without a router)\n"
    "  --used N       experts that a token uses     (default 2)\n"
    "  --tied 0|1     the token embedding is the output head too (default 0)\n"
    "  --seed N       seed of the weights           (default 1)\n"
    "  --type f32|f16|q4_0-zeros                    (default f16)\n"
    "  --help         this text\n";

static bool shape_is_valid(const struct model_shape * shape) {
    if (shape->width % shape->heads != 0) {
        fprintf(stderr, PROGRAM ": --width must be a multiple of --heads\n");
        return false;
    }
    if (shape->heads % shape->kv_heads != 0) {
        fprintf(stderr, PROGRAM ": --heads must be a multiple of --kv-heads\n");
        return false;
    }
    if (shape->width / shape->heads % 2 != 0) {
        fprintf(stderr, PROGRAM ": --width / --heads must be even (rotary embedding turns pairs)\n");
        return false;
    }
    if (shape->experts > 0 && shape->used > shape->experts) {
        fprintf(stderr, PROGRAM ": --used must not be more than --experts\n");
        return false;
    }
    return true;
}

static void set_metadata(struct gguf_context * gguf, const struct model_shape * shape) {
    gguf_set_val_str(gguf, "general.architecture", "llama");
    gguf_set_val_str(gguf, "general.name", "random llama");
    gguf_set_val_u32(gguf, "llama.block_count", (uint32_t) shape->layers);
    gguf_set_val_u32(gguf, "llama.context_length", (uint32_t) shape->context);
    gguf_set_val_u32(gguf, "llama.embedding_length", (uint32_t) shape->width);
    gguf_set_val_u32(gguf, "llama.feed_forward_length", (uint32_t) shape->ffn);
    gguf_set_val_u32(gguf, "llama.attention.head_count", (uint32_t) shape->heads);
    gguf_set_val_u32(gguf, "llama.attention.head_count_kv", (uint32_t) shape->kv_heads);
    gguf_set_val_f32(gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_set_val_u32(gguf, "llama.rope.dimension_count", (uint32_t) (shape->width / shape->heads));
    gguf_set_val_f32(gguf, "llama.rope.freq_base", 10000.0f);
    if (shape->experts > 0) {
        gguf_set_val_u32(gguf, "llama.expert_count", (uint32_t) shape->experts);
        gguf_set_val_u32(gguf, "llama.expert_used_count", (uint32_t) shape->used);
    }
    // Without a tokenizer, llama.cpp takes the number of tokens from this key.
    gguf_set_val_u32(gguf, "llama.vocab_size", (uint32_t) shape->vocab);
    gguf_set_val_str(gguf, "tokenizer.ggml.model", "no_vocab");
}

static void add_matrices(struct gguf_context * gguf, struct ggml_context * ctx, const char * name,
                         int64_t inputs, int64_t outputs, int64_t count) {
    add_tensor(gguf, ggml_new_tensor_3d(ctx, matrix_type, inputs, outputs, count), name);
}

struct matrix {
    const char * part;
    int64_t inputs;
    int64_t outputs;
    int64_t count;  // 1, or one for each expert
};

static void add_layer(struct gguf_context * gguf, struct ggml_context * ctx,
                      const struct model_shape * shape, int layer) {
    const int64_t kv_width = shape->width / shape->heads * shape->kv_heads;
    const bool    experts  = shape->experts > 0;
    const int64_t count    = experts ? shape->experts : 1;
    const struct matrix matrices[] = {
        { "attn_q",                                shape->width, shape->width, 1     },
        { "attn_k",                                shape->width, kv_width,     1     },
        { "attn_v",                                shape->width, kv_width,     1     },
        { "attn_output",                           shape->width, shape->width, 1     },
        { experts ? "ffn_gate_exps" : "ffn_gate",  shape->width, shape->ffn,   count },
        { experts ? "ffn_up_exps"   : "ffn_up",    shape->width, shape->ffn,   count },
        { experts ? "ffn_down_exps" : "ffn_down",  shape->ffn,   shape->width, count },
    };
    const char * norms[] = { "attn_norm", "ffn_norm" };
    char name[GGML_MAX_NAME];

    for (size_t i = 0; i < sizeof(norms) / sizeof(norms[0]); i++) {
        snprintf(name, sizeof(name), "blk.%d.%s.weight", layer, norms[i]);
        add_vector(gguf, ctx, name, shape->width);
    }
    if (experts) {
        snprintf(name, sizeof(name), "blk.%d.ffn_gate_inp.weight", layer);
        add_matrix(gguf, ctx, name, shape->width, shape->experts);
    }
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        const struct matrix * matrix = &matrices[i];
        snprintf(name, sizeof(name), "blk.%d.%s.weight", layer, matrix->part);
        if (matrix->count > 1) {
            add_matrices(gguf, ctx, name, matrix->inputs, matrix->outputs, matrix->count);
        } else {
            add_matrix(gguf, ctx, name, matrix->inputs, matrix->outputs);
        }
    }
}

static bool add_tensors(struct gguf_context * gguf, const struct model_shape * shape) {
    const size_t tensors_per_layer = 10;
    const size_t model_tensors     = 3;
    const size_t tensors           = (size_t) shape->layers * tensors_per_layer + model_tensors;
    struct ggml_context * ctx = new_descriptions(tensors);
    if (ctx == NULL) {
        return false;
    }
    add_matrix(gguf, ctx, "token_embd.weight", shape->width, shape->vocab);
    add_vector(gguf, ctx, "output_norm.weight", shape->width);
    if (!shape->tied) {
        add_matrix(gguf, ctx, "output.weight", shape->width, shape->vocab);
    }
    for (int layer = 0; layer < shape->layers; layer++) {
        add_layer(gguf, ctx, shape, layer);
    }
    ggml_free(ctx);
    return true;
}

int main(int argc, char ** argv) {
    struct model_shape shape = {
        .layers = 8, .width = 1024, .heads = 16, .kv_heads = 4,
        .ffn = 4096, .vocab = 32000, .context = 2048, .used = 2, .seed = 1,
    };
    const char * type = "f16";
    const struct option_spec options[] = {
        { "--layers",   &shape.layers,   1, 256,       NULL },
        { "--width",    &shape.width,    2, 65536,     NULL },
        { "--heads",    &shape.heads,    1, 1024,      NULL },
        { "--kv-heads", &shape.kv_heads, 1, 1024,      NULL },
        { "--ffn",      &shape.ffn,      1, 1 << 20,   NULL },
        { "--vocab",    &shape.vocab,    2, 1 << 20,   NULL },
        { "--context",  &shape.context,  1, 1 << 20,   NULL },
        { "--experts",  &shape.experts,  0, 1024,      NULL },
        { "--used",     &shape.used,     1, 1024,      NULL },
        { "--tied",     &shape.tied,     0, 1,         NULL },
        { "--seed",     &shape.seed,     0, INT64_MAX, NULL },
        { "--type",     NULL,            0, 0,         &type },
    };
    const char * path = NULL;

    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &path)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (!shape_is_valid(&shape)) {
        return EXIT_USAGE;
    }
    if (strcmp(type, "q4_0-zeros") == 0) {
        matrix_type = GGML_TYPE_Q4_0;
    } else if (strcmp(type, "f32") == 0) {
        matrix_type = GGML_TYPE_F32;
    } else if (strcmp(type, "f16") != 0) {
        fprintf(stderr, PROGRAM ": --type needs 'f32', 'f16' or 'q4_0-zeros', not '%s'\n", type);
        return EXIT_USAGE;
    }

    struct gguf_context * gguf = gguf_init_empty();
    set_metadata(gguf, &shape);
    const bool written = add_tensors(gguf, &shape) && write_model(path, gguf, (uint64_t) shape.seed);
    gguf_free(gguf);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
