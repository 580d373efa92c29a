// A transformer on ggml as programs were written before ggml had an allocator: every context has a size that was
// computed by hand, all layers use one scratch buffer in turn, and the order of calls is the order of nodes.
//
//   before [threads]

#include "ggml-cpu.h"
#include "transformer.h"

// Sizes. Each line here corresponds to a line somewhere below, and has to be
// changed with it.

// Bytes of a tensor in a context.
static size_t tensor_size(size_t elements) {
    size_t data = elements * sizeof(float);
    return data + GGML_MEM_ALIGN + ggml_tensor_overhead();
}

static size_t weights_size(void) {
    size_t size = 0;
    size += tensor_size(VOCAB * WIDTH);               // embeddings
    size += tensor_size(CONTEXT * WIDTH);             // positions
    size += tensor_size(WIDTH);                       // norm
    size += LAYERS * 2 * tensor_size(WIDTH);          // norm_1, norm_2
    size += LAYERS * 4 * tensor_size(WIDTH * WIDTH);  // wq, wk, wv, wo
    size += LAYERS * 2 * tensor_size(WIDTH * HIDDEN); // up, down
    return size;
}

static size_t caches_size(void) {
    return LAYERS * 2 * tensor_size(CONTEXT * WIDTH);
}

// Of one layer with n tokens after `past` others.
static size_t scratch_size(int n, int past) {
    size_t rows = (size_t) n;
    size_t kv   = (size_t) (past + n);
    size_t size = 0;
    size += 12 * tensor_size(rows * WIDTH);  // input, norms, q, k, v, ...
    size += tensor_size(rows * HIDDEN);      // up
    size += tensor_size(rows * kv * HEADS);  // scores
    size += tensor_size(kv * WIDTH);         // values, transposed
    size += 24 * ggml_tensor_overhead();     // views and the like
    size += ggml_graph_overhead();
    size += 1024 * 1024; // what computing needs: has been enough so far
    return size;
}

// The embeddings of the tokens at the start, the logits at the end.
static size_t ends_size(int n) {
    size_t rows = (size_t) n;
    size_t size = 5 * tensor_size(rows * WIDTH) + tensor_size(VOCAB);
    return size + 8 * ggml_tensor_overhead() + ggml_graph_overhead() + 1024 * 1024;
}

struct program {
    struct model          model;
    struct ggml_context * weights;
    struct ggml_context * caches;
    size_t                scratch_size;
    void *                scratch; // of one layer, then of the next
    float *               between; // what a layer hands to the next
    int                   threads;
};

static struct ggml_context * new_context(size_t size, void * memory) {
    struct ggml_init_params params = {
        .mem_size   = size,
        .mem_buffer = memory,
        .no_alloc   = false,
    };
    return ggml_init(params);
}

static struct program program_new(int threads) {
    struct program p = { .threads = threads };
    p.weights        = new_context(weights_size(), NULL);
    p.caches         = new_context(caches_size(), NULL);
    make_weights(&p.model, p.weights);
    make_caches(&p.model, p.caches);

    size_t of_layer = scratch_size(CONTEXT, 0);
    size_t of_ends  = ends_size(CONTEXT);
    p.scratch_size  = of_layer > of_ends ? of_layer : of_ends;
    p.scratch       = malloc(p.scratch_size);
    p.between       = malloc(CONTEXT * WIDTH * sizeof(float));
    return p;
}

static void program_free(struct program * p) {
    free(p->between);
    free(p->scratch);
    ggml_free(p->caches);
    ggml_free(p->weights);
}

static struct ggml_tensor * normalize(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * scale) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, 1e-5f), scale);
}

// Copies the rows of these tokens into a cache. Nodes that read the cache
// must be expanded later.
static void write_cache(struct ggml_context * ctx,
                        struct ggml_cgraph * graph,
                        struct ggml_tensor * cache,
                        struct ggml_tensor * rows, int past) {
    struct ggml_tensor * slots =
        ggml_view_2d(ctx, cache, WIDTH, rows->ne[1],
                     cache->nb[1], (size_t) past * cache->nb[1]);
    ggml_build_forward_expand(graph, ggml_cpy(ctx, rows, slots));
}

// All rows so far, by head: [HEAD, n, HEADS].
static struct ggml_tensor * by_head(struct ggml_context * ctx, struct ggml_tensor * cache, int n) {
    return ggml_view_3d(ctx, cache, HEAD, n, HEADS, cache->nb[1], HEAD * sizeof(float), 0);
}

