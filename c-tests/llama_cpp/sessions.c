// Uses llama.cpp in all the ways that programs do, so that its graphs change from call to call, and writes every
// result.
//
// A decoder: prompts of 1 to 512 tokens with single tokens between them, several sequences at once, embeddings on and
// off, states that are saved and restored, contexts that are shifted. An encoder: batches of 1 to 512 tokens, several
// sequences at once. Tokens are random where they are not the most likely ones. A model with a projector: images with
// tokens between them.

#define _POSIX_C_SOURCE 200809L

#include "sessions/decoder.h"
#include "sessions/encoder.h"
#include "sessions/servers.h"
#include "sessions/speculative.h"
#include "sessions/turns.h"
#ifdef HAS_PROJECTORS
#include "sessions/images.h"
#endif

#include "log_errors.h"
#include "options.h"
#include "test_gpus.h"

#include <pthread.h>
#include <sys/resource.h>

// The size of a buffer of a device.
#define MOST_BYTES ((size_t) 1 << 30)

static const char usage[] =
    "usage: sessions MODEL.gguf --output FILE [options]\n"
    "Decodes or encodes with a model in many ways, and writes all logits and embeddings, as float32.\n"
    "  --output FILE    where they are written\n"
    "  --flash on|off   flash attention                                    (default on)\n"
    "  --cache KIND     \"streams\", one for each sequence, or \"unified\"      (default streams)\n"
    "  --cells N        cells of the cache of a sequence                   (default 2048)\n"
    "  --cells-type T   \"f16\", or \"q8_0\" with flash attention          (default f16)\n"
    "  --cells-on WHERE \"devices\", with the layers, or \"host\"           (default devices)\n"
    "  --shift on|off   shift a context that is full                       (default on)\n"
    "  --rpc ENDPOINTS  servers that get equal parts of the layers, with commas between\n"
    "  --gpus N         devices that get the layers, and compute in a pipeline (default 0)\n"
    "  --repeat N       how often all is done                              (default 1)\n"
    "  --time WHAT      what tokens a second are of: \"decode\", or \"all\" with contexts made and cleared (default decode)\n"
    "  --threads N      compute threads                                    (default 1)\n"
    "  --contexts N     that many contexts at the same time, each does all  (default 1)\n"
    "  --turns on|off   they take turns on one thread, after each batch     (default off)\n"
    "  --other MODEL    the model of every other context\n"
    "  --projector FILE makes embeddings of images for the model, which takes turns with it, and nothing else is done\n"
    "  --speculate N    the other context drafts N tokens at a time for the first one, and nothing else is done (default 0)\n"
    "  --help           this text\n";

// Opens the file for the results of a session: that of the first is the one of the program.
static FILE * open_output(const struct settings * settings, long long number) {
    char         path[4096];
    const char * format = number == 0 ? "%s" : "%s.%lld";
    const int    length = snprintf(path, sizeof(path), format, settings->output, number);
    check(length > 0 && (size_t) length < sizeof(path), "the path of the results is too long");
    FILE * file = fopen(path, "w+b");
    check(file != NULL, "cannot create the file for the results");
    check(number == 0 || remove(path) == 0, "cannot remove a file that is open");
    return file;
}

// Versions of llama.cpp with libmtmd are compiled with HAS_PROJECTORS.
#ifndef HAS_PROJECTORS
static void run_with_images(struct session * session) {
    (void) session;
    fail("libmtmd is not there");
}
#endif

static void run_session(struct session * session) {
    if (session->context == NULL) {
        session->context = new_context(session);
    }
    session->batch = llama_batch_init(MOST_TOKENS, 0, 1);
    for (long long i = 0; i < session->settings->repeat; i++) {
        if (session->settings->projector_path != NULL) {
            run_with_images(session);
        } else if (llama_get_memory(session->context) == NULL) { // only what decodes remembers anything
            run_encoder(session);
        } else {
            run_decoder(session);
        }
    }
#ifdef COUNTS_REALLOCATIONS
    const struct llama_perf_context_data counts = llama_perf_context(session->context);
    session->reallocations                      = counts.n_reallocs_same + counts.n_reallocs_diff;
#endif
    llama_batch_free(session->batch);
    llama_free(session->context);
}

