// Trains all weights of a model of F32 for an epoch by llama_opt_epoch, as llama.cpp's own finetune does, and writes the loss of each
// batch and a hash of the trained model. Equal files mean equal results.

#define _POSIX_C_SOURCE 200809L

#include "clock.h"
#include "hash.h"
#include "options.h"
#include "splitmix.h"

#include "ggml-opt.h"
#include "llama.h"

#define PROGRAM "finetune"

struct settings {
    const char * model_path;
    const char * output_path;
    long long    cells;
    long long    sequences;
};

static const char usage[] =
    "usage: finetune MODEL.gguf --output FILE [options]\n"
    "Trains a model of F32 for an epoch on random tokens; a sequence is kept for a test.\n"
    "  --output FILE    the losses, and a hash of the trained model; the model is FILE.gguf\n"
    "  --cells N        tokens of a sequence, at least                (default 128)\n"
    "  --sequences N    sequences                                     (default 4)\n"
    "  --help           this text\n";

static FILE * output;

static void note_loss(bool train, ggml_opt_context_t opt, ggml_opt_dataset_t dataset, ggml_opt_result_t result, int64_t batch,
                      int64_t batches, int64_t start) {
    double loss, uncertainty;
    (void) train, (void) opt, (void) dataset, (void) batch, (void) batches, (void) start;
    ggml_opt_result_loss(result, &loss, &uncertainty);
    fwrite(&loss, sizeof(loss), 1, output);
}

static struct llama_context * new_context(struct llama_model * model, const struct settings * settings) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = (uint32_t) settings->cells;
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type        = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    return llama_init_from_model(model, params);
}

static void train(struct llama_model * model, struct llama_context * context, long long sequences) {
    // llama.cpp rounds the number of cells up.
    int64_t            cells   = llama_n_ctx(context);
    ggml_opt_dataset_t dataset = ggml_opt_dataset_init(GGML_TYPE_I32, GGML_TYPE_I32, cells, cells, sequences, 1);
    int32_t *          data    = ggml_opt_dataset_data(dataset)->data;
    int32_t *          labels  = ggml_opt_dataset_labels(dataset)->data;
    uint64_t           tokens  = (uint64_t) llama_vocab_n_tokens(llama_model_get_vocab(model));
    uint64_t           state   = 1;
    for (int64_t i = 0; i < cells * sequences; i++) {
        data[i]   = (int32_t) (splitmix64(&state) % tokens);
        labels[i] = (int32_t) (splitmix64(&state) % tokens);
    }
    struct llama_opt_params params = {
        .param_filter   = llama_opt_param_filter_all,
        .get_opt_pars   = ggml_opt_get_default_optimizer_params,
        .optimizer_type = GGML_OPT_OPTIMIZER_TYPE_ADAMW,
    };
    llama_opt_init(context, model, params);
    ggml_opt_result_t trained = ggml_opt_result_init();
    ggml_opt_result_t tested  = ggml_opt_result_init();
    uint64_t          start   = nanoseconds_now();
    llama_opt_epoch(context, dataset, trained, tested, sequences - 1, note_loss, note_loss);
    double seconds = 1e-9 * (double) (nanoseconds_now() - start);
    printf("units_per_second=%.3f\n", (double) (cells * sequences) / seconds);
    ggml_opt_result_free(trained);
    ggml_opt_result_free(tested);
    ggml_opt_dataset_free(dataset);
}

// Writes the hash of the model, which is saved beside the output.
static bool write_hash(struct llama_model * model, const char * output_path) {
    char path[4096];
    snprintf(path, sizeof(path), "%s.gguf", output_path);
    llama_model_save_to_file(model, path);
    FILE * file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, PROGRAM ": cannot read %s\n", path);
        return false;
    }
    static char bytes[1 << 16];
    uint64_t    hash = FNV1A_64_START;
    for (size_t n = fread(bytes, 1, sizeof(bytes), file); n > 0; n = fread(bytes, 1, sizeof(bytes), file)) {
        hash = fnv1a_64(hash, bytes, n);
    }
    return fclose(file) == 0 && fwrite(&hash, sizeof(hash), 1, output) == 1;
}

int main(int argc, char ** argv) {
    struct settings          settings  = { .cells = 128, .sequences = 4 };
    const struct option_spec options[] = {
        { "--output",    NULL,                0, 0,       &settings.output_path },
        { "--cells",     &settings.cells,     1, 1 << 20, NULL },
        { "--sequences", &settings.sequences, 2, 1 << 20, NULL },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.model_path)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    output = settings.output_path == NULL ? NULL : fopen(settings.output_path, "wb");
    if (output == NULL) {
        fprintf(stderr, PROGRAM ": --output needs a file that can be written\n");
        return EXIT_USAGE;
    }
    llama_backend_init();
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers              = 0;
    params.load_mode                 = LLAMA_LOAD_MODE_NONE;
    struct llama_model *   model     = llama_model_load_from_file(settings.model_path, params);
    struct llama_context * context   = model == NULL ? NULL : new_context(model, &settings);
    if (context == NULL) {
        fprintf(stderr, PROGRAM ": cannot use the model %s\n", settings.model_path);
        return EXIT_FAILURE;
    }
    train(model, context, settings.sequences);
    bool is_written = write_hash(model, settings.output_path);
    llama_free(context);
    llama_model_free(model);
    return fclose(output) == 0 && is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}
