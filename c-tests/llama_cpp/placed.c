// Loads a GGUF model with the arguments of llama.cpp that `lastuse offload` prints, decodes a prompt of random tokens and
// generates greedily. Reports a hash over all logits, and the bytes requested from the devices.

#include "clock.h"
#include "counted_devices.h"
#include "decoding.h"
#include "hash.h"
#include "log_errors.h"
#include "splitmix.h"
#include "test_gpus.h"

#include "ggml-backend.h"
#include "llama.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "placed"

enum {
    EXIT_USAGE     = 2,
    MOST_OVERRIDES = 256,
    MOST_PATTERN   = 64,
    MOST_SPLITS    = 16,
    MOST_LIMITS    = 8,
    MOST_TOKENS    = 4096,
    MOST_CONTEXTS  = 8,
};

struct limit {
    const char * device;
    size_t       bytes;
};

struct settings {
    const char *                              model_path;
    struct llama_model_params                 model;
    struct llama_context_params               context;
    struct llama_model_tensor_buft_override   overrides[MOST_OVERRIDES + 1];
    size_t                                    n_overrides;
    float                                     splits[MOST_SPLITS];
    struct limit                              limits[MOST_LIMITS];
    size_t                                    n_limits;
    long long                                 gpus;
    long long                                 alignment;
    long long                                 max_buffer;
    long long                                 prompt;
    long long                                 tokens;
    long long                                 contexts;
    bool                                      pipelines;
    bool                                      list_devices;
};

static const char usage[] =
    "usage: placed MODEL.gguf [options]\n"
    "Decodes a random prompt, generates greedily; prints a hash of the logits, and the bytes that devices were asked for.\n"
    "llama.cpp's own options:\n"
    "  -ngl N                   layers on devices\n"
    "  -ts N,N,...              parts of them on each\n"
    "  -nkvo                    caches stay on the host\n"
    "  -ot PATTERN=TYPE,...     buffer types of tensors\n"
    "  --n-cpu-moe N            experts of the first N layers stay on the host\n"
    "  --n-cpu-ffn N            FFNs of the first N layers stay on the host\n"
    "  --no-op-offload          operations stay where their weights are\n"
    "  -nr                      the CPU does not repack weights\n"
    "  -ctk f16|q8_0            type of the keys' cache      (default f16)\n"
    "  -ctv f16|q8_0            type of the values' cache    (default f16)\n"
    "  --rerank                 compute a rank of the prompt instead of logits\n"
    "  -fa on|off               flash attention             (default on)\n"
    "  -c N                     tokens of the context       (default 128)\n"
    "  -ub N                    tokens of a graph           (default 64)\n"
    "  -t N                     threads                     (default 2)\n"
    "others:\n"
    "  --prompt N               prompt tokens               (default 96)\n"
    "  --tokens N               tokens to generate          (default 4)\n"
    "  --contexts N             contexts that decode in turns, of which each gets its logits when all have (default 1)\n"
    "  --limit DEVICE=BYTES     the device refuses more; may be given several times\n"
    "  --gpus N                 register N devices GPU0, GPU1, ... that the CPU computes for (default 0)\n"
    "  --alignment BYTES        of tensors on these         (default 128)\n"
    "  --max-buffer BYTES       of these                    (default 1 GiB)\n"
    "  --pipelines              these have events\n"
    "  --list-devices           print the devices, load nothing\n"
    "  --help                   this text\n";

// ---------------------------------------------------------------------------------------------------
// Options
// ---------------------------------------------------------------------------------------------------

static bool wrong(const char * option, const char * value) {
    fprintf(stderr, PROGRAM ": %s cannot be '%s'\n", option, value);
    return false;
}

static bool number(const char * option, const char * value, long long least, long long * result) {
    char * end = NULL;
    *result    = strtoll(value, &end, 10);
    return (end != value && *end == '\0' && *result >= least) || wrong(option, value);
}

