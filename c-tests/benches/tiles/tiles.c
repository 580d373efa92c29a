// The time of operations, and chains of them, computed in tiles instead of whole, by the real kernels of the CPU.
//
//   tiles THREADS ROUNDS [NAME]...
//
// Prints one line for each chain and number of tiles: name, threads, tiles, elements in a tile, bytes of the
// intermediates, median microseconds, and the median over the rounds of its time divided by that of the whole. In each
// round all numbers of tiles are timed once, in turn.

#include "check.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "splitmix.h"
#include "timing.h"

#define ARENA_BYTES ((size_t) 1 << 30)
#define MAX_NODES   1024
#define MAX_ROUNDS  99
#define ALIGNMENT   256

static const int N_TILES[] = { 1, 2, 4, 8, 16, 32 };

#define COUNT(array) ((int) (sizeof(array) / sizeof((array)[0])))

// Memory that tensors are placed in: what stays, then the intermediates of one tile after the other.
struct arena {
    ggml_backend_buffer_t buffer;
    size_t                used;
    size_t                most;
};

// The chain of one tile: elements [first, first + count) of what it is tiled along. Returns the last node, which is placed
// in the result by the caller.
struct chain {
    const char * name;
    int64_t      total; // elements of the dimension that is tiled
    int          dim;   // of the result
    void (*sources)(struct ggml_context * ctx, struct ggml_tensor ** sources);
    struct ggml_tensor * (*tile)(struct ggml_context * ctx, struct ggml_tensor ** sources, int64_t first, int64_t count);
};

#define MAX_SOURCES 4

static struct ggml_tensor * slice(struct ggml_context * ctx, struct ggml_tensor * t, int dim, int64_t first,
                                  int64_t count) {
    int64_t ne[GGML_MAX_DIMS];
    memcpy(ne, t->ne, sizeof(ne));
    ne[dim] = count;
    return ggml_view_4d(ctx, t, ne[0], ne[1], ne[2], ne[3], t->nb[1], t->nb[2], t->nb[3], (size_t) first * t->nb[dim]);
}

// ---------------------------------------------------------------------------------------------------
// Chains
// ---------------------------------------------------------------------------------------------------

enum { IMAGE = 128, CHANNELS = 128, SCORES = 2048, HEADS = 8, HEAD_WIDTH = 40, WIDTH = 1024, HIDDEN = 4096, TOKENS = 512 };

// A convolution of 3 x 3 pixels, tiled by rows of pixels; the matrix of windows is the large intermediate.
static void convolution_sources(struct ggml_context * ctx, struct ggml_tensor ** s) {
    s[0] = ggml_new_tensor_4d(ctx, GGML_TYPE_F16, 3, 3, CHANNELS, CHANNELS);
    s[1] = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, IMAGE, IMAGE, CHANNELS);
}

static struct ggml_tensor * convolution_tile(struct ggml_context * ctx, struct ggml_tensor ** s, int64_t first,
                                             int64_t count) {
    int64_t              begin = first > 0 ? first - 1 : 0;
    int64_t              end   = first + count < IMAGE ? first + count + 1 : IMAGE;
    struct ggml_tensor * rows  = slice(ctx, s[1], 1, begin, end - begin);
    struct ggml_tensor * m     = ggml_im2col(ctx, s[0], rows, 1, 1, 1, 1, 1, 1, true, GGML_TYPE_F16);
    // The kernel takes the number of rows from the result, and the padding above from its parameter.
    m->ne[2]        = count;
    m->nb[3]        = m->nb[2] * (size_t) count;
    m->op_params[3] = first > 0 ? 0 : 1;
    struct ggml_tensor * kernel = ggml_reshape_2d(ctx, s[0], 9 * CHANNELS, CHANNELS);
    return ggml_mul_mat(ctx, ggml_reshape_2d(ctx, m, 9 * CHANNELS, IMAGE * count), kernel);
}

