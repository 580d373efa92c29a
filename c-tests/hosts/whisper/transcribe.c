// Transcribes sound that it makes itself, in several ways, and writes everything that whisper.cpp returns to a file:
// logits, probabilities of languages, segments with their tokens, probabilities and times. Prints the speed.

#define _POSIX_C_SOURCE 200809L

#include "log_errors.h"
#include "options.h"
#include "processor_clock.h"
#include "sound.h"
#include "splitmix.h"

#include "whisper.h"

#define PROGRAM "transcribe"

enum { MAX_STATES = 4, PROMPT_TOKENS = 40 };

struct settings {
    const char * model;
    const char * out;
    const char * flash;
    const char * dtw;
    long long    beams;
    long long    states;
    long long    processors;
    long long    seconds;
    long long    audio_context;
    long long    tokens;
    long long    threads;
    long long    seed;
};

struct session {
    const struct settings *  settings;
    struct whisper_context * context;
    struct whisper_state *   states[MAX_STATES];
    struct sound             sounds[MAX_STATES];
    FILE *                   file;
    bool                     failed;
};

static const char usage[] =
    "usage: transcribe MODEL.bin --out FILE [options]\n"
    "Transcribes sound that it makes itself; writes all results to a file and prints the speed.\n"
    "  --out FILE         where the results go\n"
    "  --flash on|off     flash attention                                  (default on)\n"
    "  --dtw on|off       times of tokens by dynamic time warping          (default off)\n"
    "  --beams N          beam search with N beams; 1 is greedy            (default 1)\n"
    "  --states N         states of one context, used in turn              (default 1)\n"
    "  --processors N     splits the sound, a state for each part          (default 1)\n"
    "  --seconds N        length of the sound                              (default 40)\n"
    "  --audio-context N  frames that the encoder sees; 0 is all           (default 0)\n"
    "  --tokens N         most tokens of a segment                         (default 16)\n"
    "  --threads N        compute threads                                  (default 2)\n"
    "  --seed N           seed of the sound                                (default 1)\n"
    "  --help             this text\n";

static void put(struct session * session, const void * data, size_t size) {
    if (fwrite(data, 1, size, session->file) != size) {
        session->failed = true;
    }
}

static void put_int(struct session * session, int64_t number) {
    put(session, &number, sizeof(number));
}

static bool failed(const char * what, int status) {
    fprintf(stderr, PROGRAM ": %s failed with %d\n", what, status);
    return false;
}

static bool open_context(struct session * session) {
    struct whisper_context_params params = whisper_context_default_params();
    const struct settings * settings = session->settings;
    params.use_gpu    = false;
    params.flash_attn = strcmp(settings->flash, "on") == 0;
    if (strcmp(settings->dtw, "on") == 0) {
        params.dtw_token_timestamps = true;
        params.dtw_aheads_preset    = WHISPER_AHEADS_N_TOP_MOST;
        params.dtw_n_top            = 2;
    }
    session->context = whisper_init_from_file_with_params_no_state(settings->model, params);
    if (session->context == NULL) {
        fprintf(stderr, PROGRAM ": cannot load %s\n", settings->model);
        return false;
    }
    for (int i = 0; i < settings->states; i++) {
        session->states[i] = whisper_init_state(session->context);
        if (session->states[i] == NULL) {
            return failed("whisper_init_state", i);
        }
        if (!make_sound(&session->sounds[i], settings->seconds, (uint64_t) (settings->seed + i))) {
            fprintf(stderr, PROGRAM ": no memory for the sound\n");
            return false;
        }
    }
    return true;
}

