// runs: ggml-0.26 ggml-0.9.5
//
// Tensors that are larger than what a buffer type allocates at once: where ggml-alloc fails, they are computed in tiles, with the
// same bits; where the type allocates them nevertheless, graphs stay as they are.
//
//   largest_buffer <case> [first seed] [number of seeds]

#include "../captures/diffusion/unet.h"
#include "../captures/diffusion/vae_decoder.h"
#include "cases.h"
#include "computing.h"
#include "dummy_buffer.h"
#include "ggml-alloc.h"
#include "large_graph.h"
#include "upstream.h"

#define MOST (192 * 1024)

static struct dummy_buft limited;

static void limit(bool is_strict) {
    bool is_device = limited.is_device;
    dummy_buft_init(&limited, "limited", is_device ? 16 : 64, MOST);
    limited.is_device = is_device;
    limited.is_strict = is_strict;
}

static size_t largest_tensor(const struct large_graph * g) {
    size_t largest = 0;
    for (int i = 0; i < ggml_graph_n_nodes(g->graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(g->graph, i);
        largest = t->view_src == NULL && ggml_nbytes(t) > largest ? ggml_nbytes(t) : largest;
    }
    return largest;
}

// Whether ggml's own allocator reserves the graph.
static bool upstream_reserves(uint64_t seed) {
    struct large_graph g      = large_graph_new(seed);
    ggml_gallocr_t     galloc = upstream_ggml_gallocr_new(dummy_buft_type(&limited));
    bool               done   = upstream_ggml_gallocr_reserve(galloc, g.graph);
    upstream_ggml_gallocr_free(galloc);
    large_graph_free(g);
    return done;
}

// Builds, allocates and computes the graph as often, on one allocator, and compares it with one that is whole. Returns false if it
// cannot be allocated.
static bool check_results(ggml_gallocr_t galloc, uint64_t seed, ggml_backend_t cpu, bool reserves) {
    ggml_gallocr_t     unlimited = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    struct large_graph truth     = large_graph_new(seed);
    bool               done      = true;
    CHECK(ggml_gallocr_alloc_graph(unlimited, truth.graph), "seed %llu: not allocated", (unsigned long long) seed);
    large_graph_run(&truth, cpu);
    for (int i = 0; i < 3 && done; i++) {
        struct large_graph g = large_graph_new(seed);
        done = (!reserves || ggml_gallocr_reserve(galloc, g.graph)) && ggml_gallocr_alloc_graph(galloc, g.graph);
        CHECK(done || i == 0, "seed %llu: not allocated again", (unsigned long long) seed);
        if (done) {
            CHECK(largest_tensor(&g) <= MOST, "seed %llu: a tensor is too large", (unsigned long long) seed);
            if (limited.is_device) {
                large_graph_expect_packed(&g, limited.alignment);
            }
            large_graph_run(&g, cpu);
            for (int j = 0; j < truth.n_results; j++) {
                check_same_bytes(g.results[j], truth.results[j], seed);
            }
        }
        large_graph_free(g);
    }
    large_graph_free(truth);
    ggml_gallocr_free(unlimited);
    return done;
}

static void allocate_more_than_upstream(struct seeds seeds, bool reserves) {
    ggml_backend_t cpu     = new_cpu(1);
    int            refused = 0;
    int            more    = 0;
    limit(true);
    FOR_SEEDS(seed, seeds) {
        ggml_gallocr_t galloc      = ggml_gallocr_new(dummy_buft_type(&limited));
        bool           by_upstream = upstream_reserves((uint64_t) seed);
        bool           done        = check_results(galloc, (uint64_t) seed, cpu, reserves);
        CHECK(done || !by_upstream, "seed %lld: allocated by ggml-alloc alone", seed);
        refused += by_upstream ? 0 : 1;
        more += done && !by_upstream ? 1 : 0;
        ggml_gallocr_free(galloc);
        CHECK(limited.live_buffers == 0, "seed %lld: %zu buffers are left", seed, limited.live_buffers);
    }
    // Tiles that must be aligned are fewer.
    CHECK(more * (limited.is_device ? 3 : 2) > refused && more > 5, "%d of %d that ggml-alloc refuses", more, refused);
    ggml_backend_free(cpu);
}

LASTUSE_CASE(reserved_graphs_with_larger_tensors_are_computed_in_tiles) {
    allocate_more_than_upstream(seeds_from(args, 40), true);
}

LASTUSE_CASE(graphs_that_are_not_reserved_are_computed_in_tiles) {
    allocate_more_than_upstream(seeds_from(args, 40), false);
}

// Kernels of GPUs write no gaps: tiles are copied where the whole would have some.
LASTUSE_CASE(graphs_on_devices_are_computed_in_tiles) {
    limited.is_device = true;
    allocate_more_than_upstream(seeds_from(args, 40), false);
}

// What the type allocates nevertheless is not changed.
CASE(graphs_stay_whole_where_larger_buffers_are_allocated) {
    limit(false);
    FOR_SEEDS(seed, seeds_from(args, 40)) {
        struct large_graph g      = large_graph_new((uint64_t) seed);
        int                nodes  = ggml_graph_n_nodes(g.graph);
        ggml_gallocr_t     galloc = ggml_gallocr_new(dummy_buft_type(&limited));
        CHECK(ggml_gallocr_reserve(galloc, g.graph) && ggml_gallocr_alloc_graph(galloc, g.graph), "seed %lld: not allocated", seed);
        CHECK(ggml_graph_n_nodes(g.graph) == nodes, "seed %lld: other nodes", seed);
        ggml_gallocr_free(galloc);
        large_graph_free(g);
    }
}

// A tensor that cannot be computed in tiles is refused, as by ggml-alloc, and the allocator can be used again.
CASE(what_cannot_be_computed_in_tiles_is_refused) {
    limit(true);
    struct ggml_context * ctx    = no_alloc_context(4 * ggml_tensor_overhead() + ggml_graph_overhead_custom(64, false));
    struct ggml_tensor *  input  = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, MOST);
    struct ggml_cgraph *  graph  = ggml_new_graph_custom(ctx, 64, false);
    ggml_gallocr_t        galloc = ggml_gallocr_new(dummy_buft_type(&limited));
    ggml_set_input(input);
    ggml_build_forward_expand(graph, ggml_sum(ctx, input));
    CHECK(!ggml_gallocr_reserve(galloc, graph) && !ggml_gallocr_alloc_graph(galloc, graph), "allocated");
    struct large_graph small = large_graph_new(3);
    CHECK(largest_tensor(&small) <= MOST, "the graph is too large");
    CHECK(ggml_gallocr_reserve(galloc, small.graph), "not reserved");
    ggml_gallocr_free(galloc);
    large_graph_free(small);
    ggml_free(ctx);
}