// Attention of SD's UNet, tiled by rows of queries or by heads.
static void attention_sources(struct ggml_context * ctx, struct ggml_tensor ** s) {
    s[0] = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, HEAD_WIDTH, SCORES, HEADS);
    s[1] = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, HEAD_WIDTH, SCORES, HEADS);
    s[2] = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, SCORES, HEAD_WIDTH, HEADS);
}

static struct ggml_tensor * attend(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k,
                                   struct ggml_tensor * v) {
    struct ggml_tensor * scores = ggml_mul_mat(ctx, k, q);
    return ggml_mul_mat(ctx, v, ggml_soft_max_ext(ctx, scores, NULL, 0.158f, 0.0f));
}

static struct ggml_tensor * queries_tile(struct ggml_context * ctx, struct ggml_tensor ** s, int64_t first,
                                         int64_t count) {
    // A slice of several heads is not contiguous: a copy gives it the kernel that the whole has.
    struct ggml_tensor * q = slice(ctx, s[0], 1, first, count);
    return attend(ctx, count == SCORES ? q : ggml_cont(ctx, q), s[1], s[2]);
}

static struct ggml_tensor * heads_tile(struct ggml_context * ctx, struct ggml_tensor ** s, int64_t first,
                                       int64_t count) {
    return attend(ctx, slice(ctx, s[0], 2, first, count), slice(ctx, s[1], 2, first, count),
                  slice(ctx, s[2], 2, first, count));
}

// A gated feed-forward network, tiled by tokens.
static void feed_forward_sources(struct ggml_context * ctx, struct ggml_tensor ** s) {
    s[0] = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, WIDTH, HIDDEN);
    s[1] = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, WIDTH, HIDDEN);
    s[2] = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, HIDDEN, WIDTH);
    s[3] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, TOKENS);
}

static struct ggml_tensor * feed_forward_tile(struct ggml_context * ctx, struct ggml_tensor ** s, int64_t first,
                                              int64_t count) {
    struct ggml_tensor * x  = slice(ctx, s[3], 1, first, count);
    struct ggml_tensor * up = ggml_swiglu_split(ctx, ggml_mul_mat(ctx, s[0], x), ggml_mul_mat(ctx, s[1], x));
    return ggml_mul_mat(ctx, s[2], up);
}

// One product, tiled along each of the two dimensions of its result.
static struct ggml_tensor * product_rows_tile(struct ggml_context * ctx, struct ggml_tensor ** s, int64_t first,
                                              int64_t count) {
    return ggml_mul_mat(ctx, slice(ctx, s[0], 1, first, count), s[3]);
}

static struct ggml_tensor * product_columns_tile(struct ggml_context * ctx, struct ggml_tensor ** s, int64_t first,
                                                 int64_t count) {
    return ggml_mul_mat(ctx, s[0], slice(ctx, s[3], 1, first, count));
}

static void product_f32_sources(struct ggml_context * ctx, struct ggml_tensor ** s) {
    s[0] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, HIDDEN);
    s[3] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, TOKENS);
}

static void soft_max_sources(struct ggml_context * ctx, struct ggml_tensor ** s) {
    s[0] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, SCORES, SCORES * HEADS / 4);
}

static struct ggml_tensor * soft_max_tile(struct ggml_context * ctx, struct ggml_tensor ** s, int64_t first,
                                          int64_t count) {
    return ggml_soft_max_ext(ctx, slice(ctx, s[0], 1, first, count), NULL, 0.158f, 0.0f);
}

// Almost no work: the cost of a node.
static void nothing_sources(struct ggml_context * ctx, struct ggml_tensor ** s) {
    s[0] = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 16, 32);
}

static struct ggml_tensor * nothing_tile(struct ggml_context * ctx, struct ggml_tensor ** s, int64_t first,
                                         int64_t count) {
    struct ggml_tensor * x = slice(ctx, s[0], 1, first, count);
    return ggml_add(ctx, x, x);
}

