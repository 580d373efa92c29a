// A randomly wired network: convolutions on a ring of neighbours, some of whose wires lead somewhere else (Watts and
// Strogatz's small worlds), in three stages of halving size. No order of such a graph is the natural one.
#pragma once

#include "../diffusion/layers.h"
#include "splitmix.h"

enum { WIRING_STAGES = 3, WIRING_NODES = 32, WIRING_NEIGHBOURS = 2, WIRING_CHANNELS = 78, WIRING_IMAGE = 56 };

// Of 100 wires, how many lead somewhere else.
enum { WIRING_REWIRED = 75 };

struct wiring {
    bool from[WIRING_NODES][WIRING_NODES]; // from[a][b], a < b: b reads a
};

static inline void wire(struct wiring * w, int a, int b) {
    w->from[a < b ? a : b][a < b ? b : a] = a != b;
}

static inline bool wired(const struct wiring * w, int a, int b) {
    return a == b || w->from[a < b ? a : b][a < b ? b : a];
}

static inline struct wiring random_wiring(uint64_t seed) {
    struct wiring w = { 0 };
    for (int node = 0; node < WIRING_NODES; node++) {
        for (int distance = 1; distance <= WIRING_NEIGHBOURS; distance++) {
            int other = (node + distance) % WIRING_NODES;
            if (splitmix64(&seed) % 100 < WIRING_REWIRED) {
                other = (int) (splitmix64(&seed) % WIRING_NODES);
            }
            if (!wired(&w, node, other)) {
                wire(&w, node, other);
            }
        }
    }
    return w;
}

// The weighted sum of the node's sources, or the input of the stage.
static inline struct ggml_tensor * gathered(const struct new_graph * g, const struct wiring * w,
                                            struct ggml_tensor ** nodes, int node, struct ggml_tensor * input) {
    struct ggml_tensor * sum = NULL;
    for (int other = 0; other < node; other++) {
        if (w->from[other][node]) {
            struct ggml_tensor * part = ggml_mul(g->ctx, nodes[other], ggml_sigmoid(g->ctx, new_vector(g, 1)));
            sum = sum == NULL ? part : ggml_add(g->ctx, sum, part);
        }
    }
    return sum == NULL ? input : sum;
}

static inline bool is_read(const struct wiring * w, int node) {
    for (int other = node + 1; other < WIRING_NODES; other++) {
        if (w->from[node][other]) {
            return true;
        }
    }
    return false;
}

// The mean of the nodes that no other reads.
static inline struct ggml_tensor * wired_stage(const struct new_graph * g, struct ggml_tensor * x, int channels,
                                               uint64_t seed) {
    const struct wiring w = random_wiring(seed);
    struct ggml_tensor * nodes[WIRING_NODES];
    struct ggml_tensor * sum = NULL;
    float ends = 0.0f;
    x = conv(g, x, channels, 3, 2);
    for (int node = 0; node < WIRING_NODES; node++) {
        nodes[node] = conv(g, ggml_relu(g->ctx, gathered(g, &w, nodes, node, x)), channels, 3, 1);
        // In the order of their numbers: a program that runs a list of nodes does so too.
        ggml_build_forward_expand(g->graph, nodes[node]);
    }
    for (int node = 0; node < WIRING_NODES; node++) {
        if (!is_read(&w, node)) {
            sum = sum == NULL ? nodes[node] : ggml_add(g->ctx, sum, nodes[node]);
            ends += 1.0f;
        }
    }
    return ggml_scale(g->ctx, sum, 1.0f / ends);
}

static inline struct ggml_tensor * build_random_wiring(const struct new_graph * g) {
    struct ggml_tensor * x = new_graph_input(g, GGML_TYPE_F32, WIRING_IMAGE, WIRING_IMAGE, WIRING_CHANNELS / 2, "image");
    for (int stage = 0; stage < WIRING_STAGES; stage++) {
        x = wired_stage(g, x, WIRING_CHANNELS << stage, (uint64_t) stage + 1);
    }
    return x;
}
