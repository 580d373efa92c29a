// The time of networks of Stable Diffusion whose large intermediates are computed in tiles instead of whole, by the real
// kernels of the CPU. Weights and inputs are random.
//
//   networks NETWORK IMAGE PERCENT THREADS ROUNDS
//
// NETWORK is sd1-unet or vae-decoder, IMAGE the side of the image in pixels. The graph is built twice; one of them is cut to
// fit PERCENT hundredths of the bytes of the other. Their results are compared to the last bit; then both are timed in turn, in
// each round. Prints one line: bytes whole and cut, cuts, median seconds whole and cut, and the median, the smallest and
// the largest of the ratios of the rounds.

#include "../../captures/diffusion/unet.h"
#include "../../captures/diffusion/vae_decoder.h"
#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "lastuse.h"
#include "splitmix.h"
#include "timing.h"

#define MAX_NODES  16384
#define MAX_ROUNDS 99
#define WEIGHTS    0.05f // the largest weight of a matrix

struct network {
    struct new_graph      g;
    struct ggml_tensor *  output;
    ggml_backend_buffer_t weights;
    ggml_gallocr_t        galloc;
};

static struct network network_new(const char * name, int64_t image) {
    struct network n = { .g = new_graph(MAX_NODES, false) };
    if (strcmp(name, "sd1-unet") == 0) {
        n.output = build_unet(&n.g, &sd1_unet, image / 8, false);
    } else {
        CHECK(strcmp(name, "vae-decoder") == 0, "the network '%s' is not known", name);
        n.output = build_vae_decoder(&n.g, image / 8, false);
    }
    new_graph_output(&n.g, n.output, "output");
    return n;
}

// Reals in [-0.5, 0.5).
static float real(uint64_t * random) {
    return (float) (splitmix64(random) >> 40) / (float) (1 << 24) - 0.5f;
}

static void fill(struct ggml_tensor * t, uint64_t seed, float scale) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        float value = real(&seed) * 2.0f * scale;
        if (t->type == GGML_TYPE_F32) {
            ((float *) t->data)[i] = value;
        } else {
            CHECK(t->type == GGML_TYPE_F16, "%s has another type", t->name);
            ((ggml_fp16_t *) t->data)[i] = ggml_fp32_to_fp16(value);
        }
    }
}

// Weights are allocated here: the builders only say that they are.
static void set_weights(struct network * n, ggml_backend_t cpu) {
    uint64_t seed = 1;
    for (struct ggml_tensor * t = ggml_get_first_tensor(n->g.weights); t != NULL; t = ggml_get_next_tensor(n->g.weights, t)) {
        t->data = NULL;
    }
    n->weights = ggml_backend_alloc_ctx_tensors(n->g.weights, cpu);
    CHECK(n->weights != NULL, "no memory for the weights");
    for (struct ggml_tensor * t = ggml_get_first_tensor(n->g.weights); t != NULL; t = ggml_get_next_tensor(n->g.weights, t)) {
        fill(t, seed++, t->type == GGML_TYPE_F32 ? 0.5f : WEIGHTS);
    }
    // Views of weights were made before these had memory.
    for (struct ggml_tensor * t = ggml_get_first_tensor(n->g.ctx); t != NULL; t = ggml_get_next_tensor(n->g.ctx, t)) {
        if (t->view_src != NULL && t->view_src->buffer == n->weights) {
            t->data   = NULL;
            t->buffer = NULL;
            ggml_backend_view_init(t);
        }
    }
}

static size_t allocate(struct network * n) {
    n->galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(n->galloc, n->g.graph), "not allocated");
    return ggml_gallocr_get_buffer_size(n->galloc, 0);
}

// Returns the seconds that a run takes.
static double run(struct network * n, ggml_backend_t cpu) {
    const char * inputs[] = { "latent", "context", "time_step" };
    for (int i = 0; i < 3; i++) {
        struct ggml_tensor * input = ggml_get_tensor(n->g.ctx, inputs[i]);
        if (input != NULL) {
            fill(input, (uint64_t) i + 77, 0.5f);
        }
    }
    double start = now_us();
    CHECK(ggml_backend_graph_compute(cpu, n->g.graph) == GGML_STATUS_SUCCESS, "not computed");
    return (now_us() - start) * 1e-6;
}

static void check_equal(const struct network * whole, const struct network * cut) {
    size_t bytes = ggml_nbytes(whole->output);
    CHECK(memcmp(whole->output->data, cut->output->data, bytes) == 0, "the results differ");
    float first = *(const float *) whole->output->data;
    CHECK(first == first && first != 0.0f, "nothing was computed: %f", (double) first);
}

int main(int argc, char ** argv) {
    CHECK(argc == 6, "usage: networks NETWORK IMAGE PERCENT THREADS ROUNDS");
    int64_t image    = atoll(argv[2]);
    size_t  percent  = (size_t) atoll(argv[3]);
    int     n_rounds = atoi(argv[5]);
    CHECK(image % 64 == 0 && n_rounds > 0 && n_rounds <= MAX_ROUNDS, "an image of %s pixels, %s rounds", argv[2], argv[5]);
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, atoi(argv[4]));

    struct network whole = network_new(argv[1], image);
    struct network cut   = network_new(argv[1], image);
    set_weights(&whole, cpu);
    set_weights(&cut, cpu);
    size_t before = allocate(&whole);

    struct lastuse_tiling_params params = {
        .struct_size = sizeof(params), .budget = before / 100 * percent, .buft = ggml_backend_cpu_buffer_type()
    };
    struct lastuse_tiling_report report = { .struct_size = sizeof(report) };
    CHECK(lastuse_graph_tile(cut.g.ctx, cut.g.graph, &params, &report), "%s", lastuse_last_error());
    size_t after = allocate(&cut);

    double seconds[2][MAX_ROUNDS], ratios[MAX_ROUNDS];
    run(&whole, cpu); // the first time touches the memory
    run(&cut, cpu);
    check_equal(&whole, &cut);
    for (int round = 0; round < n_rounds; round++) {
        seconds[0][round] = run(&whole, cpu);
        seconds[1][round] = run(&cut, cpu);
        ratios[round]     = seconds[1][round] / seconds[0][round];
    }
    double ratio = median(ratios, n_rounds);
    printf("%zu %zu %d %.3f %.3f %.3f %.3f %.3f\n", before, after, (int) report.n_tilings, median(seconds[0], n_rounds),
           median(seconds[1], n_rounds), ratio, ratios[0], ratios[n_rounds - 1]);
    return 0;
}