static int most_likely(const float * logits, int count) {
    int best = 0;
    for (int i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

// Writes the logits of the last of `n_tokens` tokens, which alone has any, and returns the most likely next token.
static whisper_token take_logits(struct session * session, struct whisper_state * state, int n_tokens) {
    const int words = whisper_n_vocab(session->context);
    const float * logits = whisper_get_logits_from_state(state) + (size_t) (n_tokens - 1) * (size_t) words;
    put(session, logits, sizeof(float) * (size_t) words);
    return most_likely(logits, words);
}

// Encodes, and decodes prompts of several lengths and then token by token, each state one step at a time.
static bool step_by_step(struct session * session) {
    const int threads = (int) session->settings->threads;
    const int n       = (int) session->settings->states;
    uint64_t  random  = (uint64_t) session->settings->seed;
    whisper_token tokens[PROMPT_TOKENS] = { whisper_token_sot(session->context) };
    for (int i = 1; i < PROMPT_TOKENS; i++) {
        tokens[i] = (whisper_token) (splitmix64(&random) % 50000);
    }
    for (int i = 0; i < n; i++) {
        const struct sound sound = session->sounds[i];
        int status = whisper_pcm_to_mel_with_state(session->context, session->states[i], sound.samples, sound.count,
                                                   threads);
        status = status == 0 ? whisper_encode_with_state(session->context, session->states[i], 0, threads) : status;
        if (status != 0) {
            return failed("encoding", status);
        }
    }
    static const int prompts[] = { PROMPT_TOKENS, 1, 7, 3 };
    for (size_t p = 0; p < sizeof(prompts) / sizeof(prompts[0]); p++) {
        whisper_token next[MAX_STATES];
        for (int i = 0; i < n; i++) {
            const int status = whisper_decode_with_state(session->context, session->states[i], tokens, prompts[p], 0,
                                                         threads);
            if (status != 0) {
                return failed("decoding a prompt", status);
            }
            next[i] = take_logits(session, session->states[i], prompts[p]);
        }
        for (int step = 0; step < 6; step++) {
            for (int i = 0; i < n; i++) {
                const int status = whisper_decode_with_state(session->context, session->states[i], &next[i], 1,
                                                             prompts[p] + step, threads);
                if (status != 0) {
                    return failed("decoding a token", status);
                }
                next[i] = take_logits(session, session->states[i], 1);
            }
        }
    }
    return true;
}

static bool detect_language(struct session * session) {
    for (int i = 0; i < session->settings->states; i++) {
        float probabilities[256] = { 0.0f };
        const int language = whisper_lang_auto_detect_with_state(session->context, session->states[i], 0,
                                                                 (int) session->settings->threads, probabilities);
        if (language < 0) {
            return failed("detecting the language", language);
        }
        put_int(session, language);
        put(session, probabilities, sizeof(float) * (size_t) (whisper_lang_max_id() + 1));
    }
    return true;
}

static void write_token(struct session * session, const whisper_token_data * token) {
    put_int(session, token->id);
    put_int(session, token->tid);
    const float numbers[] = { token->p, token->plog, token->pt, token->ptsum, token->vlen };
    put(session, numbers, sizeof(numbers));
    put_int(session, token->t0);
    put_int(session, token->t1);
    put_int(session, token->t_dtw);
}

static void write_segments(struct session * session, struct whisper_state * state, int * segments, int * tokens) {
    const int n = whisper_full_n_segments_from_state(state);
    put_int(session, n);
    for (int s = 0; s < n; s++) {
        const char * text = whisper_full_get_segment_text_from_state(state, s);
        put(session, text, strlen(text) + 1);
        put_int(session, whisper_full_get_segment_t0_from_state(state, s));
        put_int(session, whisper_full_get_segment_t1_from_state(state, s));
        const float silence = whisper_full_get_segment_no_speech_prob_from_state(state, s);
        put(session, &silence, sizeof(silence));
        const int count = whisper_full_n_tokens_from_state(state, s);
        put_int(session, count);
        for (int t = 0; t < count; t++) {
            const whisper_token_data token = whisper_full_get_token_data_from_state(state, s, t);
            write_token(session, &token);
        }
        *tokens += count;
    }
    *segments += n;
}

// Called for each decoder before a token is chosen; one after the other, as there is one thread.
static void write_logits(struct whisper_context * context, struct whisper_state * state,
                         const whisper_token_data * tokens, int n_tokens, float * logits, void * user_data) {
    (void) state;
    (void) tokens;
    struct session * session = user_data;
    put_int(session, n_tokens);
    put(session, logits, sizeof(float) * (size_t) whisper_n_vocab(context));
}

static struct whisper_full_params full_params(struct session * session) {
    const struct settings * settings = session->settings;
    struct whisper_full_params params = whisper_full_default_params(
        settings->beams > 1 ? WHISPER_SAMPLING_BEAM_SEARCH : WHISPER_SAMPLING_GREEDY);
    // More threads would call back for several decoders at once.
    params.n_threads             = 1;
    params.print_progress        = false;
    params.print_timestamps      = false;
    params.token_timestamps      = true;
    params.language              = "en";
    params.max_tokens            = (int) settings->tokens;
    params.audio_ctx             = (int) settings->audio_context;
    params.beam_search.beam_size = (int) settings->beams;
    params.greedy.best_of        = 2;
    params.temperature_inc       = 0.5f;
    // A text of random words never looks probable; it would be tried at each temperature.
    params.logprob_thold         = -20.0f;
    if (settings->processors == 1) {
        params.logits_filter_callback           = write_logits;
        params.logits_filter_callback_user_data = session;
    }
    return params;
}

// Transcribes the sound of each state, twice: the second time there is a text before it.
static bool transcribe(struct session * session, int * segments, int * tokens) {
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < session->settings->states; i++) {
            struct whisper_full_params params = full_params(session);
            params.no_context = round == 0;
            const struct sound sound = session->sounds[i];
            const int status = whisper_full_with_state(session->context, session->states[i], params, sound.samples,
                                                       sound.count);
            if (status != 0) {
                return failed("transcribing", status);
            }
            write_segments(session, session->states[i], segments, tokens);
        }
    }
    return true;
}

