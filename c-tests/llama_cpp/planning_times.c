// Times two graph allocators inside llama.cpp: on its own graphs, where it has built them, with weights, caches and
// graph in the contexts that it has made.
//
// The model is a file without data (see captures/llama_cpp.c), for which llama.cpp only pretends to allocate, and
// nothing is computed. This program's functions come before those of ggml that llama.cpp calls, and get each graph.
// With --lastuse both allocators plan it in turn, for ggml's allocator is the one that llama.cpp is linked with, and
// the other one is loaded in addition. Without, the first calls of the process are timed, of ggml or of a preloaded
// library.

#include "log_errors.h"
#include "options.h"
#include "splitmix.h"
#include "test_gpus.h"

#define PROGRAM "planning_times"

#include "planning_times/allocators.h"
#include "planning_times/first_calls.h"
#include "planning_times/in_turn.h"

#include "llama.h"

// The number of tokens of a prompt, which is computed as one graph.
enum { PROMPT = 512 };

// Memory of the devices, in bytes.
#define MAX_BUFFER ((size_t) 1 << 30)

// In units of 16 bytes: larger than the blocks that malloc places among others.
enum { MAX_PADDING = 1 << 17 };

struct settings {
    const char * model_path;
    const char * lastuse_path;
    const char * first_call;
    long long    rounds;
    long long    tokens;
    long long    shapes;
    long long    gpus;
    long long    padding;
};

static const char usage[] =
    "usage: planning_times MODEL.gguf [options]\n"
    "Prints how long both allocators take inside llama.cpp, in nanoseconds: ggml's own first, and the ratio.\n"
    "  --lastuse FILE         liblastuse.so; without it the first calls of the process are timed\n"
    "  --first reserve|size   the first call                                   (default reserve)\n"
    "  --rounds N             how often a graph is planned by each             (default 101)\n"
    "  --tokens N             tokens after a prompt of 512, a new graph each   (default 60)\n"
    "  --shapes N             batches of 1 to N tokens in turns after the prompt (default 1)\n"
    "  --gpus N               devices with the layers, computed in a pipeline (default 0)\n"
    "  --padding SEED         memory of random sizes between contexts; 0: none (default 0)\n"
    "  --help                 this text\n";

static struct allocator_functions ggml_functions;
static uint64_t                   padding_state;

// The timed allocators; one of them is NULL, or both before llama.cpp plans.
static struct in_turn *     in_turn;
static struct first_calls * first_calls;

// Moves the contexts that llama.cpp makes apart.
struct ggml_context * ggml_init(struct ggml_init_params params) {
    struct ggml_context * (*next)(struct ggml_init_params) = required_function(RTLD_NEXT, "ggml_init");
    if (padding_state != 0 && malloc(16 * (1 + splitmix64(&padding_state) % MAX_PADDING)) == NULL) {
        abort();
    }
    return next(params);
}

ggml_gallocr_t ggml_gallocr_new_n(ggml_backend_buffer_type_t * bufts, int n_bufs) {
    ggml_functions = allocator_functions_of(RTLD_NEXT);
    if (in_turn != NULL) {
        note_types(in_turn, bufts, n_bufs);
    }
    return first_calls != NULL ? time_first_new(first_calls, &ggml_functions, bufts, n_bufs)
                               : ggml_functions.new_n(bufts, n_bufs);
}

void ggml_gallocr_reserve_n_size(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_buffer_ids,
                                 const int * leaf_buffer_ids, size_t * sizes) {
    const struct planned_graph planned = { graph, node_buffer_ids, leaf_buffer_ids };
    if (first_calls != NULL) {
        time_first_calls(first_calls, &ggml_functions, galloc, planned);
    }
    ggml_functions.reserve_n_size(galloc, graph, node_buffer_ids, leaf_buffer_ids, sizes);
    if (in_turn != NULL) {
        time_planning(in_turn, planned);
        // llama.cpp asks for no more than the size when it pretends to allocate, but it will run the graph.
        stop_unless(reserve(&ggml_functions, galloc, planned), "reserve a graph");
    }
}

bool ggml_gallocr_reserve_n(ggml_gallocr_t galloc, struct ggml_cgraph * graph, const int * node_buffer_ids,
                            const int * leaf_buffer_ids) {
    if (in_turn != NULL && in_turn->serving[GGML] != NULL) {
        reserve_again(in_turn, (struct planned_graph) { graph, node_buffer_ids, leaf_buffer_ids });
    }
    return ggml_functions.reserve_n(galloc, graph, node_buffer_ids, leaf_buffer_ids);
}

bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    if (in_turn != NULL) {
        time_rebuilt(in_turn, graph);
    }
    return ggml_functions.alloc_graph(galloc, graph);
}

// There is no data to compute with.
enum ggml_status ggml_backend_sched_graph_compute_async(ggml_backend_sched_t sched, struct ggml_cgraph * graph) {
    (void) sched;
    (void) graph;
    return GGML_STATUS_SUCCESS;
}

static struct llama_model * load_model(const struct settings * settings) {
    struct llama_model_params params = llama_model_default_params();
    params.no_alloc        = true;
    params.n_gpu_layers    = settings->gpus > 0 ? 999 : 0;
    params.use_extra_bufts = false; // which ones there are depends on the machine
    params.load_mode       = LLAMA_LOAD_MODE_NONE;
    return llama_model_load_from_file(settings->model_path, params);
}

static struct llama_context * new_context(struct llama_model * model, const struct settings * settings) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx           = (uint32_t) (PROMPT + settings->tokens);
    params.n_batch         = PROMPT;
    params.n_ubatch        = PROMPT;
    params.n_threads       = 1;
    params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    return llama_init_from_model(model, params);
}

static bool decode(struct llama_context * context, const struct settings * settings) {
    llama_token prompt[PROMPT] = { 0 };
    bool done = llama_decode(context, llama_batch_get_one(prompt, PROMPT)) == 0;
    for (long long batch = 0; done && batch < settings->tokens; batch++) {
        // With an empty cache each time, all graphs of a shape are equal.
        if (settings->shapes > 1) {
            llama_memory_clear(llama_get_memory(context), false);
        }
        const int32_t tokens = (int32_t) (1 + batch % settings->shapes);
        done = llama_decode(context, llama_batch_get_one(prompt, tokens)) == 0;
    }
    return done;
}

static bool run(const struct settings * settings) {
    static struct in_turn     times_in_turn;
    static struct first_calls first_times;
    struct llama_model * model = load_model(settings);
    if (model == NULL) {
        fprintf(stderr, PROGRAM ": llama.cpp makes no model of %s\n", settings->model_path);
        return false;
    }
    if (settings->lastuse_path == NULL) {
        first_times.reserves = strcmp(settings->first_call, "reserve") == 0;
        first_calls = &first_times;
    } else {
        prepare_in_turn(&times_in_turn, settings->lastuse_path, settings->rounds);
        in_turn = &times_in_turn;
    }
    struct llama_context * context = new_context(model, settings);
    const bool done = context != NULL && (in_turn == NULL || decode(context, settings));
    if (done && in_turn != NULL) {
        print_times_in_turn(in_turn);
    }
    if (!done) {
        fprintf(stderr, PROGRAM ": llama.cpp does not run %s\n", settings->model_path);
    }
    return done;
}

int main(int argc, char ** argv) {
    struct settings settings = { .first_call = "reserve", .rounds = 101, .tokens = 60, .shapes = 1 };
    const struct option_spec options[] = {
        { "--lastuse", NULL,              0, 0,           &settings.lastuse_path },
        { "--first",   NULL,              0, 0,           &settings.first_call },
        { "--rounds",  &settings.rounds,  1, MAX_SAMPLES, NULL },
        { "--tokens",  &settings.tokens,  1, MAX_SAMPLES, NULL },
        { "--shapes",  &settings.shapes,  1, PROMPT,      NULL },
        { "--gpus",    &settings.gpus,    0, 4,           NULL },
        { "--padding", &settings.padding, 0, INT64_MAX,   NULL },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.model_path)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    padding_state = (uint64_t) settings.padding;
    // Programs that keep a graph as it is allocate none for most tokens.
    setenv("LLAMA_GRAPH_REUSE_DISABLE", "1", 1);
    llama_log_set(log_errors_only, NULL);
    llama_backend_init();
    if (settings.gpus > 0 && !test_gpus_register((int) settings.gpus, 128, MAX_BUFFER, true)) {
        fprintf(stderr, PROGRAM ": not that many devices\n");
        return EXIT_FAILURE;
    }
    return run(&settings) ? EXIT_SUCCESS : EXIT_FAILURE;
}
