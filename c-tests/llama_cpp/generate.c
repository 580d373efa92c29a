// Loads a GGUF model, decodes a prompt of random tokens, then generates greedily, and
// reports the speed of both and a hash over all logits. Equal hashes mean equal results.

#define _POSIX_C_SOURCE 200809L

#include "decoding.h"
#include "hash.h"
#include "log_errors.h"
#include "options.h"
#include "splitmix.h"

#include "llama.h"

#include <inttypes.h>
#include <sys/resource.h>

#define PROGRAM "generate"

// A prompt of up to this many tokens is computed as one graph.
enum { BATCH_TOKENS = 512 };

struct settings {
    const char * model_path;
    const char * logits_path;
    const char * flash;
    long long    prompt;
    long long    tokens;
    long long    threads;
    long long    seed;
    long long    context;
};

struct session {
    struct llama_model *   model;
    struct llama_context * context;
    int32_t                vocab_size;
    FILE *                 logits_file;
    uint64_t               logits_hash;
    long long              logits_count;
};

static const char usage[] =
    "usage: generate MODEL.gguf [options]\n"
    "Decodes a random prompt, generates greedily, reports speed and a hash of the logits.\n"
    "  --prompt N       prompt tokens                                 (default 512)\n"
    "  --tokens N       tokens to generate                            (default 32)\n"
    "  --threads N      compute threads                               (default 2)\n"
    "  --logits FILE    write every logit vector there, as float32    (default: nowhere)\n"
    "  --flash on|off   flash attention                               (default on)\n"
    "  --seed N         seed of the prompt                            (default 1)\n"
    "  --context N      cells of the cache, at least (default 0: for prompt and tokens)\n"
    "  --help           this text\n";

static bool load_model(struct session * session, const char * path) {
    struct llama_model_params params = llama_model_default_params();
    // Reading the weights up front keeps page faults on the file out of the measured time.
    params.load_mode    = LLAMA_LOAD_MODE_NONE;
    params.n_gpu_layers = 0;

    session->model = llama_model_load_from_file(path, params);
    if (session->model == NULL) {
        fprintf(stderr, PROGRAM ": cannot load the model %s\n", path);
        return false;
    }
    session->vocab_size = llama_vocab_n_tokens(llama_model_get_vocab(session->model));
    if (session->vocab_size <= 0) {
        fprintf(stderr, PROGRAM ": the model %s has no tokens\n", path);
        return false;
    }
    return true;
}

static bool create_context(struct session * session, const struct settings * settings) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx           = (uint32_t) (settings->prompt + settings->tokens);
    if (settings->context > params.n_ctx) {
        params.n_ctx = (uint32_t) settings->context;
    }
    params.n_batch         = BATCH_TOKENS;
    params.n_ubatch        = BATCH_TOKENS;
    params.n_threads       = (int32_t) settings->threads;
    params.n_threads_batch = (int32_t) settings->threads;
    params.flash_attn_type = strcmp(settings->flash, "on") == 0
        ? LLAMA_FLASH_ATTN_TYPE_ENABLED
        : LLAMA_FLASH_ATTN_TYPE_DISABLED;

    session->context = llama_init_from_model(session->model, params);
    if (session->context == NULL) {
        fprintf(stderr, PROGRAM ": cannot create a context\n");
        return false;
    }
    return true;
}

