// Graphs whose memory has small addresses, as the heap has in programs that are not position-independent: what lastuse knows
// of the layout of a graph must not depend on where the graph is. Linked in three ways, with the passes that read and write
// the tensors that ggml has visited and the counts of their uses.
//
//   low_addresses <case>

#include <stdint.h>
#include <stdlib.h>

#include "cases.h"
#include "computing.h"
#include "ggml-alloc.h"
#include "graph_fields.h"
#include "lastuse.h"

#define NODES 512

// Below 2^32 where the program is linked so.
static _Alignas(64) char rooms[2][1024 * 1024];

struct scores {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  leafs[3];
    struct ggml_tensor *  sum;
};

static struct scores scores_in(char * room) {
    struct ggml_init_params params = { .mem_size = sizeof(rooms[0]), .mem_buffer = room, .no_alloc = true };
    struct scores           s      = { .ctx = ggml_init(params) };
    s.leafs[0] = ggml_new_tensor_3d(s.ctx, GGML_TYPE_F32, 32, 256, 8);
    s.leafs[1] = ggml_new_tensor_3d(s.ctx, GGML_TYPE_F32, 32, 256, 8);
    s.leafs[2] = ggml_new_tensor_3d(s.ctx, GGML_TYPE_F32, 256, 32, 8);
    for (int i = 0; i < 3; i++) {
        ggml_set_input(s.leafs[i]);
    }
    struct ggml_tensor * shares = ggml_soft_max(s.ctx, ggml_mul_mat(s.ctx, s.leafs[0], s.leafs[1]));
    s.sum   = ggml_sum(s.ctx, ggml_mul_mat(s.ctx, s.leafs[2], shares));
    s.graph = ggml_new_graph_custom(s.ctx, NODES, false);
    ggml_set_output(s.sum);
    ggml_build_forward_expand(s.graph, s.sum);
#ifdef LOW_ADDRESSES
    CHECK((uintptr_t) s.graph < (uintptr_t) 1 << 32, "the graph is at %p", (void *) s.graph);
#endif
    return s;
}

// Computes the graph, whose tensors have memory.
static float computed(struct scores * s) {
    float          sum = 0.0f;
    ggml_backend_t cpu = new_cpu(1);
    for (int i = 0; i < 3; i++) {
        set_values(s->leafs[i], (uint64_t) i + 5);
    }
    CHECK(ggml_backend_graph_compute(cpu, s->graph) == GGML_STATUS_SUCCESS, "not computed");
    ggml_backend_tensor_get(s->sum, &sum, 0, sizeof(sum));
    ggml_backend_free(cpu);
    return sum;
}

// As it is, with memory for each tensor.
static float computed_whole(void) {
    struct scores         s      = scores_in(rooms[0]);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(s.ctx, ggml_backend_cpu_buffer_type());
    float                 sum    = computed(&s);
    ggml_backend_buffer_free(buffer);
    ggml_free(s.ctx);
    return sum;
}

// By lastuse.
static void check_computed(struct scores * s, float whole) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    CHECK(ggml_gallocr_alloc_graph(galloc, s->graph), "not allocated: %s", lastuse_last_error());
    CHECK(computed(s) == whole, "another sum than %g", (double) whole);
    ggml_gallocr_free(galloc);
}

#define BUDGET (2200 * 1024)

CASE(graphs_are_split) {
    float                       whole  = computed_whole();
    struct scores               s      = scores_in(rooms[1]);
    struct lastuse_tiling_params params = { .struct_size = sizeof(params), .budget = BUDGET,
                                           .buft = ggml_backend_cpu_buffer_type() };
    struct lastuse_tiling_report report = { .struct_size = sizeof(report) };
    CHECK(lastuse_graph_tile(s.ctx, s.graph, &params, &report), "%s", lastuse_last_error());
    CHECK(report.size_after <= BUDGET && report.size_after < report.size_before, "%zu bytes", report.size_after);
    check_computed(&s, whole);
}

CASE(budgets_are_kept) {
    setenv("LASTUSE_BUDGET", "2200K", 1);
    float         whole = computed_whole();
    struct scores s     = scores_in(rooms[1]);
    int           nodes = s.graph->n_nodes;
    check_computed(&s, whole);
    CHECK(s.graph->n_nodes > nodes, "it is not in tiles");
}

// Parameters and a loss, whose forward results are computed again.
CASE(graphs_are_recomputed) {
    struct ggml_init_params params = { .mem_size = sizeof(rooms[0]), .mem_buffer = rooms[0], .no_alloc = true };
    struct ggml_context *   ctx    = ggml_init(params);
    struct ggml_tensor *    x      = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 256);
    struct ggml_tensor *    w      = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64);
    ggml_set_input(x);
    ggml_set_param(w);
    struct ggml_tensor * y = x;
    for (int i = 0; i < 6; i++) {
        y = ggml_silu(ctx, ggml_mul_mat(ctx, w, y));
    }
    struct ggml_tensor * loss = ggml_sum(ctx, ggml_sqr(ctx, y));
    ggml_set_output(loss);
    ggml_set_loss(loss);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, NODES, true);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(ctx, graph, NULL);
    struct lastuse_recompute_params request = { .struct_size = sizeof(request), .buft = ggml_backend_cpu_buffer_type() };
    struct lastuse_recompute_report report  = { .struct_size = sizeof(report) };
    int                             nodes   = graph->n_nodes;
    request.budget                          = 1;
    CHECK(!lastuse_graph_recompute(ctx, graph, &request, &report), "a byte is enough");
    request.budget = report.size_after;
    CHECK(lastuse_graph_recompute(ctx, graph, &request, &report), "%s", lastuse_last_error());
    CHECK(report.size_after < report.size_before && graph->n_nodes > nodes, "nothing is computed again");
    ggml_free(ctx);
}