// A graph that is in tiles from the start, and for which there is not enough memory, is as the program has built it.
LASTUSE_CASE(graphs_that_are_refused_later_are_as_they_were) {
    ggml_backend_t cpu     = new_cpu(1);
    int            refused = 0;
    FOR_SEEDS(seed, seeds_from(args, 40)) {
        limit(true);
        ggml_gallocr_t galloc = ggml_gallocr_new(dummy_buft_type(&limited));
        if (!upstream_reserves((uint64_t) seed) && check_results(galloc, (uint64_t) seed, cpu, false)) {
            struct large_graph g     = large_graph_new((uint64_t) seed);
            int                nodes = ggml_graph_n_nodes(g.graph);
            // With another size, it needs other buffers.
            struct large_graph other = large_graph_new((uint64_t) seed + 1000);
            limited.byte_cap         = 0;
            ggml_gallocr_t next      = ggml_gallocr_new(dummy_buft_type(&limited));
            CHECK(!ggml_gallocr_reserve(next, g.graph) && ggml_graph_n_nodes(g.graph) == nodes, "seed %lld: other nodes", seed);
            int others = ggml_graph_n_nodes(other.graph);
            CHECK(ggml_gallocr_reserve(galloc, other.graph) || ggml_graph_n_nodes(other.graph) == others, "seed %lld: other nodes", seed);
            refused++;
            ggml_gallocr_free(next);
            large_graph_free(g);
            large_graph_free(other);
        }
        ggml_gallocr_free(galloc);
    }
    CHECK(refused > 5, "%d are refused", refused);
    ggml_backend_free(cpu);
}

// The graph of a network for an image of so many pixels, on a device with buffers of at most 256 MiB. It is planned, not computed.
static void network_fits(const char * name, int64_t image, bool is_device) {
    const size_t most = 256 * 1024 * 1024;
    dummy_buft_init(&limited, "limited", 64, most);
    limited.is_strict = limited.imaginary = true;
    limited.is_device = is_device;
    for (int i = 0; i < 2; i++) {
        struct new_graph g      = new_graph(16384, false);
        bool             is_vae = strcmp(name, "vae") == 0;
        struct ggml_tensor * t  = is_vae ? build_vae_decoder(&g, image / 8, false) : build_unet(&g, &sd1_unet, image / 8, false);
        new_graph_output(&g, t, "output");
        ggml_gallocr_t galloc = i == 0 ? upstream_ggml_gallocr_new(dummy_buft_type(&limited)) : ggml_gallocr_new(dummy_buft_type(&limited));
        bool           done   = i == 0 ? upstream_ggml_gallocr_reserve(galloc, g.graph) : ggml_gallocr_alloc_graph(galloc, g.graph);
        CHECK(done == (i == 1), "%s: allocated: %d", name, done);
        for (int j = 0; j < ggml_graph_n_nodes(g.graph) && i == 1; j++) {
            struct ggml_tensor * node = ggml_graph_node(g.graph, j);
            CHECK(node->view_src != NULL || ggml_nbytes(node) <= most, "%s has %zu bytes", node->name, ggml_nbytes(node));
            bool writes = node->op != GGML_OP_CPY && node->op != GGML_OP_VIEW && node->op != GGML_OP_PERMUTE && node->op != GGML_OP_TRANSPOSE;
            CHECK(!writes || !is_device || ggml_is_contiguous(node), "%s is written with gaps", node->name);
        }
        (i == 0 ? upstream_ggml_gallocr_free : ggml_gallocr_free)(galloc);
        ggml_free(g.ctx);
        ggml_free(g.weights);
    }
}

LASTUSE_CASE(vae_decoder_fits_buffers_of_256_mib) {
    network_fits("vae", 512, false);
    network_fits("vae", 512, true);
}

LASTUSE_CASE(unet_fits_buffers_of_256_mib) {
    network_fits("unet", 1024, false);
    network_fits("unet", 1024, true);
}
