// Uses llama.cpp in as many ways as programs do, so that its graphs change from call to call, and writes every result.
//
// A decoder: prompts of 1 to 512 tokens with single tokens between them, several sequences at once, embeddings on and
// off, states that are saved and restored, contexts that are shifted. An encoder: batches of 1 to 512 tokens, several
// sequences at once. Tokens are random where they are not the most likely ones.

#define _POSIX_C_SOURCE 200809L

#include "decoding.h"
#include "log_errors.h"
#include "options.h"
#include "splitmix.h"

#include "ggml-backend.h"
#include "llama.h"

#include <math.h>

#define PROGRAM "sessions"

enum {
    MOST_TOKENS    = 512, // of a batch
    SEQUENCES      = 4,
    SEQUENCE_CELLS = 2048,
    MOST_SERVERS   = 16,
};

static const char usage[] =
    "usage: sessions MODEL.gguf --output FILE [options]\n"
    "Decodes or encodes with a model in many ways, and writes all logits and embeddings, as float32.\n"
    "  --output FILE    where they are written\n"
    "  --flash on|off   flash attention                                    (default on)\n"
    "  --cache KIND     \"streams\", one for each sequence, or \"unified\"      (default streams)\n"
    "  --rpc ENDPOINTS  servers that get equal parts of the layers, with commas between\n"
    "  --repeat N       how often all is done                              (default 1)\n"
    "  --threads N      compute threads                                    (default 1)\n"
    "  --help           this text\n";

struct settings {
    const char * model_path;
    const char * output;
    const char * flash;
    const char * cache;
    const char * rpc;
    long long    repeat;
    long long    threads;
};

struct session {
    const struct settings * settings;
    struct llama_model *    model;
    struct llama_context *  context;
    int32_t                 vocab;
    int32_t                 width; // of embeddings
    struct llama_batch      batch;
    FILE *                  output;
    uint64_t                random;
    long long               tokens;
    double                  seconds; // of the processor
};

static void fail(const char * why) {
    fprintf(stderr, PROGRAM ": %s\n", why);
    exit(EXIT_FAILURE);
}

static void check(bool good, const char * why) {
    if (!good) {
        fail(why);
    }
}

static struct llama_context * new_context(const struct session * session) {
    const struct settings *     settings = session->settings;
    struct llama_context_params params   = llama_context_default_params();
    params.n_ctx           = SEQUENCES * SEQUENCE_CELLS;
    params.n_seq_max       = SEQUENCES;
    params.n_batch         = MOST_TOKENS;
    params.n_ubatch        = MOST_TOKENS;
    params.n_threads       = (int32_t) settings->threads;
    params.n_threads_batch = (int32_t) settings->threads;
    params.swa_full        = false;
    params.kv_unified      = strcmp(settings->cache, "unified") == 0;
    params.flash_attn_type = strcmp(settings->flash, "on") == 0
        ? LLAMA_FLASH_ATTN_TYPE_ENABLED
        : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context * context = llama_init_from_model(session->model, params);
    check(context != NULL, "cannot create a context");
    return context;
}

static llama_token random_token(struct session * session) {
    return (llama_token) (splitmix64(&session->random) % (uint64_t) session->vocab);
}

static void write_floats(struct session * session, const float * floats, int32_t count) {
    check(floats != NULL, "a result is missing");
    for (int32_t i = 0; i < count; i++) {
        check(isfinite(floats[i]), "a result is not finite: it would be equal to any other such one");
    }
    check(fwrite(floats, sizeof(float), (size_t) count, session->output) == (size_t) count, "cannot write the results");
}

static void add_token(struct session * session, llama_token token, llama_pos position, llama_seq_id sequence, bool has_result) {
    struct llama_batch * batch = &session->batch;
    const int32_t        i     = batch->n_tokens++;
    batch->token[i]     = token;
    batch->pos[i]       = position;
    batch->n_seq_id[i]  = 1;
    batch->seq_id[i][0] = sequence;
    batch->logits[i]    = has_result;
}

// Adds random tokens behind `position`; the last one has a result, or all have.
static void add_prompt(struct session * session, int32_t count, llama_pos position, llama_seq_id sequence, bool all) {
    for (int32_t i = 0; i < count; i++) {
        add_token(session, random_token(session), position + i, sequence, all || i + 1 == count);
    }
}

// Decodes what was added, and keeps the batch for its results.
static void decode(struct session * session) {
    const double  start  = processor_seconds_now();
    const int32_t status = llama_decode(session->context, session->batch);
    llama_synchronize(session->context);
    session->seconds += processor_seconds_now() - start;
    session->tokens += session->batch.n_tokens;
    check(status == 0, "llama_decode failed");
}

// Writes the logits of all tokens of the batch that have some, and begins the next batch. Returns the token that is the
// most likely after the last one.
static llama_token take_logits(struct session * session) {
    llama_token next = 0;
    for (int32_t i = 0; i < session->batch.n_tokens; i++) {
        if (session->batch.logits[i]) {
            const float * logits = llama_get_logits_ith(session->context, i);
            write_floats(session, logits, session->vocab);
            next = most_likely_token(logits, session->vocab);
        }
    }
    session->batch.n_tokens = 0;
    return next;
}

