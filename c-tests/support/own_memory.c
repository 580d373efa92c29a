#include "own_memory.h"

#include "check.h"
#include "computing.h"
#include "upstream.h"

void compute_graph(ggml_backend_t cpu, const struct random_graph * g) {
    random_graph_set_data(g);
    enum ggml_status status = ggml_backend_graph_compute(cpu, g->graph);
    CHECK(status == GGML_STATUS_SUCCESS, "seed %llu: status %d", (unsigned long long) g->seed, (int) status);
}

// Views of weights get no address from ggml_backend_alloc_ctx_tensors() when all else is a view or has no bytes.
static void init_views(struct ggml_context * ctx) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t != NULL; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src != NULL && t->buffer == NULL && t->view_src->buffer != NULL) {
            ggml_backend_view_init(t);
        }
    }
}

ggml_backend_buffer_t compute_in_own_memory(ggml_backend_t cpu, const struct random_graph * g) {
    ggml_backend_buffer_t buffer = upstream_ggml_backend_alloc_ctx_tensors(g->ctx, cpu);
    init_views(g->ctx);
    compute_graph(cpu, g);
    return buffer;
}

void check_same_lists(struct tensor_list list, struct tensor_list truth, uint64_t seed) {
    CHECK(list.count == truth.count, "seed %llu: %d and %d tensors", (unsigned long long) seed, list.count,
          truth.count);
    for (int i = 0; i < list.count; i++) {
        check_same_bytes(list.items[i], truth.items[i], seed);
    }
}