static bool open_logits_file(struct session * session, const char * path) {
    if (path == NULL) {
        return true;
    }
    session->logits_file = fopen(path, "wb");
    if (session->logits_file == NULL) {
        fprintf(stderr, PROGRAM ": cannot create %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}

static bool close_logits_file(struct session * session, const char * path) {
    FILE * file = session->logits_file;
    session->logits_file = NULL;
    if (file != NULL && fclose(file) != 0) {
        fprintf(stderr, PROGRAM ": cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}

// Adds the logits of the last decoded token to the file and the hash, and picks the next token.
static bool take_logits(struct session * session, llama_token * next) {
    const float * logits = llama_get_logits_ith(session->context, -1);
    if (logits == NULL) {
        fprintf(stderr, PROGRAM ": no logits after decoding\n");
        return false;
    }
    const size_t count = (size_t) session->vocab_size;
    if (session->logits_file != NULL && fwrite(logits, sizeof(float), count, session->logits_file) != count) {
        fprintf(stderr, PROGRAM ": cannot write the logits: %s\n", strerror(errno));
        return false;
    }
    session->logits_hash = fnv1a_64(session->logits_hash, logits, count * sizeof(float));
    session->logits_count++;
    *next = most_likely_token(logits, session->vocab_size);
    return true;
}

// Adds the time the tokens took to `seconds`.
static bool decode(struct session * session, llama_token * tokens, int32_t count, double * seconds) {
    const double start = seconds_now();
    const int32_t status = llama_decode(session->context, llama_batch_get_one(tokens, count));
    llama_synchronize(session->context);
    *seconds += seconds_now() - start;
    if (status != 0) {
        fprintf(stderr, PROGRAM ": llama_decode failed with status %d\n", (int) status);
        return false;
    }
    return true;
}

static bool decode_prompt(struct session * session, const struct settings * settings, double * seconds) {
    uint64_t state = (uint64_t) settings->seed;
    llama_token batch[BATCH_TOKENS];

    for (long long done = 0; done < settings->prompt; ) {
        const long long left  = settings->prompt - done;
        const int32_t   count = left < BATCH_TOKENS ? (int32_t) left : BATCH_TOKENS;
        for (int32_t i = 0; i < count; i++) {
            batch[i] = (llama_token) (splitmix64(&state) % (uint64_t) session->vocab_size);
        }
        if (!decode(session, batch, count, seconds)) {
            return false;
        }
        done += count;
    }
    return true;
}

static bool generate(struct session * session, const struct settings * settings) {
    double prompt_seconds = 0.0;
    double decode_seconds = 0.0;
    llama_token token;

    if (!decode_prompt(session, settings, &prompt_seconds) || !take_logits(session, &token)) {
        return false;
    }
    for (long long i = 0; i < settings->tokens; i++) {
        if (!decode(session, &token, 1, &decode_seconds) || !take_logits(session, &token)) {
            return false;
        }
    }
    if (!close_logits_file(session, settings->logits_path)) {
        return false;
    }
    printf("prompt_tokens_per_s=%.2f\n", (double) settings->prompt / prompt_seconds);
    printf("decode_tokens_per_s=%.2f\n", (double) settings->tokens / decode_seconds);
    printf("logits_hash=%016" PRIx64 "\n", session->logits_hash);
    printf("logits_count=%lld\n", session->logits_count);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("peak_resident=%ld\n", usage.ru_maxrss * 1024);
    return true;
}

static bool run(const struct settings * settings) {
    struct session session = { .logits_hash = UINT64_C(0xcbf29ce484222325) };

    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    const bool done = load_model(&session, settings->model_path)
        && create_context(&session, settings)
        && open_logits_file(&session, settings->logits_path)
        && generate(&session, settings);

    if (session.logits_file != NULL) {
        fclose(session.logits_file);
    }
    llama_free(session.context);
    llama_model_free(session.model);
    llama_backend_free();
    return done;
}

int main(int argc, char ** argv) {
    struct settings settings = { .flash = "on", .prompt = 512, .tokens = 32, .threads = 2, .seed = 1 };
    const struct option_spec options[] = {
        { "--prompt",  &settings.prompt,  1, 1 << 20,   NULL },
        { "--tokens",  &settings.tokens,  1, 1 << 20,   NULL },
        { "--threads", &settings.threads, 1, 512,       NULL },
        { "--seed",    &settings.seed,    0, INT64_MAX, NULL },
        { "--context", &settings.context, 0, INT32_MAX, NULL },
        { "--logits",  NULL,              0, 0,         &settings.logits_path },
        { "--flash",   NULL,              0, 0,         &settings.flash },
    };

    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.model_path)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (strcmp(settings.flash, "on") != 0 && strcmp(settings.flash, "off") != 0) {
        fprintf(stderr, PROGRAM ": --flash needs 'on' or 'off', not '%s'\n", settings.flash);
        return EXIT_USAGE;
    }
    return run(&settings) ? EXIT_SUCCESS : EXIT_FAILURE;
}