static const struct chain CHAINS[] = {
    { "convolution-by-rows", IMAGE, 0, convolution_sources, convolution_tile },
    { "attention-by-queries", SCORES, 1, attention_sources, queries_tile },
    { "attention-by-heads", HEADS, 2, attention_sources, heads_tile },
    { "feed-forward-by-tokens", TOKENS, 1, feed_forward_sources, feed_forward_tile },
    { "product-f16-by-rows", HIDDEN, 0, feed_forward_sources, product_rows_tile },
    { "product-f16-by-columns", TOKENS, 1, feed_forward_sources, product_columns_tile },
    { "product-f32-by-rows", HIDDEN, 0, product_f32_sources, product_rows_tile },
    { "product-f32-by-columns", TOKENS, 1, product_f32_sources, product_columns_tile },
    { "soft-max-by-rows", SCORES * HEADS / 4, 1, soft_max_sources, soft_max_tile },
    { "nodes-without-work", 32, 1, nothing_sources, nothing_tile },
};

// ---------------------------------------------------------------------------------------------------
// Graphs
// ---------------------------------------------------------------------------------------------------

static void put(struct arena * arena, struct ggml_tensor * t) {
    CHECK(arena->used + ggml_nbytes(t) <= ARENA_BYTES, "the arena is too small");
    ggml_backend_tensor_alloc(arena->buffer, t, (char *) ggml_backend_buffer_get_base(arena->buffer) + arena->used);
    arena->used = GGML_PAD(arena->used + ggml_nbytes(t), ALIGNMENT);
    arena->most = arena->used > arena->most ? arena->used : arena->most;
}

// Places all tensors behind `after`: those before it have a place.
static void place_from(struct ggml_context * ctx, struct arena * arena, struct ggml_tensor * after) {
    for (struct ggml_tensor * t = ggml_get_next_tensor(ctx, after); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src != NULL) {
            ggml_backend_view_init(t);
        } else if (t->data == NULL) {
            put(arena, t);
        }
    }
}

static struct ggml_tensor * last_tensor(struct ggml_context * ctx) {
    struct ggml_tensor * last = NULL;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        last = t;
    }
    return last;
}

// Computes the same as `node`, into a slice of the result.
static struct ggml_tensor * into_result(struct ggml_context * ctx, struct ggml_tensor * node, struct ggml_tensor * result,
                                        int dim, int64_t first) {
    struct ggml_tensor * view = slice(ctx, result, dim, first, node->ne[dim]);
    view->op                  = node->op;
    memcpy(view->op_params, node->op_params, sizeof(view->op_params));
    memcpy(view->src, node->src, sizeof(view->src));
    node->view_src = result; // takes no memory: it is not part of the graph
    return view;
}

struct division {
    struct ggml_cgraph * graph;
    int64_t              count;
    size_t               bytes; // of the intermediates
};

// The tiles share the memory behind `start`, one after the other.
static struct division divide(struct ggml_context * ctx, const struct chain * chain, struct ggml_tensor ** sources,
                              struct ggml_tensor * result, size_t start, int n_tiles, struct arena arena) {
    struct division division = { .graph = ggml_new_graph_custom(ctx, MAX_NODES, false),
                                 .count = chain->total / n_tiles };
    arena.most = start;
    for (int64_t first = 0; first < chain->total; first += division.count) {
        struct ggml_tensor * before = last_tensor(ctx);
        arena.used                  = start;
        struct ggml_tensor * node   = chain->tile(ctx, sources, first, division.count);
        int64_t              offset = chain->dim == 0 ? first * (result->ne[0] / chain->total) : first;
        node                        = into_result(ctx, node, result, chain->dim, offset);
        ggml_build_forward_expand(division.graph, node);
        place_from(ctx, &arena, before);
    }
    division.bytes = arena.most - start;
    return division;
}

// ---------------------------------------------------------------------------------------------------
// Times
// ---------------------------------------------------------------------------------------------------