// Splits the sound of the first state into tiles that are transcribed at the same time, each with its own state.
static bool transcribe_in_parallel(struct session * session, int * segments, int * tokens) {
    struct whisper_context_params context_params = whisper_context_default_params();
    context_params.use_gpu    = false;
    context_params.flash_attn = strcmp(session->settings->flash, "on") == 0;
    struct whisper_context * context = whisper_init_from_file_with_params(session->settings->model, context_params);
    if (context == NULL) {
        return failed("whisper_init_from_file_with_params", 0);
    }
    const struct sound sound = session->sounds[0];
    const int status = whisper_full_parallel(context, full_params(session), sound.samples, sound.count,
                                             (int) session->settings->processors);
    const int n = status == 0 ? whisper_full_n_segments(context) : 0;
    put_int(session, n);
    for (int s = 0; s < n; s++) {
        const int count = whisper_full_n_tokens(context, s);
        put_int(session, whisper_full_get_segment_t0(context, s));
        put_int(session, whisper_full_get_segment_t1(context, s));
        for (int t = 0; t < count; t++) {
            const whisper_token_data token = whisper_full_get_token_data(context, s, t);
            write_token(session, &token);
        }
        *tokens += count;
    }
    *segments += n;
    whisper_free(context);
    return status == 0 || failed("transcribing in parallel", status);
}

static bool run(struct session * session) {
    int segments = 0, tokens = 0;
    const double start = processor_seconds_now();
    if (!step_by_step(session) || !detect_language(session)) {
        return false;
    }
    const bool done = session->settings->processors > 1 ? transcribe_in_parallel(session, &segments, &tokens)
                                                        : transcribe(session, &segments, &tokens);
    const double passed = processor_seconds_now() - start;
    if (!done) {
        return false;
    }
    if (session->failed || fflush(session->file) != 0) {
        fprintf(stderr, PROGRAM ": cannot write %s\n", session->settings->out);
        return false;
    }
    if (tokens == 0) {
        fprintf(stderr, PROGRAM ": no text, so there is nothing to compare\n");
        return false;
    }
    // The transcription, the encoding alone, and the detected language.
    const bool   parallel = session->settings->processors > 1;
    const double sounds   = parallel ? 3.0 : 4.0 * (double) session->settings->states;
    printf("segments=%d\ntokens=%d\n", segments, tokens);
    printf("units_per_second=%.4f\n", sounds * (double) session->settings->seconds / passed);
    return true;
}

static void close_session(struct session * session) {
    for (int i = 0; i < MAX_STATES; i++) {
        whisper_free_state(session->states[i]);
        free(session->sounds[i].samples);
    }
    whisper_free(session->context);
    if (session->file != NULL) {
        fclose(session->file);
    }
}

static bool is_switch(const char * name, const char * value) {
    if (strcmp(value, "on") == 0 || strcmp(value, "off") == 0) {
        return true;
    }
    fprintf(stderr, PROGRAM ": %s needs 'on' or 'off', not '%s'\n", name, value);
    return false;
}

int main(int argc, char ** argv) {
    struct settings settings = {
        .flash = "on", .dtw = "off", .beams = 1, .states = 1, .processors = 1, .seconds = 40, .tokens = 16,
        .threads = 2, .seed = 1,
    };
    const struct option_spec options[] = {
        { "--out",           NULL,                    0, 0,          &settings.out   },
        { "--flash",         NULL,                    0, 0,          &settings.flash },
        { "--dtw",           NULL,                    0, 0,          &settings.dtw   },
        { "--beams",         &settings.beams,         1, 8,          NULL            },
        { "--states",        &settings.states,        1, MAX_STATES, NULL            },
        { "--processors",    &settings.processors,    1, 8,          NULL            },
        { "--seconds",       &settings.seconds,       1, 600,        NULL            },
        { "--audio-context", &settings.audio_context, 0, 1500,       NULL            },
        { "--tokens",        &settings.tokens,        1, 200,        NULL            },
        { "--threads",       &settings.threads,       1, 512,        NULL            },
        { "--seed",          &settings.seed,          0, INT64_MAX,  NULL            },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.model)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (!is_switch("--flash", settings.flash) || !is_switch("--dtw", settings.dtw)) {
        return EXIT_USAGE;
    }
    if (settings.out == NULL) {
        fprintf(stderr, PROGRAM ": --out is needed\n");
        return EXIT_USAGE;
    }
    whisper_log_set(log_errors_only, NULL);
    struct session session = { .settings = &settings, .file = fopen(settings.out, "wb") };
    if (session.file == NULL) {
        fprintf(stderr, PROGRAM ": cannot create %s: %s\n", settings.out, strerror(errno));
        return EXIT_FAILURE;
    }
    const bool done = open_context(&session) && run(&session);
    close_session(&session);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