static void * run_on_thread(void * session) {
    run_session(session);
    return NULL;
}

// Runs sessions with the models, all at the same time. Returns them.
static struct session * run_sessions(const struct settings * settings, struct llama_model * models[2]) {
    struct session *        sessions = calloc((size_t) settings->contexts, sizeof(*sessions));
    pthread_t               threads[MOST_CONTEXTS];
    check(sessions != NULL, "no memory is left");
    for (long long i = 0; i < settings->contexts; i++) {
        struct llama_model * model = models[i % 2] == NULL ? models[0] : models[i % 2];
        sessions[i]        = (struct session) { .settings = settings, .model = model };
        sessions[i].vocab  = llama_vocab_n_tokens(llama_model_get_vocab(model));
        sessions[i].width  = llama_model_n_embd(model);
        sessions[i].random = (uint64_t) i + 1;
        sessions[i].output = open_output(settings, i);
    }
    const bool speculates = settings->speculate > 0;
    if (speculates || strcmp(settings->turns, "on") == 0) {
        for (long long i = 0; i < settings->contexts; i++) {
            sessions[i].context = new_context(&sessions[i]);
        }
        if (speculates) {
            speculate(&sessions[0], &sessions[1]);
            return sessions;
        }
        run_in_turns(sessions, (int) settings->contexts, run_session);
        return sessions;
    }
    for (long long i = 1; i < settings->contexts; i++) {
        check(pthread_create(&threads[i], NULL, run_on_thread, &sessions[i]) == 0, "cannot start a thread");
    }
    run_session(&sessions[0]);
    for (long long i = 1; i < settings->contexts; i++) {
        check(pthread_join(threads[i], NULL) == 0, "cannot wait for a thread");
    }
    return sessions;
}

// Writes the results of all sessions one after the other.
static void write_results(const struct session * sessions, const struct settings * settings) {
    char buffer[65536];
    for (long long i = 1; i < settings->contexts; i++) {
        rewind(sessions[i].output);
        size_t bytes;
        while ((bytes = fread(buffer, 1, sizeof(buffer), sessions[i].output)) > 0) {
            check(fwrite(buffer, 1, bytes, sessions[0].output) == bytes, "cannot write the results");
        }
        check(ferror(sessions[i].output) == 0 && fclose(sessions[i].output) == 0, "cannot read the results");
    }
    check(fclose(sessions[0].output) == 0, "cannot write the results");
}

// Versions of llama.cpp that count them are compiled with COUNTS_REALLOCATIONS.
static void print_reallocations(const struct session * sessions, const struct settings * settings) {
    long long reallocations = 0;
    for (long long i = 0; i < settings->contexts; i++) {
        reallocations += sessions[i].reallocations;
    }
    printf("reallocations=%lld\n", reallocations);
}

static void print_speed(const struct session * sessions, const struct settings * settings, double seconds) {
    long long tokens = 0;
    for (long long i = 0; i < settings->contexts; i++) {
        tokens += sessions[i].tokens;
    }
    // The clock is that of the process: with several contexts, of all of them together.
    const bool decodes_alone = settings->contexts == 1 && strcmp(settings->time, "decode") == 0;
    printf("units_per_second=%.2f\n", (double) tokens / (decodes_alone ? sessions[0].seconds : seconds));
}

static void print_peak_resident(void) {
    struct rusage usage;
    check(getrusage(RUSAGE_SELF, &usage) == 0, "cannot tell the resident memory");
    printf("peak_resident=%ld\n", usage.ru_maxrss * 1024);
}

