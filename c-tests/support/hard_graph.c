#include "hard_graph.h"

#include "check.h"
#include "splitmix.h"

#define NODES     40
#define LONGEST   18 // nodes until a tensor is read
#define LARGEST   60 // in units
#define UNIT      32 // elements: more bytes than any alignment
#define HARD_SEED 525

// Different for different bytes of the sources.
static void fill(struct ggml_tensor * dst, int thread, int n_threads, void * user_data) {
    (void) thread;
    (void) n_threads;
    (void) user_data;
    uint64_t state = (uint64_t) ggml_nelements(dst);
    for (int i = 0; i < GGML_MAX_SRC && dst->src[i] != NULL; i++) {
        const uint32_t * words = dst->src[i]->data;
        for (int64_t k = 0; k < ggml_nelements(dst->src[i]); k++) {
            state ^= words[k];
            splitmix64(&state);
        }
    }
    for (int64_t k = 0; k < ggml_nelements(dst); k++) {
        ((float *) dst->data)[k] = (float) (splitmix64(&state) >> 40);
    }
}

struct built graph_of_lifetimes(uint64_t seed) {
    struct built         b = built_new(NODES, 0);
    struct ggml_tensor * tensors[NODES];
    int                  readers[NODES];
    for (int node = 0; node < NODES; node++) {
        int64_t units = 1 + (int64_t) (splitmix64(&seed) % LARGEST);
        readers[node] = node + 1 + (int) (splitmix64(&seed) % LONGEST);
        struct ggml_tensor * sources[GGML_MAX_SRC];
        int                  n_sources = 0;
        for (int source = 0; source < node; source++) {
            if (readers[source] == node) {
                CHECK(n_sources < GGML_MAX_SRC - 1, "node %d has too many sources", node);
                sources[n_sources++] = tensors[source];
            }
        }
        tensors[node] = ggml_custom_4d(b.ctx, GGML_TYPE_F32, units * UNIT, 1, 1, 1, sources, n_sources, fill, 1, NULL);
        if (readers[node] >= NODES) {
            ggml_set_output(tensors[node]);
        }
        ggml_build_forward_expand(b.graph, tensors[node]);
    }
    return b;
}

struct built hard_graph(void) {
    return graph_of_lifetimes(HARD_SEED);
}
