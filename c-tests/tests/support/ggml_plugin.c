// What a plugin, or a package of an interpreter, does with its own ggml: weights, a graph on an allocator, the same
// graph on a scheduler. If lastuse is loaded its functions are called too, for the same ggml.

#include <string.h>

#include "ggml_plugin.h"

#include "check.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "lastuse.h"
#include "reports.h"

#pragma weak lastuse_enabled
#pragma weak lastuse_gallocr_report
#pragma weak lastuse_gallocr_explain
#pragma weak lastuse_string_free
#pragma weak lastuse_graph_measure
#pragma weak lastuse_graph_reorder
#pragma weak lastuse_graph_remove_copies
#pragma weak lastuse_graph_verify
#pragma weak lastuse_context_new
#pragma weak lastuse_context_free
#pragma weak lastuse_last_error
#pragma weak ggml_dependency

enum { WIDTH = 64, ROWS = 48, LAYERS = 4 };

struct plugin {
    ggml_backend_t        backend;
    struct ggml_context * weights;
    struct ggml_tensor *  weight[LAYERS];
    ggml_backend_buffer_t buffers[2];
    ggml_gallocr_t        allocator;
    ggml_backend_sched_t  scheduler;
    uint64_t              hash;
    size_t                bytes;
};

static struct ggml_context * new_context(void) {
    struct ggml_init_params params = { .mem_size = 4 << 20, .mem_buffer = NULL, .no_alloc = true };
    return ggml_init(params);
}

static void fill(struct ggml_tensor * tensor, float start) {
    float values[WIDTH * WIDTH];
    for (int i = 0; i < (int) ggml_nelements(tensor); i++) {
        values[i] = start + 0.001f * (float) (i % 97);
    }
    ggml_backend_tensor_set(tensor, values, 0, ggml_nbytes(tensor));
}

// Operations whose numbers are others in other versions, in place and not.
static struct ggml_tensor * layer(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * weight) {
    struct ggml_tensor * product = ggml_mul_mat(ctx, weight, ggml_rms_norm(ctx, x, 1e-5f));
    struct ggml_tensor * gate    = ggml_silu(ctx, ggml_scale(ctx, product, 0.5f));
    struct ggml_tensor * soft    = ggml_soft_max(ctx, ggml_clamp(ctx, product, -1.0f, 1.0f));
    struct ggml_tensor * both    = ggml_concat(ctx, gate, ggml_norm(ctx, soft, 1e-5f), 0);
    struct ggml_tensor * half    = ggml_view_2d(ctx, both, WIDTH, both->ne[1], both->nb[1], WIDTH * sizeof(float));
    return ggml_add(ctx, ggml_mul(ctx, x, ggml_cont(ctx, half)), ggml_sqr(ctx, gate));
}

static struct ggml_cgraph * build(
    struct plugin * plugin, struct ggml_context * ctx, int rows, struct ggml_tensor ** input, struct ggml_tensor ** output) {
    struct ggml_tensor * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, rows);
    ggml_set_input(x);
    *input = x;
    for (int i = 0; i < LAYERS; i++) {
        x = layer(ctx, x, plugin->weight[i]);
    }
    ggml_set_output(x);
    *output                    = x;
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, x);
    return graph;
}

static void add_to_hash(struct plugin * plugin, struct ggml_tensor * result) {
    unsigned char bytes[WIDTH * ROWS * sizeof(float)];
    ggml_backend_tensor_get(result, bytes, 0, ggml_nbytes(result));
    for (size_t i = 0; i < ggml_nbytes(result); i++) {
        plugin->hash = (plugin->hash ^ bytes[i]) * 1099511628211u;
    }
}

struct plugin * plugin_open(void) {
    struct plugin * plugin = calloc(1, sizeof(*plugin));
    plugin->backend        = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(plugin->backend, 1);
    plugin->weights        = new_context();
    for (int i = 0; i < LAYERS; i++) {
        plugin->weight[i] = ggml_new_tensor_2d(plugin->weights, GGML_TYPE_F32, WIDTH, WIDTH);
    }
    // Half of them one after the other in a buffer, the rest at once.
    ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(plugin->backend);
    plugin->buffers[0]              = ggml_backend_buft_alloc_buffer(type, LAYERS * WIDTH * WIDTH * sizeof(float));
    struct ggml_tallocr tallocr     = ggml_tallocr_new(plugin->buffers[0]);
    for (int i = 0; i < LAYERS / 2; i++) {
        ggml_tallocr_alloc(&tallocr, plugin->weight[i]);
    }
    plugin->buffers[1] = ggml_backend_alloc_ctx_tensors(plugin->weights, plugin->backend);
    CHECK(plugin->buffers[1] != NULL, "the weights have no memory");
    for (int i = 0; i < LAYERS; i++) {
        fill(plugin->weight[i], 0.01f * (float) i);
    }
    plugin->allocator = ggml_gallocr_new(type);
    plugin->scheduler = ggml_backend_sched_new(&plugin->backend, NULL, 1, GGML_DEFAULT_GRAPH_SIZE, false, false);
    CHECK(ggml_backend_alloc_ctx_tensors_from_buft(plugin->weights, type) == NULL, "there is nothing left to allocate");
    return plugin;
}