static void run(const struct settings * settings) {
    struct llama_model * models[2] = { NULL, NULL };
    static float         equal[MOST_SERVERS];
    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    if (settings->rpc != NULL) {
        const size_t servers = add_servers(settings->rpc);
        check(servers <= MOST_SERVERS, "too many servers");
        for (size_t i = 0; i < servers; i++) {
            equal[i] = 1.0f;
        }
        params.tensor_split = equal; // otherwise by free memory, which changes
        params.n_gpu_layers = 999;
    }
    if (settings->gpus > 0) {
        check(test_gpus_register((int) settings->gpus, 128, MOST_BYTES, true), "cannot register devices");
        params.n_gpu_layers = 999;
    }
    models[0] = llama_model_load_from_file(settings->model_path, params);
    check(models[0] != NULL, "cannot load the model");
    if (settings->other_path != NULL) {
        models[1] = llama_model_load_from_file(settings->other_path, params);
        check(models[1] != NULL, "cannot load the other model");
    }
    const double     start    = processor_seconds_now();
    struct session * sessions = run_sessions(settings, models);
    print_speed(sessions, settings, processor_seconds_now() - start);
    print_reallocations(sessions, settings);
    print_peak_resident();
    write_results(sessions, settings);
    free(sessions);
    llama_model_free(models[0]);
    llama_model_free(models[1]);
    llama_backend_free();
}

static bool is_one_of(const char * option, const char * value, const char * first, const char * second) {
    if (strcmp(value, first) == 0 || strcmp(value, second) == 0) {
        return true;
    }
    fprintf(stderr, PROGRAM ": %s needs '%s' or '%s', not '%s'\n", option, first, second, value);
    return false;
}

int main(int argc, char ** argv) {
    struct settings settings = { .flash = "on", .cache = "streams", .shift = "on", .repeat = 1, .threads = 1, .contexts = 1,
                                 .cells = SEQUENCE_CELLS, .cells_type = "f16", .cells_on = "devices", .time = "decode",
                                 .turns = "off" };
    const struct option_spec options[] = {
        { "--output",  NULL,              0, 0,       &settings.output },
        { "--other",   NULL,              0, 0,       &settings.other_path },
        { "--projector", NULL,            0, 0,       &settings.projector_path },
        { "--turns",   NULL,              0, 0,       &settings.turns },
        { "--flash",   NULL,              0, 0,       &settings.flash },
        { "--cache",   NULL,              0, 0,       &settings.cache },
        { "--cells",      &settings.cells, SEQUENCE_CELLS, 1 << 20, NULL },
        { "--cells-type", NULL,           0, 0,       &settings.cells_type },
        { "--cells-on",   NULL,           0, 0,       &settings.cells_on },
        { "--time",    NULL,              0, 0,       &settings.time },
        { "--shift",   NULL,              0, 0,       &settings.shift },
        { "--rpc",     NULL,              0, 0,       &settings.rpc },
        { "--gpus",    &settings.gpus,    0, 4,       NULL },
        { "--repeat",  &settings.repeat,  1, 1 << 20, NULL },
        { "--threads", &settings.threads, 1, 512,     NULL },
        { "--contexts", &settings.contexts, 1, MOST_CONTEXTS, NULL },
        { "--speculate", &settings.speculate, 0, MOST_DRAFTED, NULL },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.model_path)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (settings.output == NULL || (settings.speculate > 0 && settings.contexts != 2)) {
        fprintf(stderr, PROGRAM ": --output is missing, or --contexts is not 2 for --speculate\n");
        return EXIT_USAGE;
    }
    if (!is_one_of("--flash", settings.flash, "on", "off") || !is_one_of("--shift", settings.shift, "on", "off")
        || !is_one_of("--cache", settings.cache, "streams", "unified")
        || !is_one_of("--turns", settings.turns, "on", "off") || !is_one_of("--time", settings.time, "decode", "all")
        || !is_one_of("--cells-type", settings.cells_type, "f16", "q8_0")
        || !is_one_of("--cells-on", settings.cells_on, "devices", "host")) {
        return EXIT_USAGE;
    }
    run(&settings);
    return EXIT_SUCCESS;
}