static void take_embeddings(struct session * session) {
    for (int32_t i = 0; i < session->batch.n_tokens; i++) {
        if (session->batch.logits[i]) {
            write_floats(session, llama_get_embeddings_ith(session->context, i), session->width);
        }
    }
}

static llama_pos end_of(const struct session * session, llama_seq_id sequence) {
    return llama_memory_seq_pos_max(llama_get_memory(session->context), sequence) + 1;
}

static void forget(struct session * session) {
    llama_memory_clear(llama_get_memory(session->context), true);
}

// Decodes a random prompt as sequence 0, which must not be there yet.
static llama_token prompt(struct session * session, int32_t count) {
    add_prompt(session, count, 0, 0, false);
    decode(session);
    return take_logits(session);
}

static llama_token generate(struct session * session, llama_token token, int32_t count, llama_seq_id sequence) {
    for (int32_t i = 0; i < count; i++) {
        add_token(session, token, end_of(session, sequence), sequence, true);
        decode(session);
        token = take_logits(session);
    }
    return token;
}

// Batches of all sizes, with one result or with all, and single tokens between them.
static void prompts_and_single_tokens(struct session * session) {
    static const int32_t sizes[] = { 1, 2, 512, 3, 7, 16, 33, 64, 127, 256, 300 };
    forget(session);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        add_prompt(session, sizes[i], end_of(session, 0), 0, i % 2 == 1);
        decode(session);
        generate(session, take_logits(session), 2, 0);
    }
}

static void step_sequences(struct session * session, int32_t steps) {
    for (int32_t step = 0; step < steps; step++) {
        for (llama_seq_id sequence = 0; sequence < SEQUENCES; sequence++) {
            add_token(session, random_token(session), end_of(session, sequence), sequence, true);
        }
        decode(session);
        take_logits(session);
    }
}

// Prompts of several sequences in one batch, steps of all at once, one that is replaced by a copy of another.
static void several_sequences(struct session * session) {
    static const int32_t sizes[SEQUENCES] = { 5, 40, 130, 13 };
    llama_memory_t       memory           = llama_get_memory(session->context);
    forget(session);
    for (llama_seq_id sequence = 0; sequence < SEQUENCES; sequence++) {
        add_prompt(session, sizes[sequence], 0, sequence, false);
    }
    decode(session);
    take_logits(session);
    step_sequences(session, 6);
    check(llama_memory_seq_rm(memory, 2, -1, -1), "a sequence cannot be removed");
    generate(session, random_token(session), 2, 1);
    llama_memory_seq_cp(memory, 0, 2, -1, -1);
    step_sequences(session, 4);
}

// Results that are embeddings, logits alone again, embeddings again.
static void embeddings(struct session * session) {
    forget(session);
    for (int turn = 0; turn < 3; turn++) {
        const bool wanted = turn != 1;
        llama_set_embeddings(session->context, wanted);
        add_prompt(session, 20 + turn, end_of(session, 0), 0, true);
        decode(session);
        if (wanted) {
            take_embeddings(session);
        }
        if (wanted && llama_get_logits_ith(session->context, 0) == NULL) {
            session->batch.n_tokens = 0; // some graphs leave out the logits then
        } else {
            take_logits(session);
        }
    }
    llama_set_embeddings(session->context, false);
}

// Where in the output the next result goes.
static long tell(struct session * session) {
    const long position = ftell(session->output);
    check(position >= 0, "cannot tell where the results end");
    return position;
}

// Checks that the results between the two positions are there a second time behind them.
static void check_repeated(struct session * session, long from, long to) {
    check(tell(session) - to == to - from && to > from, "a restored state gives another number of results");
    unsigned char * both = malloc((size_t) (2 * (to - from)));
    const size_t    size = (size_t) (to - from);
    check(both != NULL, "out of memory");
    check(fseek(session->output, from, SEEK_SET) == 0 && fread(both, 1, 2 * size, session->output) == 2 * size,
          "cannot read the results again");
    check(memcmp(both, both + size, size) == 0, "a restored state gives other results");
    free(both);
    check(fseek(session->output, 0, SEEK_END) == 0, "cannot go on with the results");
}

// Restores the state in the context, and in a new one: what follows is what followed before.
static void save_and_restore(struct session * session) {
    forget(session);
    const llama_token token = prompt(session, 100);
    const size_t      size  = llama_state_get_size(session->context);
    uint8_t *         state = malloc(size);
    check(state != NULL, "out of memory");
    check(llama_state_get_data(session->context, state, size) > 0, "the state cannot be saved");
    const long from = tell(session);
    generate(session, token, 8, 0);
    const long to = tell(session);
    forget(session);
    check(llama_state_set_data(session->context, state, size) > 0, "the state cannot be restored");
    generate(session, token, 8, 0);
    check_repeated(session, from, to);

    struct llama_context * old = session->context;
    session->context           = new_context(session);
    check(llama_state_set_data(session->context, state, size) > 0, "the state cannot be restored in a new context");
    const long again = tell(session);
    generate(session, token, 8, 0);
    check_repeated(session, again - (to - from), again);
    llama_free(session->context);
    session->context = old;
    free(state);
}

