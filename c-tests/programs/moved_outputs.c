// runs: ggml-0.26 ggml-0.9.5 off
//
// A redirected result is written with gaps, which only ggml's CPU backend can do; then its destination is in another
// buffer, at the same address. Allocators that remember a plan of the graph must notice that.
//
//   moved_outputs <case>

#include "separate_backends.h"
#include "cases.h"
#include "ggml-alloc.h"
#include "lastuse.h"
#include "reports.h"

struct scene {
    struct separate_backends separate;
    struct ggml_context * keep;
    struct ggml_context * ctx; // of one graph, made anew each time
    struct ggml_tensor *  wide; // 20 x 2: the destination of results
    ggml_backend_buffer_t here;
    ggml_backend_buffer_t there; // of another device
    ggml_gallocr_t        galloc;
};

// A type whose sizes may depend on anything, so that allocators compare graphs by all fields of their tensors.
static size_t no_more(const struct ggml_tensor * tensor) {
    (void) tensor;
    return 0;
}

static void scene_init(struct scene * scene, bool is_by_layout) {
    separate_backends_init(&scene->separate, 1);
    scene->separate.dummies[0].type.iface.is_host = NULL;
    scene->separate.dummies[1].extra_bytes        = no_more;
    scene->keep   = no_alloc_context(1u << 20);
    scene->ctx    = no_alloc_context(1u << 20);
    scene->wide   = ggml_new_tensor_2d(scene->keep, GGML_TYPE_F32, 20, 2);
    scene->here   = ggml_backend_alloc_ctx_tensors_from_buft(scene->keep, ggml_backend_cpu_buffer_type());
    scene->there  = ggml_backend_buft_alloc_buffer(scene->separate.types[0], 4096);
    scene->galloc = ggml_gallocr_new(is_by_layout ? ggml_backend_cpu_buffer_type() : scene->separate.types[1]);
}

static void scene_free(struct scene * scene) {
    ggml_gallocr_free(scene->galloc);
    ggml_backend_buffer_free(scene->there);
    ggml_backend_buffer_free(scene->here);
    ggml_free(scene->ctx);
    ggml_free(scene->keep);
    separate_backends_free(&scene->separate);
}

// Equal tensors at equal addresses each time.
static struct ggml_cgraph * build(const struct scene * scene, int64_t input_width) {
    ggml_reset(scene->ctx);
    struct ggml_context * ctx   = scene->ctx;
    struct ggml_cgraph *  graph = ggml_new_graph_custom(ctx, 16, false);
    struct ggml_tensor *  x     = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, input_width, 2);
    struct ggml_tensor *  w     = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, input_width, 8);
    struct ggml_tensor *  norm  = ggml_rms_norm(ctx, ggml_mul_mat(ctx, w, x), 1e-5f);
    scene->wide->buffer         = scene->here;
    CHECK(ggml_set_output(norm, ggml_view_2d(ctx, scene->wide, 8, 2, scene->wide->nb[1], 0)) == norm, "refused: %s",
          lastuse_last_error());
    ggml_build_forward_expand(graph, norm);
    return graph;
}

static bool plan(const struct scene * scene, struct ggml_cgraph * graph, bool reserve) {
    return reserve ? ggml_gallocr_reserve(scene->galloc, graph) : ggml_gallocr_alloc_graph(scene->galloc, graph);
}

static void check_refused_elsewhere(const struct scene * scene, struct ggml_cgraph * graph, bool reserve) {
    scene->wide->buffer = scene->there;
    CHECK(!plan(scene, graph, reserve), "%s: accepted in another buffer", reserve ? "reserve" : "alloc_graph");
    CHECK(strstr(lastuse_last_error(), "CPU backend only") != NULL, "the error is: %s", lastuse_last_error());
    scene->wide->buffer = scene->here;
}

static void check_moves_are_seen(bool is_by_layout) {
    static struct scene scene;
    scene_init(&scene, is_by_layout);
    CHECK(plan(&scene, build(&scene, 64), true), "not reserved: %s", lastuse_last_error());
    // The planned graph.
    check_refused_elsewhere(&scene, build(&scene, 64), true);
    check_refused_elsewhere(&scene, build(&scene, 64), false);
    CHECK(plan(&scene, build(&scene, 64), true), "not reserved again: %s", lastuse_last_error());
    CHECK(plan(&scene, build(&scene, 64), false), "not allocated: %s", lastuse_last_error());
    // Another one that the plan serves, and a small one, which gets its own plan.
    static const int widths[] = { 60, 4 };
    for (int i = 0; i < 2; i++) {
        for (int round = 0; round < 2; round++) {
            CHECK(plan(&scene, build(&scene, widths[i]), false), "width %d, round %d: not allocated: %s", widths[i], round,
                  lastuse_last_error());
            check_refused_elsewhere(&scene, build(&scene, widths[i]), false);
        }
        CHECK(plans_made() == (uint64_t) (1 + i), "%d plans", (int) plans_made());
    }
    scene_free(&scene);
}

LASTUSE_CASE(moved_outputs_are_noticed_where_sizes_depend_on_the_layout) {
    check_moves_are_seen(true);
}

LASTUSE_CASE(moved_outputs_are_noticed_where_sizes_depend_on_more) {
    check_moves_are_seen(false);
}