static ggml_backend_buffer_type_t type_named(const char * name) {
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(ggml_backend_dev_get(i));
        if (type != NULL && strcmp(ggml_backend_buft_name(type), name) == 0) {
            return type;
        }
    }
    return NULL;
}

// Cuts the value at its commas, as llama.cpp does; the parts stay in the settings.
static bool parse_overrides(struct settings * settings, char * value) {
    for (char * part = strtok(value, ","); part != NULL; part = strtok(NULL, ",")) {
        char * equals = strchr(part, '=');
        if (equals == NULL || settings->n_overrides == MOST_OVERRIDES) {
            return wrong("-ot", part);
        }
        *equals = '\0';
        ggml_backend_buffer_type_t type = type_named(equals + 1);
        if (type == NULL) {
            return wrong("the buffer type of -ot", equals + 1);
        }
        settings->overrides[settings->n_overrides++] = (struct llama_model_tensor_buft_override) { part, type };
    }
    settings->model.tensor_buft_overrides = settings->overrides;
    return true;
}

// The patterns of llama.cpp's option of this name.
static bool add_first_layers(struct settings * settings, const char * option, const char * value) {
    static char  patterns[MOST_OVERRIDES][MOST_PATTERN];
    const char * tensors = strcmp(option, "--n-cpu-moe") == 0 ? "(up|down|gate|gate_up)_(ch|)exps" : "(up|down|gate)\\.";
    long long    layers  = 0;
    if (!number(option, value, 0, &layers)) {
        return false;
    }
    for (long long i = 0; i < layers; i++) {
        if (settings->n_overrides == MOST_OVERRIDES) {
            return wrong(option, value);
        }
        char * pattern = patterns[settings->n_overrides];
        snprintf(pattern, MOST_PATTERN, "blk\\.%lld\\.ffn_%s", i, tensors);
        settings->overrides[settings->n_overrides++] =
            (struct llama_model_tensor_buft_override) { pattern, ggml_backend_cpu_buffer_type() };
    }
    settings->model.tensor_buft_overrides = settings->overrides;
    return true;
}

static bool parse_splits(struct settings * settings, char * value) {
    size_t count = 0;
    for (char * part = strtok(value, ","); part != NULL; part = strtok(NULL, ",")) {
        if (count == MOST_SPLITS) {
            return wrong("-ts", part);
        }
        settings->splits[count++] = strtof(part, NULL);
    }
    settings->model.tensor_split = settings->splits;
    return true;
}

static bool parse_limit(struct settings * settings, char * value) {
    char * equals = strchr(value, '=');
    if (equals == NULL || settings->n_limits == MOST_LIMITS) {
        return wrong("--limit", value);
    }
    *equals              = '\0';
    struct limit * limit = &settings->limits[settings->n_limits++];
    limit->device        = value;
    limit->bytes         = strtoull(equals + 1, NULL, 10);
    return true;
}

