// Captures a training step of a llama-style transformer: forward pass, backward pass by ggml's automatic
// differentiation, and AdamW on every weight.

#include "new_graph.h"
#include "options.h"

#include <math.h>

#define PROGRAM "training"

struct settings {
    const char * out;
    long long    layers;
    long long    width;
    long long    heads;
    long long    tokens;
    long long    vocab;
};

static const char usage[] =
    "usage: training GRAPH.jsonl [options]\n"
    "Writes the graph of one training step of a transformer.\n"
    "  --layers N    transformer layers    (default 4)\n"
    "  --width N     embedding length      (default 256)\n"
    "  --heads N     attention heads       (default 4)\n"
    "  --tokens N    tokens in a step      (default 256)\n"
    "  --vocab N     vocabulary size       (default 4096)\n"
    "  --help        this text\n";

struct step {
    struct new_graph          g;
    const struct settings *   settings;
    struct ggml_tensor *      positions; // [tokens]
    struct ggml_tensor *      mask;      // [tokens, tokens]: 0 where attention is allowed, -inf elsewhere
};

// A weight that the step trains.
static struct ggml_tensor * parameter(const struct step * s, int64_t inputs, int64_t outputs) {
    struct ggml_tensor * weight = new_weight(&s->g, GGML_TYPE_F32, inputs, outputs, 1, 1);
    ggml_set_param(weight);
    return weight;
}

static struct ggml_tensor * project(const struct step * s, struct ggml_tensor * x, int64_t width) {
    return ggml_mul_mat(s->g.ctx, parameter(s, x->ne[0], width), x);
}

static struct ggml_tensor * normalize(const struct step * s, struct ggml_tensor * x) {
    return ggml_mul(s->g.ctx, ggml_rms_norm(s->g.ctx, x, 1e-5f), parameter(s, x->ne[0], 1));
}

// All heads of one projection: [head width, tokens, heads].
static struct ggml_tensor * heads(const struct step * s, struct ggml_tensor * x, bool rotate) {
    const int head = (int) (s->settings->width / s->settings->heads);
    struct ggml_tensor * y = ggml_reshape_3d(s->g.ctx, project(s, x, s->settings->width), head, s->settings->heads,
                                             s->settings->tokens);
    if (rotate) {
        y = ggml_rope(s->g.ctx, y, s->positions, head, 0);
    }
    return ggml_permute(s->g.ctx, y, 0, 2, 1, 3);
}

static struct ggml_tensor * attend(const struct step * s, struct ggml_tensor * x) {
    struct ggml_context * ctx = s->g.ctx;
    const float scale = 1.0f / sqrtf((float) (s->settings->width / s->settings->heads));
    struct ggml_tensor * q = heads(s, x, true);
    struct ggml_tensor * k = heads(s, x, true);
    struct ggml_tensor * v = ggml_cont(ctx, ggml_transpose(ctx, heads(s, x, false)));
    struct ggml_tensor * scores = ggml_mul_mat(ctx, k, q);
    struct ggml_tensor * mixed = ggml_mul_mat(ctx, v, ggml_soft_max_ext(ctx, scores, s->mask, scale, 0.0f));
    mixed = ggml_cont_2d(ctx, ggml_permute(ctx, mixed, 0, 2, 1, 3), s->settings->width, s->settings->tokens);
    return project(s, mixed, s->settings->width);
}

static struct ggml_tensor * feed_forward(const struct step * s, struct ggml_tensor * x) {
    const int64_t hidden = 4 * s->settings->width;
    struct ggml_tensor * gate = ggml_silu(s->g.ctx, project(s, x, hidden));
    return project(s, ggml_mul(s->g.ctx, gate, project(s, x, hidden)), s->settings->width);
}

static struct ggml_tensor * build_loss(const struct step * s, struct ggml_tensor * tokens, struct ggml_tensor * labels) {
    struct ggml_context * ctx = s->g.ctx;
    struct ggml_tensor * x = ggml_get_rows(ctx, parameter(s, s->settings->width, s->settings->vocab), tokens);
    for (long long layer = 0; layer < s->settings->layers; layer++) {
        x = ggml_add(ctx, x, attend(s, normalize(s, x)));
        x = ggml_add(ctx, x, feed_forward(s, normalize(s, x)));
    }
    struct ggml_tensor * logits = project(s, normalize(s, x), s->settings->vocab);
    return ggml_cross_entropy_loss(ctx, logits, labels);
}

// Adds AdamW for every weight, with its two moments.
static void add_optimizer(const struct step * s) {
    struct ggml_cgraph * graph = s->g.graph;
    struct ggml_tensor * settings = new_graph_input(&s->g, GGML_TYPE_F32, 7, 1, 1, "adamw");
    const int n_nodes = ggml_graph_n_nodes(graph);
    for (int i = 0; i < n_nodes; i++) {
        struct ggml_tensor * weight = ggml_graph_node(graph, i);
        if ((weight->flags & GGML_TENSOR_FLAG_PARAM) == 0) {
            continue;
        }
        struct ggml_tensor * first  = new_weight(&s->g, GGML_TYPE_F32, weight->ne[0], weight->ne[1], 1, 1);
        struct ggml_tensor * second = new_weight(&s->g, GGML_TYPE_F32, weight->ne[0], weight->ne[1], 1, 1);
        struct ggml_tensor * gradient = ggml_graph_get_grad(graph, weight);
        ggml_build_forward_expand(graph, ggml_opt_step_adamw(s->g.ctx, weight, gradient, first, second, settings));
    }
}

static void capture(const struct settings * settings) {
    struct step s = { .g = new_graph((size_t) settings->layers * 400 + 400, true), .settings = settings };
    const struct new_graph * g = &s.g;
    s.positions = new_graph_input(g, GGML_TYPE_I32, settings->tokens, 1, 1, "positions");
    s.mask      = new_graph_input(g, GGML_TYPE_F32, settings->tokens, settings->tokens, 1, "mask");
    struct ggml_tensor * tokens = new_graph_input(g, GGML_TYPE_I32, settings->tokens, 1, 1, "tokens");
    struct ggml_tensor * labels = new_graph_input(g, GGML_TYPE_F32, settings->vocab, settings->tokens, 1, "labels");
    struct ggml_tensor * loss = build_loss(&s, tokens, labels);
    ggml_set_loss(loss);
    new_graph_output(g, loss, "loss");
    ggml_build_backward_expand(g->ctx, g->graph, NULL);
    add_optimizer(&s);

    char label[128];
    snprintf(label, sizeof(label), "training: %lld layers, width %lld, %lld tokens, vocabulary %lld", settings->layers,
             settings->width, settings->tokens, settings->vocab);
    capture_new_graph(&s.g, settings->out, label);
}

int main(int argc, char ** argv) {
    struct settings settings = { .layers = 4, .width = 256, .heads = 4, .tokens = 256, .vocab = 4096 };
    const struct option_spec options[] = {
        { "--layers", &settings.layers, 1, 256,     NULL },
        { "--width",  &settings.width,  2, 65536,   NULL },
        { "--heads",  &settings.heads,  1, 1024,    NULL },
        { "--tokens", &settings.tokens, 1, 1 << 20, NULL },
        { "--vocab",  &settings.vocab,  2, 1 << 20, NULL },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.out)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (settings.width % (2 * settings.heads) != 0) {
        fprintf(stderr, PROGRAM ": --width must be a multiple of twice --heads (rotary embedding turns pairs)\n");
        return EXIT_USAGE;
    }
    capture(&settings);
    return EXIT_SUCCESS;
}