static void fill(struct ggml_tensor * t, uint64_t seed) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        float value = (float) (splitmix64(&seed) >> 40) / (float) (1 << 24) - 0.5f;
        if (t->type == GGML_TYPE_F32) {
            ((float *) t->data)[i] = value;
        } else {
            ((ggml_fp16_t *) t->data)[i] = ggml_fp32_to_fp16(value);
        }
    }
}

static double time_of(ggml_backend_t cpu, struct ggml_cgraph * graph) {
    double           start  = now_us();
    enum ggml_status status = ggml_backend_graph_compute(cpu, graph);
    CHECK(status == GGML_STATUS_SUCCESS, "status %d", (int) status);
    return now_us() - start;
}

static void print_times(const struct chain * chain, int n_threads, int n_tiles, const struct division * division,
                        double (*times)[MAX_ROUNDS], int tiles, int n_rounds) {
    double own[MAX_ROUNDS];
    double ratios[MAX_ROUNDS];
    for (int i = 0; i < n_rounds; i++) {
        own[i]    = times[tiles][i];
        ratios[i] = times[tiles][i] / times[0][i];
    }
    printf("%s %d %d %lld %zu %.1f %.3f\n", chain->name, n_threads, n_tiles, (long long) division->count,
           division->bytes, median(own, n_rounds), median(ratios, n_rounds));
}

static void measure(ggml_backend_t cpu, struct arena arena, const struct chain * chain, int n_threads, int n_rounds) {
    struct ggml_context * ctx = no_alloc_context(64u << 20);
    struct ggml_tensor *  sources[MAX_SOURCES] = { NULL };
    chain->sources(ctx, sources);
    for (int i = 0; i < MAX_SOURCES; i++) {
        if (sources[i] != NULL) {
            put(&arena, sources[i]);
            fill(sources[i], (uint64_t) i + 1);
        }
    }
    const struct ggml_tensor * shape  = chain->tile(ctx, sources, 0, chain->total);
    struct ggml_tensor *       result = ggml_new_tensor(ctx, shape->type, GGML_MAX_DIMS, shape->ne);
    put(&arena, result);

    struct division divisions[COUNT(N_TILES)];
    double          times[COUNT(N_TILES)][MAX_ROUNDS];
    int             n = 0;
    for (; n < COUNT(N_TILES) && N_TILES[n] <= chain->total; n++) {
        divisions[n] = divide(ctx, chain, sources, result, arena.used, N_TILES[n], arena);
        time_of(cpu, divisions[n].graph); // the first time touches the memory
    }
    for (int round = 0; round < n_rounds; round++) {
        for (int i = 0; i < n; i++) {
            times[i][round] = time_of(cpu, divisions[i].graph);
        }
    }
    for (int i = 0; i < n; i++) {
        print_times(chain, n_threads, N_TILES[i], &divisions[i], times, i, n_rounds);
    }
    fflush(stdout);
    ggml_free(ctx);
}

static bool is_wanted(const struct chain * chain, int argc, char ** argv) {
    for (int i = 3; i < argc; i++) {
        if (strncmp(chain->name, argv[i], strlen(argv[i])) == 0) {
            return true;
        }
    }
    return argc == 3;
}

int main(int argc, char ** argv) {
    int n_threads = argc > 2 ? atoi(argv[1]) : 0;
    int n_rounds  = argc > 2 ? atoi(argv[2]) : 0;
    CHECK(n_threads > 0 && n_rounds > 0 && n_rounds <= MAX_ROUNDS, "usage: tiles THREADS ROUNDS [NAME]...");
    ggml_backend_t cpu = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(cpu, n_threads);
    struct arena arena = { .buffer = ggml_backend_alloc_buffer(cpu, ARENA_BYTES) };
    CHECK(arena.buffer != NULL, "no memory");
    for (int i = 0; i < COUNT(CHAINS); i++) {
        if (is_wanted(&CHAINS[i], argc, argv)) {
            measure(cpu, arena, &CHAINS[i], n_threads, n_rounds);
        }
    }
    ggml_backend_buffer_free(arena.buffer);
    ggml_backend_free(cpu);
    return 0;
}