static struct ggml_tensor * attend(struct ggml_context * ctx,
                                   struct ggml_cgraph * graph,
                                   struct layer * layer,
                                   struct ggml_tensor * x,
                                   struct batch batch) {
    int n  = batch.n;
    int kv = batch.past + n;
    struct ggml_tensor * q = ggml_mul_mat(ctx, layer->wq, x);
    struct ggml_tensor * k = ggml_mul_mat(ctx, layer->wk, x);
    struct ggml_tensor * v = ggml_mul_mat(ctx, layer->wv, x);

    write_cache(ctx, graph, layer->keys, k, batch.past);
    write_cache(ctx, graph, layer->values, v, batch.past);
    struct ggml_tensor * keys   = by_head(ctx, layer->keys, kv);
    struct ggml_tensor * values = by_head(ctx, layer->values, kv);

    q = ggml_permute(ctx, ggml_reshape_3d(ctx, q, HEAD, HEADS, n),
                     0, 2, 1, 3);
    struct ggml_tensor * kq = ggml_mul_mat(ctx, keys, q);
    kq = ggml_scale_inplace(ctx, kq, 0.25f);
    kq = ggml_diag_mask_inf_inplace(ctx, kq, batch.past);
    kq = ggml_soft_max_inplace(ctx, kq);

    values = ggml_cont(ctx, ggml_transpose(ctx, values));
    struct ggml_tensor * kqv = ggml_mul_mat(ctx, values, kq);
    kqv = ggml_permute(ctx, kqv, 0, 2, 1, 3);
    kqv = ggml_cont_2d(ctx, kqv, WIDTH, n);
    return ggml_mul_mat(ctx, layer->wo, kqv);
}

static struct ggml_tensor * feed_forward(struct ggml_context * ctx, struct layer * layer, struct ggml_tensor * x) {
    struct ggml_tensor * hidden = ggml_gelu_inplace(ctx, ggml_mul_mat(ctx, layer->up, x));
    return ggml_mul_mat(ctx, layer->down, hidden);
}

// Runs a graph in the scratch buffer, and takes its result out of there
// before the next layer writes over it.
static void finish(struct program * p, struct ggml_context * ctx,
                   struct ggml_cgraph * graph,
                   struct ggml_tensor * result, float * out) {
    ggml_build_forward_expand(graph, result);
    ggml_graph_compute_with_ctx(ctx, graph, p->threads);
    memcpy(out, result->data, ggml_nbytes(result));
    ggml_free(ctx);
}

static struct ggml_tensor * input(struct program * p, struct ggml_context * ctx, int n) {
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, n);
    memcpy(x->data, p->between, ggml_nbytes(x));
    return x;
}

static void embed(struct program * p, struct batch batch) {
    struct ggml_context * ctx    = new_context(p->scratch_size, p->scratch);
    struct ggml_cgraph *  graph  = ggml_new_graph(ctx);
    struct ggml_tensor *  tokens = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, batch.n);
    memcpy(tokens->data, batch.tokens, ggml_nbytes(tokens));
    struct ggml_tensor * table     = p->model.positions;
    struct ggml_tensor * positions =
        ggml_view_2d(ctx, table, WIDTH, batch.n, table->nb[1], (size_t) batch.past * table->nb[1]);
    struct ggml_tensor * rows = ggml_get_rows(ctx, p->model.embeddings, tokens);
    finish(p, ctx, graph, ggml_add_inplace(ctx, rows, positions), p->between);
}

static void run_layer(struct program * p, struct layer * layer,
                      struct batch batch) {
    struct ggml_context * ctx = new_context(p->scratch_size, p->scratch);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    struct ggml_tensor * x = input(p, ctx, batch.n);

    struct ggml_tensor * y = normalize(ctx, x, layer->norm_1);
    x = ggml_add_inplace(ctx, attend(ctx, graph, layer, y, batch), x);
    y = normalize(ctx, x, layer->norm_2);
    x = ggml_add_inplace(ctx, feed_forward(ctx, layer, y), x);
    finish(p, ctx, graph, x, p->between);
}

static void unembed(struct program * p, struct batch batch, float * logits) {
    struct ggml_context * ctx   = new_context(p->scratch_size, p->scratch);
    struct ggml_cgraph *  graph = ggml_new_graph(ctx);
    struct ggml_tensor *  x     = normalize(ctx, input(p, ctx, batch.n), p->model.norm);
    struct ggml_tensor *  last  = ggml_view_2d(ctx, x, WIDTH, 1, x->nb[1], (size_t) (batch.n - 1) * x->nb[1]);
    finish(p, ctx, graph, ggml_mul_mat(ctx, p->model.embeddings, last), logits);
}

static void step(void * program, struct batch batch, float * logits) {
    struct program * p = (struct program *) program;
    embed(p, batch);
    for (int i = 0; i < LAYERS; i++) {
        run_layer(p, &p->model.layers[i], batch);
    }
    unembed(p, batch, logits);
}

int main(int argc, char ** argv) {
    struct program program = program_new(argc > 1 ? atoi(argv[1]) : 1);
    generate(&program, step);
    size_t between = CONTEXT * WIDTH * sizeof(float);
    printf("compute_bytes=%zu\n", program.scratch_size + between);
    program_free(&program);
    return 0;
}
