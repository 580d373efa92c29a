// The program of before.c without sizes, scratch buffers, copies and an order of calls.
//
//   after [threads]

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "lastuse.h"
#include "transformer.h"

struct program {
    struct model          model;
    struct ggml_context * weights;
    struct ggml_context * caches;
    struct ggml_context * inputs; // of one step, then of the next
    struct ggml_context * graphs; // the same
    ggml_backend_t        backend;
    ggml_gallocr_t        galloc;
};

static struct ggml_tensor * normalize(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * scale) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, 1e-5f), scale);
}

// The cache after the rows of these tokens were written: where they
// are computed. A copy where that cannot be.
static struct ggml_tensor * write_cache(struct ggml_context * ctx,
                                        struct ggml_tensor * cache,
                                        struct ggml_tensor * rows,
                                        int past) {
    struct ggml_tensor * slots =
        ggml_view_2d(ctx, cache, WIDTH, rows->ne[1],
                     cache->nb[1], (size_t) past * cache->nb[1]);
    struct ggml_tensor * written = ggml_set_output(rows, slots);
    if (written == NULL) {
        written = ggml_cpy(ctx, rows, slots);
    }
    return ggml_dependency(ctx, cache, written);
}

// All rows so far, by head: [HEAD, n, HEADS].
static struct ggml_tensor * by_head(struct ggml_context * ctx, struct ggml_tensor * cache, int n) {
    return ggml_view_3d(ctx, cache, HEAD, n, HEADS, cache->nb[1], HEAD * sizeof(float), 0);
}

static struct ggml_tensor * attend(struct ggml_context * ctx,
                                   struct layer * layer,
                                   struct ggml_tensor * x,
                                   struct batch batch) {
    int n  = batch.n;
    int kv = batch.past + n;
    struct ggml_tensor * q = ggml_mul_mat(ctx, layer->wq, x);
    struct ggml_tensor * k = ggml_mul_mat(ctx, layer->wk, x);
    struct ggml_tensor * v = ggml_mul_mat(ctx, layer->wv, x);

    k = write_cache(ctx, layer->keys, k, batch.past);
    v = write_cache(ctx, layer->values, v, batch.past);
    struct ggml_tensor * keys   = by_head(ctx, k, kv);
    struct ggml_tensor * values = by_head(ctx, v, kv);

    q = ggml_permute(ctx, ggml_reshape_3d(ctx, q, HEAD, HEADS, n),
                     0, 2, 1, 3);
    struct ggml_tensor * kq = ggml_mul_mat(ctx, keys, q);
    kq = ggml_scale(ctx, kq, 0.25f);
    kq = ggml_diag_mask_inf(ctx, kq, batch.past);
    kq = ggml_soft_max(ctx, kq);

    values = ggml_cont(ctx, ggml_transpose(ctx, values));
    struct ggml_tensor * kqv = ggml_mul_mat(ctx, values, kq);
    kqv = ggml_permute(ctx, kqv, 0, 2, 1, 3);
    kqv = ggml_cont_2d(ctx, kqv, WIDTH, n);
    return ggml_mul_mat(ctx, layer->wo, kqv);
}

static struct ggml_tensor * feed_forward(struct ggml_context * ctx, struct layer * layer, struct ggml_tensor * x) {
    struct ggml_tensor * hidden = ggml_gelu(ctx, ggml_mul_mat(ctx, layer->up, x));
    return ggml_mul_mat(ctx, layer->down, hidden);
}

static struct ggml_tensor * run_layer(struct ggml_context * ctx,
                                      struct layer * layer,
                                      struct ggml_tensor * x,
                                      struct batch batch) {
    struct ggml_tensor * y = normalize(ctx, x, layer->norm_1);
    x = ggml_add(ctx, attend(ctx, layer, y, batch), x);
    y = normalize(ctx, x, layer->norm_2);
    return ggml_add(ctx, feed_forward(ctx, layer, y), x);
}