static bool parse_with_value(struct settings * settings, const char * option, char * value) {
    long long      n       = 0;
    const struct {
        const char * name;
        long long *  number;
        long long    least;
    } numbers[] = {
        { "--gpus", &settings->gpus, 0 },             { "--alignment", &settings->alignment, 1 },
        { "--prompt", &settings->prompt, 1 },         { "--tokens", &settings->tokens, 0 },
        { "--max-buffer", &settings->max_buffer, 1 }, { "--contexts", &settings->contexts, 1 },
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(option, numbers[i].name) == 0) {
            return number(option, value, numbers[i].least, numbers[i].number);
        }
    }
    if (strcmp(option, "--limit") == 0) {
        return parse_limit(settings, value);
    }
    if (strcmp(option, "-ts") == 0) {
        return parse_splits(settings, value);
    }
    if (strcmp(option, "--n-cpu-moe") == 0 || strcmp(option, "--n-cpu-ffn") == 0) {
        return add_first_layers(settings, option, value);
    }
    if (strcmp(option, "-fa") == 0) {
        settings->context.flash_attn_type =
            strcmp(value, "on") == 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        return strcmp(value, "on") == 0 || strcmp(value, "off") == 0 || wrong(option, value);
    }
    if (strcmp(option, "-ctk") == 0 || strcmp(option, "-ctv") == 0) {
        enum ggml_type * type = option[3] == 'k' ? &settings->context.type_k : &settings->context.type_v;
        *type                 = strcmp(value, "q8_0") == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
        return *type == GGML_TYPE_Q8_0 || strcmp(value, "f16") == 0 || wrong(option, value);
    }
    const bool is_number = strcmp(option, "-ngl") == 0 || strcmp(option, "-c") == 0 || strcmp(option, "-ub") == 0
        || strcmp(option, "-t") == 0;
    if (!is_number) {
        fprintf(stderr, PROGRAM ": unknown option '%s'\n", option);
        return false;
    }
    if (!number(option, value, 0, &n)) {
        return false;
    }
    if (strcmp(option, "-ngl") == 0) {
        settings->model.n_gpu_layers = (int32_t) n;
    } else if (strcmp(option, "-c") == 0) {
        settings->context.n_ctx = (uint32_t) n;
    } else if (strcmp(option, "-ub") == 0) {
        settings->context.n_ubatch = (uint32_t) n;
    } else {
        settings->context.n_threads       = (int32_t) n;
        settings->context.n_threads_batch = (int32_t) n;
    }
    return true;
}

// `overrides` receives the value of -ot, which needs devices that other options register.
static bool parse(struct settings * settings, int argc, char ** argv, char ** overrides) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-nkvo") == 0) {
            settings->context.offload_kqv = false;
        } else if (strcmp(argv[i], "--no-op-offload") == 0) {
            settings->context.op_offload = false;
        } else if (strcmp(argv[i], "-nr") == 0) {
            settings->model.use_extra_bufts = false;
        } else if (strcmp(argv[i], "--rerank") == 0) {
            settings->context.embeddings   = true;
            settings->context.pooling_type = LLAMA_POOLING_TYPE_RANK;
        } else if (strcmp(argv[i], "--pipelines") == 0) {
            settings->pipelines = true;
        } else if (strcmp(argv[i], "--list-devices") == 0) {
            settings->list_devices = true;
        } else if (argv[i][0] != '-') {
            settings->model_path = argv[i];
        } else if (i + 1 == argc) {
            fprintf(stderr, PROGRAM ": %s needs a value\n", argv[i]);
            return false;
        } else if (strcmp(argv[i], "-ot") == 0) {
            *overrides = argv[++i];
        } else {
            i++;
            if (!parse_with_value(settings, argv[i - 1], argv[i])) {
                return false;
            }
        }
    }
    if (settings->model_path == NULL && !settings->list_devices) {
        fprintf(stderr, PROGRAM ": no model given\n");
        return false;
    }
    if (settings->prompt + settings->tokens > MOST_TOKENS || settings->contexts > MOST_CONTEXTS) {
        fprintf(stderr, PROGRAM ": at most %d tokens and %d contexts\n", MOST_TOKENS, MOST_CONTEXTS);
        return false;
    }
    return true;
}

// Registers, counts and limits devices, then finds the buffer types that are named.
static bool prepare_devices(struct settings * settings, char * overrides) {
    if (settings->gpus > 0
        && !test_gpus_register((int) settings->gpus, (size_t) settings->alignment, (size_t) settings->max_buffer,
                               settings->pipelines)) {
        return wrong("--gpus", "so many");
    }
    if (!counted_devices_start()) {
        return wrong("the number of devices", "so large");
    }
    for (size_t i = 0; i < settings->n_limits; i++) {
        if (!counted_devices_limit(settings->limits[i].device, settings->limits[i].bytes)) {
            return wrong("the device of --limit", settings->limits[i].device);
        }
    }
    return overrides == NULL || parse_overrides(settings, overrides);
}

// ---------------------------------------------------------------------------------------------------
// Running
// ---------------------------------------------------------------------------------------------------

