// Captures the largest graph that llama.cpp plans for a model: that of a full batch of prompt tokens.
//
// Only a description of the model is needed (see llama_cpp/model_file.h). llama.cpp first makes a model with every
// weight that the architecture may have, optional ones too; those that the real model has are written to a file whose
// data is a hole, and the graph of that file is captured. llama.cpp only pretends to allocate both times, so that
// models of any size are captured without memory for them.
//
// With --what model that file is all that is written: for programs that let llama.cpp plan its graphs again. With --what
// random it has data, too, seeded random numbers, and its large matrices are F16: for programs that compute.
//
// The graphs are taken where llama.cpp gets the size of the compute buffer from ggml's allocator. This program's
// function of that name comes before ggml's own, which it calls, so that the captured graph contains the size.

#include "llama_cpp/hollow_gguf.h"
#include "llama_cpp/model_file.h"
#include "../llama_cpp/random_weights.h"
#include "log_errors.h"
#include "options.h"

#include "graph_file.h"

#include "ggml-alloc.h"
#include "llama.h"

#include <dlfcn.h>

#define PROGRAM "llama_cpp"

struct settings {
    const char * model_path;
    const char * out;
    const char * what;
    const char * flash;
    long long    layers;
    long long    vocab;
    long long    tokens;
    long long    context;
    long long    seed;
};

static const char usage[] =
    "usage: llama_cpp OUT --model MODEL.txt [options]\n"
    "Writes the graph that llama.cpp reserves memory for, without memory for the model.\n"
    "  --model FILE     the model's description\n"
    "  --what KIND      \"graph\", \"model\": the file without data, or \"random\": with data (default graph)\n"
    "  --layers N       transformer layers            (default 8)\n"
    "  --vocab N        vocabulary size               (default 32000)\n"
    "  --tokens N       tokens in a batch             (default 512)\n"
    "  --context N      positions in the KV cache     (default 512)\n"
    "  --flash on|off   flash attention               (default on)\n"
    "  --seed N         seed of random data           (default 1)\n"
    "  --help           this text\n";

// The treatment of the next graph that llama.cpp plans.
struct graph_taker {
    bool (*take)(struct graph_taker * taker, struct ggml_cgraph * graph, size_t ggml_alloc_size);
    bool taken;

    struct hollow_gguf * weights; // where take_weights puts them
    const char *         out;     // the file of take_graph, and its label
    char                 label[256];
};

static struct graph_taker * taker;

void ggml_gallocr_reserve_n_size(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_buffer_ids,
                                 const int * leaf_buffer_ids, size_t * sizes) {
    void (*next)(ggml_gallocr_t, struct ggml_cgraph *, const int *, const int *, size_t *) =
        dlsym(RTLD_NEXT, "ggml_gallocr_reserve_n_size");
    if (next == NULL) {
        fprintf(stderr, PROGRAM ": ggml has no ggml_gallocr_reserve_n_size\n");
        abort();
    }
    next(galloc, graph, node_buffer_ids, leaf_buffer_ids, sizes);
    // Only the CPU's backend is there, so there is one buffer.
    if (taker != NULL) {
        taker->taken = taker->take(taker, graph, sizes[0]);
        taker        = NULL;
    }
}

static bool take_weights(struct graph_taker * self, struct ggml_cgraph * graph, size_t ggml_alloc_size) {
    (void) ggml_alloc_size;
    hollow_gguf_add_weights(self->weights, graph);
    return true;
}

static bool take_graph(struct graph_taker * self, struct ggml_cgraph * graph, size_t ggml_alloc_size) {
    return write_graph_file(self->out, graph, self->label, ggml_backend_cpu_buffer_type(), ggml_alloc_size);
}

// llama.cpp requires a function that fills tensors, and never calls it when nothing is allocated.
static void set_nothing(struct ggml_tensor * tensor, void * user_data) {
    (void) tensor;
    (void) user_data;
}

static struct llama_context * plan_context(struct llama_model * model, const struct settings * settings) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx           = (uint32_t) settings->context;
    params.n_batch         = (uint32_t) settings->tokens;
    params.n_ubatch        = (uint32_t) settings->tokens;
    params.n_threads       = 1;
    params.n_threads_batch = 1;
    params.flash_attn_type = strcmp(settings->flash, "on") == 0
        ? LLAMA_FLASH_ATTN_TYPE_ENABLED
        : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    return llama_init_from_model(model, params);
}

// Plans the worst case of a model and frees it.
static bool plan_model(struct llama_model * model, const struct settings * settings, struct graph_taker * with) {
    if (model == NULL) {
        fprintf(stderr, PROGRAM ": llama.cpp makes no model of %s\n", settings->model_path);
        return false;
    }
    taker = with;
    struct llama_context * context = plan_context(model, settings);
    if (!with->taken) {
        fprintf(stderr, PROGRAM ": no graph of %s was taken\n", settings->model_path);
    }
    llama_free(context);
    llama_model_free(model);
    return context != NULL && with->taken;
}