static struct ggml_tensor * embed(struct program * p, struct batch batch) {
    struct ggml_tensor * tokens = ggml_new_tensor_1d(p->inputs, GGML_TYPE_I32, batch.n);
    memcpy(tokens->data, batch.tokens, ggml_nbytes(tokens));
    struct ggml_tensor * table     = p->model.positions;
    struct ggml_tensor * positions =
        ggml_view_2d(p->graphs, table, WIDTH, batch.n, table->nb[1], (size_t) batch.past * table->nb[1]);
    return ggml_add(p->graphs, ggml_get_rows(p->graphs, p->model.embeddings, tokens), positions);
}

static struct ggml_tensor * unembed(struct program * p, struct batch batch, struct ggml_tensor * x) {
    x                         = normalize(p->graphs, x, p->model.norm);
    struct ggml_tensor * last = ggml_view_2d(p->graphs, x, WIDTH, 1, x->nb[1], (size_t) (batch.n - 1) * x->nb[1]);
    return ggml_mul_mat(p->graphs, p->model.embeddings, last);
}

// The graph of a step, whose last node is the logits.
static struct ggml_cgraph * build(struct program * p,
                                  struct batch batch) {
    ggml_reset(p->inputs);
    ggml_reset(p->graphs);
    struct ggml_tensor * x = embed(p, batch);
    for (int i = 0; i < LAYERS; i++) {
        x = run_layer(p->graphs, &p->model.layers[i], x, batch);
    }
    struct ggml_tensor * logits = unembed(p, batch, x);
    ggml_set_output(logits);
    struct ggml_cgraph * graph = ggml_new_graph(p->graphs);
    ggml_build_forward_expand(graph, logits);
    return graph;
}

static void step(void * program, struct batch batch, float * logits) {
    struct program *     p     = (struct program *) program;
    struct ggml_cgraph * graph = build(p, batch);
    if (!ggml_gallocr_alloc_graph(p->galloc, graph)) {
        fprintf(stderr, "%s\n", lastuse_last_error());
        exit(1);
    }
    ggml_backend_graph_compute(p->backend, graph);
    struct ggml_tensor * result = ggml_graph_node(graph, -1);
    ggml_backend_tensor_get(result, logits, 0, ggml_nbytes(result));
}

static struct program program_new(int threads) {
    struct program p = { .backend = ggml_backend_cpu_init() };
    ggml_backend_cpu_set_n_threads(p.backend, threads);
    p.weights = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, NULL);
    p.caches  = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, NULL);
    p.inputs  = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, NULL);
    p.graphs  = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    make_weights(&p.model, p.weights);
    make_caches(&p.model, p.caches);
    p.galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    return p;
}

static void program_free(struct program * p) {
    ggml_gallocr_free(p->galloc);
    lastuse_context_free(p->graphs);
    lastuse_context_free(p->inputs);
    lastuse_context_free(p->caches);
    lastuse_context_free(p->weights);
    ggml_backend_free(p->backend);
}

// The size of the largest batch, before it is allocated.
static size_t compute_size(struct program * p) {
    int32_t tokens[CONTEXT] = { 0 };
    struct batch largest = { .tokens = tokens, .n = CONTEXT, .past = 0 };
    struct ggml_backend_buffer_type * type = ggml_backend_cpu_buffer_type();
    struct ggml_cgraph * graph = build(p, largest);
    size_t size = 0;
    if (!lastuse_graph_measure(&graph, 1, &type, 1, NULL, NULL, &size, NULL)) {
        fprintf(stderr, "%s\n", lastuse_last_error());
    }
    return size;
}

int main(int argc, char ** argv) {
    struct program program = program_new(argc > 1 ? atoi(argv[1]) : 1);
    printf("compute_bytes=%zu\n", compute_size(&program));
    generate(&program, step);
    program_free(&program);
    return 0;
}
