// Captures the graphs that whisper.cpp plans when it starts: convolutions, encoder, keys and values of the encoder's
// result, and decoder.
//
// whisper.cpp takes a model file without any weights, which then stay untouched memory. The graphs are taken where
// ggml's scheduler allocates them: this program's function of that name comes before ggml's own, which it calls.

#include "log_errors.h"
#include "options.h"

#include "graph_file.h"

#include "ggml-alloc.h"
#include "whisper.h"

#include <dlfcn.h>

#define PROGRAM "whisper_cpp"

struct settings {
    const char * out;
    const char * graph;
    const char * flash;
    long long    layers;
    long long    width;
    long long    heads;
    long long    mels;
    long long    vocab;
};

static const char usage[] =
    "usage: whisper_cpp GRAPH.jsonl [options]\n"
    "Writes a graph that whisper.cpp allocates, without the model's weights.\n"
    "  --graph NAME     conv, encode, cross or decode     (default encode)\n"
    "  --layers N       layers of encoder and of decoder  (default 6)\n"
    "  --width N        width of both                     (default 512)\n"
    "  --heads N        attention heads                   (default 8)\n"
    "  --mels N         mel bands of the sound            (default 80)\n"
    "  --vocab N        vocabulary size                   (default 51865)\n"
    "  --flash on|off   flash attention                   (default on)\n"
    "  --help           this text\n";

// In the order in which whisper.cpp allocates them.
static const char * const graph_names[] = { "conv", "encode", "cross", "decode" };

enum { N_GRAPHS = 4 };

// Which of the graphs that are allocated is written, and where to.
static struct {
    const char * out;
    char         label[256];
    int          number;
    int          count; // of graphs so far
    bool         written;
} capture = { .number = -1 };

static void take_graph(struct ggml_cgraph * graph) {
    ggml_backend_buffer_type_t buft = ggml_backend_cpu_buffer_type();
    ggml_gallocr_t galloc = ggml_gallocr_new(buft);
    size_t size = 0;
    ggml_gallocr_reserve_n_size(galloc, graph, NULL, NULL, &size);
    ggml_gallocr_free(galloc);
    capture.written = write_graph_file(capture.out, graph, capture.label, buft, size);
}

bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph * graph) {
    static ggml_gallocr_t last;
    bool (*next)(ggml_gallocr_t, struct ggml_cgraph *) = dlsym(RTLD_NEXT, "ggml_gallocr_alloc_graph");
    if (next == NULL) {
        fprintf(stderr, PROGRAM ": ggml has no ggml_gallocr_alloc_graph\n");
        abort();
    }
    // The scheduler calls again after it has reserved memory; each graph has its own scheduler.
    if (galloc != last && capture.count++ == capture.number) {
        take_graph(graph);
    }
    last = galloc;
    return next(galloc, graph);
}

// A model file: the magic number and the sizes of the model, one mel filter, no words, no weights.
struct model_file {
    uint32_t magic;
    int32_t  vocab, audio_context, audio_width, audio_heads, audio_layers;
    int32_t  text_context, text_width, text_heads, text_layers, mels, weight_type;
    int32_t  filters, filter_length;
    float    filter;
    int32_t  words;
};

static struct model_file model_of(const struct settings * s) {
    return (struct model_file) {
        .magic = 0x67676d6c, .vocab = (int32_t) s->vocab,
        .audio_context = 1500, .audio_width = (int32_t) s->width, .audio_heads = (int32_t) s->heads,
        .audio_layers = (int32_t) s->layers,
        .text_context = 448, .text_width = (int32_t) s->width, .text_heads = (int32_t) s->heads,
        .text_layers = (int32_t) s->layers,
        .mels = (int32_t) s->mels, .weight_type = 1, // F16
        .filters = 1, .filter_length = 1,
    };
}

static bool run(const struct settings * settings) {
    struct model_file model = model_of(settings);
    capture.out = settings->out;
    const bool flash = strcmp(settings->flash, "on") == 0;
    snprintf(capture.label, sizeof(capture.label), "whisper.cpp %s: %lld layers, width %lld, %s attention",
             settings->graph, settings->layers, settings->width, flash ? "flash" : "softmax");

    whisper_log_set(log_errors_only, NULL);
    struct whisper_context_params params = whisper_context_default_params();
    params.use_gpu    = false;
    params.flash_attn = flash;
    struct whisper_context * context = whisper_init_from_buffer_with_params(&model, sizeof(model), params);
    if (context == NULL) {
        fprintf(stderr, PROGRAM ": whisper.cpp makes no context\n");
    } else if (!capture.written) {
        fprintf(stderr, PROGRAM ": %s could not be written\n", settings->out);
    }
    whisper_free(context);
    return capture.written;
}

static int graph_number(const char * name) {
    for (int i = 0; i < N_GRAPHS; i++) {
        if (strcmp(graph_names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

int main(int argc, char ** argv) {
    struct settings settings = {
        .graph = "encode", .flash = "on", .layers = 6, .width = 512, .heads = 8, .mels = 80, .vocab = 51865,
    };
    const struct option_spec options[] = {
        { "--graph",  NULL,             0, 0,       &settings.graph },
        { "--flash",  NULL,             0, 0,       &settings.flash },
        { "--layers", &settings.layers, 4, 32,      NULL            },
        { "--width",  &settings.width,  1, 8192,    NULL            },
        { "--heads",  &settings.heads,  1, 128,     NULL            },
        { "--mels",   &settings.mels,   1, 1024,    NULL            },
        { "--vocab",  &settings.vocab,  1, 1 << 20, NULL            },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.out)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    capture.number = graph_number(settings.graph);
    if (capture.number < 0) {
        fprintf(stderr, PROGRAM ": the graph '%s' is not known\n", settings.graph);
        return EXIT_USAGE;
    }
    return run(&settings) ? EXIT_SUCCESS : EXIT_FAILURE;
}