static struct llama_model_params pretend_to_allocate(void) {
    struct llama_model_params params = llama_model_default_params();
    params.no_alloc        = true;
    params.n_gpu_layers    = 0;
    params.use_extra_bufts = false; // which ones there are depends on the machine
    params.load_mode       = LLAMA_LOAD_MODE_NONE;
    return params;
}

static bool plan_with_all_weights(const struct model_file * file, const struct settings * settings,
                                  struct hollow_gguf * weights) {
    struct graph_taker with = { .take = take_weights, .weights = weights };
    struct llama_model * model = llama_model_init_from_user(file->metadata, set_nothing, NULL, pretend_to_allocate());
    return plan_model(model, settings, &with);
}

static bool plan_with_real_weights(const struct model_file * file, const struct settings * settings,
                                   const struct hollow_gguf * weights) {
    struct graph_taker with = { .take = take_graph, .out = settings->out };
    snprintf(with.label, sizeof(with.label), "llama.cpp %s: %lld layers, vocabulary %lld, %s attention, %lld tokens",
             model_architecture(file->metadata), settings->layers, settings->vocab,
             strcmp(settings->flash, "on") == 0 ? "flash" : "softmax", settings->tokens);
    FILE * hollow = hollow_gguf_write(weights);
    if (hollow == NULL) {
        fprintf(stderr, PROGRAM ": cannot write the description of the weights: %s\n", strerror(errno));
        return false;
    }
    const bool planned = plan_model(llama_model_load_from_file_ptr(hollow, pretend_to_allocate()), settings, &with);
    fclose(hollow);
    return planned;
}

static bool writes_random(const struct settings * settings) {
    return strcmp(settings->what, "random") == 0;
}

static bool writes_model(const struct settings * settings) {
    return strcmp(settings->what, "model") == 0 || writes_random(settings);
}

static bool write_model(const struct settings * settings, const struct hollow_gguf * weights) {
    FILE * file = fopen(settings->out, "wb");
    if (file == NULL) {
        fprintf(stderr, PROGRAM ": cannot create %s: %s\n", settings->out, strerror(errno));
        return false;
    }
    const bool written = writes_random(settings)
        ? gguf_write_to_file_ptr(weights->gguf, file, /*only_meta =*/ true)
            && write_random_weights(file, weights->gguf, (uint64_t) settings->seed)
        : hollow_gguf_write_to(weights, file);
    if (fclose(file) != 0 || !written) {
        fprintf(stderr, PROGRAM ": cannot write %s: %s\n", settings->out, strerror(errno));
        return false;
    }
    return true;
}

static bool run(const struct settings * settings) {
    struct model_file file;
    if (!read_model_file(&file, settings->model_path, settings->layers, settings->vocab)) {
        return false;
    }
    struct hollow_gguf weights = hollow_gguf_new(file.metadata, file.without);
    weights.halves = writes_random(settings);
    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    const bool done = plan_with_all_weights(&file, settings, &weights)
        && (writes_model(settings) ? write_model(settings, &weights)
                                      : plan_with_real_weights(&file, settings, &weights));
    llama_backend_free();
    hollow_gguf_free(&weights);
    gguf_free(file.metadata);
    return done;
}

int main(int argc, char ** argv) {
    struct settings settings = { .what = "graph", .flash = "on", .layers = 8, .vocab = 32000, .tokens = 512, .context = 512,
                                 .seed = 1 };
    const struct option_spec options[] = {
        { "--layers",  &settings.layers,  1, 512,     NULL },
        { "--vocab",   &settings.vocab,   2, 1 << 20, NULL },
        { "--tokens",  &settings.tokens,  1, 1 << 20, NULL },
        { "--context", &settings.context, 1, 1 << 20, NULL },
        { "--seed",    &settings.seed,    0, INT64_MAX, NULL },
        { "--flash",   NULL,              0, 0,       &settings.flash },
        { "--model",   NULL,              0, 0,       &settings.model_path },
        { "--what",    NULL,              0, 0,       &settings.what },
    };

    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.out)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (settings.model_path == NULL) {
        fprintf(stderr, PROGRAM ": --model is missing\n");
        return EXIT_USAGE;
    }
    if (!writes_model(&settings) && strcmp(settings.what, "graph") != 0) {
        fprintf(stderr, PROGRAM ": --what needs 'graph', 'model' or 'random', not '%s'\n", settings.what);
        return EXIT_USAGE;
    }
    if (strcmp(settings.flash, "on") != 0 && strcmp(settings.flash, "off") != 0) {
        fprintf(stderr, PROGRAM ": --flash needs 'on' or 'off', not '%s'\n", settings.flash);
        return EXIT_USAGE;
    }
    return run(&settings) ? EXIT_SUCCESS : EXIT_FAILURE;
}