static bool decode(struct llama_context * context, llama_token * tokens, int32_t count) {
    const int32_t status = llama_decode(context, llama_batch_get_one(tokens, count));
    if (status != 0) {
        fprintf(stderr, PROGRAM ": llama_decode failed with status %d\n", (int) status);
    }
    return status == 0;
}

// All contexts decode before the logits of the first one are read; each has a prompt of its own.
static bool generate(struct llama_context ** contexts, int32_t vocab_size, const struct settings * settings) {
    static llama_token prompt[MOST_TOKENS];
    llama_token        next[MOST_CONTEXTS];
    uint64_t           state = 1;
    uint64_t           hash  = UINT64_C(0xcbf29ce484222325);
    const uint64_t     start = nanoseconds_now();
    for (long long round = 0; round <= settings->tokens; round++) {
        for (long long c = 0; c < settings->contexts; c++) {
            for (long long i = 0; round == 0 && i < settings->prompt; i++) {
                prompt[i] = (llama_token) (splitmix64(&state) % (uint64_t) vocab_size);
            }
            llama_token * tokens = round == 0 ? prompt : &next[c];
            if (!decode(contexts[c], tokens, round == 0 ? (int32_t) settings->prompt : 1)) {
                return false;
            }
        }
        for (long long c = 0; c < settings->contexts; c++) {
            const bool    ranks  = settings->context.embeddings;
            const int32_t count  = ranks ? 1 : vocab_size;
            const float * values = ranks ? llama_get_embeddings_seq(contexts[c], 0) : llama_get_logits_ith(contexts[c], -1);
            if (values == NULL) {
                fprintf(stderr, PROGRAM ": no logits after decoding\n");
                return false;
            }
            hash    = fnv1a_64(hash, values, (size_t) count * sizeof(float));
            next[c] = most_likely_token(values, count);
        }
    }
    printf("logits_hash=%016" PRIx64 "\nmilliseconds=%.1f\n", hash, (double) (nanoseconds_now() - start) / 1e6);
    return true;
}

static bool run(const struct settings * settings) {
    struct llama_model * model = llama_model_load_from_file(settings->model_path, settings->model);
    if (model == NULL) {
        fprintf(stderr, PROGRAM ": cannot load the model %s\n", settings->model_path);
        return false;
    }
    struct llama_context * contexts[MOST_CONTEXTS] = { NULL };
    bool                   done                    = true;
    for (long long i = 0; i < settings->contexts && done; i++) {
        contexts[i] = llama_init_from_model(model, settings->context);
        done        = contexts[i] != NULL;
    }
    if (!done) {
        fprintf(stderr, PROGRAM ": cannot create a context\n");
    }
    done = done && generate(contexts, llama_vocab_n_tokens(llama_model_get_vocab(model)), settings);
    // Requests while the model runs count too, so this is last.
    counted_devices_print(stdout);
    for (long long i = 0; i < settings->contexts; i++) {
        llama_free(contexts[i]);
    }
    llama_model_free(model);
    return done;
}

static struct settings default_settings(void) {
    struct settings settings = {
        .model   = llama_model_default_params(),
        .context = llama_context_default_params(),
        .alignment = 128, .max_buffer = 1 << 30, .prompt = 96, .tokens = 4, .contexts = 1,
    };
    // Weights of the host are in buffers of its type, not in the mapped file.
    settings.model.load_mode         = LLAMA_LOAD_MODE_NONE;
    settings.context.n_ctx           = 128;
    settings.context.n_batch         = MOST_TOKENS;
    settings.context.n_ubatch        = 64;
    settings.context.n_threads       = 2;
    settings.context.n_threads_batch = 2;
    settings.context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    return settings;
}

int main(int argc, char ** argv) {
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    static struct settings settings;
    char *                 overrides = NULL;
    settings = default_settings();
    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    if (!parse(&settings, argc, argv, &overrides) || !prepare_devices(&settings, overrides)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    bool done = true;
    if (settings.list_devices) {
        counted_devices_print(stdout);
    } else {
        done = run(&settings);
    }
    llama_backend_free();
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