// All functions of lastuse that find the ggml of a graph by themselves.
static void ask_lastuse(struct plugin * plugin, int rows) {
    if (lastuse_enabled == NULL || !lastuse_enabled()) {
        return;
    }
    struct ggml_context * ctx = new_context();
    struct ggml_tensor *  input, *output;
    struct ggml_cgraph *  graph = build(plugin, ctx, rows, &input, &output);
    struct ggml_tensor *  after = ggml_dependency(ctx, input, output);
    CHECK(after != NULL && strcmp(ggml_op_name(after->op), "RESHAPE") == 0, "%s", lastuse_last_error());

    ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(plugin->backend);
    size_t                     size = 0, lower_bound = 0;
    CHECK(lastuse_graph_measure(&graph, 1, &type, 1, NULL, NULL, &size, &lower_bound), "%s", lastuse_last_error());
    CHECK(lower_bound > 0 && lower_bound <= size, "%zu of %zu bytes", lower_bound, size);
    struct lastuse_reorder_report order = { .struct_size = sizeof(order) };
    is_reordered(graph, NULL, 0, &order);
    CHECK(order.lower_bound_before > 0, "the graph was not reordered: %s", lastuse_last_error());
    struct lastuse_copies_report copies = { .struct_size = sizeof(copies) };
    copies_removed(graph, NULL, &copies);
    CHECK(copies.removed + copies.left_part + copies.left_memory > 0, "no copies were found: %s", lastuse_last_error());
    CHECK(ggml_gallocr_alloc_graph(plugin->allocator, graph), "the graph has no memory");
    CHECK(lastuse_graph_verify(graph), "%s", lastuse_last_error());
    char * text = lastuse_gallocr_explain(plugin->allocator, graph);
    CHECK(text != NULL, "%s", lastuse_last_error());
    lastuse_string_free(text);
    ggml_free(ctx);

    struct ggml_context * own = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
    CHECK(own != NULL && ggml_new_tensor_1d(own, GGML_TYPE_F32, 8) != NULL, "%s", lastuse_last_error());
    lastuse_context_free(own);
}

void plugin_step(struct plugin * plugin, int step) {
    int                   rows = ROWS - step % ROWS;
    struct ggml_context * ctx  = new_context();
    struct ggml_tensor *  input, *output;

    struct ggml_cgraph * graph = build(plugin, ctx, rows, &input, &output);
    CHECK(ggml_gallocr_reserve(plugin->allocator, graph), "no memory is reserved");
    CHECK(ggml_gallocr_alloc_graph(plugin->allocator, graph), "the graph has no memory");
    fill(input, 0.1f);
    CHECK(ggml_backend_graph_compute(plugin->backend, graph) == GGML_STATUS_SUCCESS, "the graph is not computed");
    add_to_hash(plugin, output);
    size_t bytes = ggml_gallocr_get_buffer_size(plugin->allocator, 0);
    if (lastuse_enabled != NULL && lastuse_enabled()) {
        size_t bound = lower_bound_of(plugin->allocator, 0);
        CHECK(bound > 0 && bound <= bytes, "a lower bound of %zu for %zu bytes", bound, bytes);
    }
    ask_lastuse(plugin, rows);

    graph = build(plugin, ctx, rows, &input, &output);
    ggml_backend_sched_reset(plugin->scheduler);
    CHECK(ggml_backend_sched_alloc_graph(plugin->scheduler, graph), "the graph has no memory of the scheduler");
    fill(input, 0.2f);
    CHECK(ggml_backend_sched_graph_compute(plugin->scheduler, graph) == GGML_STATUS_SUCCESS, "the graph is not computed");
    add_to_hash(plugin, output);
    plugin->bytes = bytes + ggml_backend_sched_get_buffer_size(plugin->scheduler, plugin->backend);
    ggml_free(ctx);
}

void plugin_close(struct plugin * plugin, const char * name) {
    printf("%s_ggml=%s\n", name, ggml_version());
    printf("%s_hash=%016llx\n", name, (unsigned long long) plugin->hash);
    printf("%s_bytes=%zu\n", name, plugin->bytes);
    printf("%s_enabled=%d\n", name, lastuse_enabled != NULL && lastuse_enabled());
    ggml_backend_sched_free(plugin->scheduler);
    ggml_gallocr_free(plugin->allocator);
    ggml_backend_buffer_free(plugin->buffers[1]);
    ggml_backend_buffer_free(plugin->buffers[0]);
    ggml_free(plugin->weights);
    ggml_backend_free(plugin->backend);
    free(plugin);
}