// A sequence that is saved alone, and goes on as another one.
static void save_sequence(struct session * session) {
    forget(session);
    const llama_token token = prompt(session, 50);
    const size_t      size  = llama_state_seq_get_size(session->context, 0);
    uint8_t *         state = malloc(size);
    check(state != NULL, "out of memory");
    check(llama_state_seq_get_data(session->context, state, size, 0) > 0, "the sequence cannot be saved");
    generate(session, token, 3, 0);
    check(llama_state_seq_set_data(session->context, state, size, 1) > 0, "the sequence cannot be restored");
    generate(session, token, 3, 1);
    free(state);
}

// Forgets tokens in the middle and moves those behind them, as programs do whose context is full.
static void shift(struct session * session) {
    llama_memory_t memory = llama_get_memory(session->context);
    if (!llama_memory_can_shift(memory)) {
        return;
    }
    forget(session);
    const llama_token token = prompt(session, 200);
    if (llama_memory_seq_rm(memory, 0, 10, 60)) {
        llama_memory_seq_add(memory, 0, 60, -1, -50);
    }
    generate(session, token, 4, 0);
}

static void encode(struct session * session) {
    decode(session); // llama_decode encodes where there is no decoder
    take_embeddings(session);
    session->batch.n_tokens = 0;
}

static void run_encoder(struct session * session) {
    static const int32_t sizes[] = { 512, 1, 2, 3, 7, 16, 33, 64, 127, 256, 511 };
    llama_set_embeddings(session->context, true);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        add_prompt(session, sizes[i], 0, 0, true);
        encode(session);
    }
    for (int32_t size = 4; size <= 100; size *= 5) {
        for (llama_seq_id sequence = 0; sequence < SEQUENCES; sequence++) {
            add_prompt(session, size + sequence, 0, sequence, true);
        }
        encode(session);
    }
}

static void run_decoder(struct session * session) {
    prompts_and_single_tokens(session);
    several_sequences(session);
    embeddings(session);
    save_and_restore(session);
    save_sequence(session);
    shift(session);
}

// Registers the devices of RPC servers. Returns how many servers there are.
static size_t add_servers(const char * endpoints) {
    char * rest = strdup(endpoints);
    check(rest != NULL, "out of memory");
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    check(rpc != NULL, "this llama.cpp has no RPC backend");
    ggml_backend_reg_t (*add)(const char *) =
        (ggml_backend_reg_t (*)(const char *)) ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server");
    check(add != NULL, "the RPC backend adds no servers");
    size_t count = 0;
    for (char * endpoint = strtok(rest, ","); endpoint != NULL; endpoint = strtok(NULL, ",")) {
        ggml_backend_reg_t server = add(endpoint);
        check(server != NULL, "a server does not answer");
        ggml_backend_register(server);
        count++;
    }
    free(rest);
    return count;
}

static void run(const struct settings * settings) {
    struct session session = { .settings = settings, .random = 1 };
    static float   equal[MOST_SERVERS];
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
    session.model = llama_model_load_from_file(settings->model_path, params);
    check(session.model != NULL, "cannot load the model");
    session.vocab   = llama_vocab_n_tokens(llama_model_get_vocab(session.model));
    session.width   = llama_model_n_embd(session.model);
    session.context = new_context(&session);
    session.batch   = llama_batch_init(MOST_TOKENS, 0, 1);
    session.output  = fopen(settings->output, "w+b");
    check(session.output != NULL, "cannot create the file for the results");
    for (long long i = 0; i < settings->repeat; i++) {
        // Only what decodes remembers anything.
        if (llama_get_memory(session.context) == NULL) {
            run_encoder(&session);
        } else {
            run_decoder(&session);
        }
    }
    check(fclose(session.output) == 0, "cannot write the results");
    printf("units_per_second=%.2f\n", (double) session.tokens / session.seconds);
    llama_batch_free(session.batch);
    llama_free(session.context);
    llama_model_free(session.model);
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
    struct settings settings = { .flash = "on", .cache = "streams", .repeat = 1, .threads = 1 };
    const struct option_spec options[] = {
        { "--output",  NULL,              0, 0,       &settings.output },
        { "--flash",   NULL,              0, 0,       &settings.flash },
        { "--cache",   NULL,              0, 0,       &settings.cache },
        { "--rpc",     NULL,              0, 0,       &settings.rpc },
        { "--repeat",  &settings.repeat,  1, 1 << 20, NULL },
        { "--threads", &settings.threads, 1, 512,     NULL },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.model_path)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (settings.output == NULL) {
        fprintf(stderr, PROGRAM ": --output is missing\n");
        return EXIT_USAGE;
    }
    if (!is_one_of("--flash", settings.flash, "on", "off") || !is_one_of("--cache", settings.cache, "streams", "unified")) {
        return EXIT_USAGE;
    }
    run(&settings);
    return EXIT_SUCCESS;
}
