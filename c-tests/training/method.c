#include "method.h"
#include "reports.h"

#include "check.h"
#include "lastuse.h"
#include "weak_lastuse.h"

// The program also links and runs where ggml's own allocator is the only one.
#pragma weak lastuse_graph_dump
#pragma weak lastuse_graph_dump_begin
#pragma weak lastuse_graph_measure
#pragma weak lastuse_graph_recompute
#pragma weak lastuse_graph_reorder
#pragma weak lastuse_last_error
#pragma weak lastuse_set
#pragma weak lastuse_steps_compute
#pragma weak lastuse_steps_free
#pragma weak lastuse_steps_new
#pragma weak lastuse_tensor_dedicate

// Followed by one digit.
#define LAYER "layer "

void for_each_layer(struct ggml_cgraph * graph, void (*f)(struct ggml_tensor * layer, void * user), void * user) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(graph, i);
        // ggml names others after it: "layer 0 (view)".
        if (strncmp(node->name, LAYER, strlen(LAYER)) == 0 && strlen(node->name) == strlen(LAYER) + 1) {
            f(node, user);
        }
    }
}

// outputs: the way of programs on ggml alone to read values after the run

static void set_output(struct ggml_tensor * layer, void * user) {
    (void) user;
    ggml_set_output(layer);
}

static void set_outputs(struct ggml_context * ctx, struct ggml_cgraph * graph) {
    (void) ctx;
    for_each_layer(graph, set_output, NULL);
}

// retain: values can be read after the run

static void retain(const char * folder) {
    (void) folder;
    CHECK(lastuse_set("retain", LAYER "?"), "%s", lastuse_last_error());
}

// everything: every intermediate can be read after the run, to debug a model

static void retain_everything(const char * folder) {
    (void) folder;
    CHECK(lastuse_set("retain", "*"), "%s", lastuse_last_error());
}

// dump: values are written to files each time that a graph is computed

static void dump(const char * folder) {
    CHECK(lastuse_set("dump_dir", folder) && lastuse_set("dump", LAYER "?"), "%s", lastuse_last_error());
}

static void before_dump(struct ggml_cgraph * graph) {
    CHECK(lastuse_graph_dump_begin(graph), "%s", lastuse_last_error());
}

static void count(struct ggml_tensor * layer, void * user) {
    (void) layer;
    *(size_t *) user += 1;
}

static void write_dump(struct ggml_cgraph * graph) {
    size_t n_written = 0;
    CHECK(lastuse_graph_dump(graph, &n_written), "%s", lastuse_last_error());
    size_t n_layers = 0;
    for_each_layer(graph, count, &n_layers);
    CHECK(n_layers > 0 && n_written == n_layers, "%zu of %zu layers are written", n_written, n_layers);
}

// dedicate: values are produced in memory of the program, and survive later graphs

static void add_size(struct ggml_tensor * layer, void * user) {
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    *(size_t *) user += ggml_backend_buft_get_alloc_size(type, layer) + ggml_backend_buft_get_alignment(type);
}

struct dedicating {
    struct ggml_context * ctx;
    struct ggml_tallocr   talloc;
};

static void dedicate_layer(struct ggml_tensor * layer, void * user) {
    struct dedicating *  into     = user;
    struct ggml_tensor * produced = lastuse_tensor_dedicate(into->ctx, layer, &into->talloc);
    CHECK(produced == layer, "%s is not produced there: %s", layer->name, produced ? "copied" : lastuse_last_error());
}

static void dedicate(struct computed_graph * g) {
    size_t size = 0;
    for_each_layer(g->graph, add_size, &size);
    g->own = ggml_backend_alloc_buffer(g->backend, size);
    CHECK(g->own != NULL, "no %zu bytes for the results of layers", size);
    struct dedicating into = { .ctx = g->ctx, .talloc = ggml_tallocr_new(g->own) };
    for_each_layer(g->graph, dedicate_layer, &into);
}

static size_t dedicated_size(const struct computed_graph * g) {
    return ggml_backend_buffer_get_size(g->own);
}

static void free_dedicated(struct computed_graph * g) {
    ggml_backend_buffer_free(g->own);
}

// order: less is live at the peak

static void order(struct ggml_context * ctx, struct ggml_cgraph * graph) {
    (void) ctx;
    is_reordered(graph, ggml_backend_cpu_buffer_type(), 0, NULL);
}

// steps: the program may read what later ones need

#define STEPS 8

static void cut_into_steps(struct computed_graph * g) {
    struct lastuse_steps_params params = {
        .struct_size = sizeof(params), .n_steps = STEPS, .backend = g->backend,
    };
    g->own = lastuse_steps_new(g->graph, &params);
    CHECK(g->own != NULL, "%s", lastuse_last_error());
}

static void compute_steps(struct computed_graph * g) {
    CHECK(lastuse_steps_compute(g->own) == GGML_STATUS_SUCCESS, "%s", lastuse_last_error());
}

static void free_steps(struct computed_graph * g) {
    lastuse_steps_free(g->own);
}

// recompute: forward results are computed again in the backward pass, so that the graph fits a budget

#define BUDGET_PERCENT 60

static bool has_backward_pass(struct ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->flags & GGML_TENSOR_FLAG_LOSS) {
            return ggml_graph_get_grad_acc(graph, node) != NULL;
        }
    }
    return false;
}

static void recompute(struct ggml_context * ctx, struct ggml_cgraph * graph) {
    if (!has_backward_pass(graph)) {
        return; // an evaluation, in which no result is kept for long
    }
    struct ggml_backend_buffer_type * type = ggml_backend_cpu_buffer_type();
    size_t                            size = 0;
    CHECK(lastuse_graph_measure(&graph, 1, &type, 1, NULL, NULL, &size, NULL), "%s", lastuse_last_error());
    struct lastuse_recompute_params params = {
        .struct_size = sizeof(params), .budget = size / 100 * BUDGET_PERCENT, .buft = type,
    };
    CHECK(lastuse_graph_recompute(ctx, graph, &params, NULL), "%s", lastuse_last_error());
}

// combined: fewer values are kept, and the rest runs in a better order

static void recompute_and_order(struct ggml_context * ctx, struct ggml_cgraph * graph) {
    recompute(ctx, graph);
    order(ctx, graph);
}

static const struct method METHODS[] = {
    { .name = "plain" },
    { .name = "outputs", .keeps_layers = true, .change = set_outputs },
    { .name = "retain", .needs_lastuse = true, .keeps_layers = true, .start = retain },
    { .name = "everything", .needs_lastuse = true, .keeps_layers = true, .start = retain_everything },
    {
        .name          = "dump",
        .needs_lastuse = true,
        .keeps_layers  = true,
        .start         = dump,
        .before        = before_dump,
        .after         = write_dump,
    },
    {
        .name          = "dedicate",
        .needs_lastuse = true,
        .keeps_layers  = true,
        .prepare       = dedicate,
        .free          = free_dedicated,
        .memory        = dedicated_size,
    },
    {
        .name          = "steps",
        .needs_lastuse = true,
        .prepare       = cut_into_steps,
        .compute       = compute_steps,
        .free          = free_steps,
    },
    { .name = "order", .needs_lastuse = true, .change = order },
    { .name = "recompute", .needs_lastuse = true, .change = recompute },
    { .name = "combined", .needs_lastuse = true, .change = recompute_and_order },
};

const struct method * method_find(const char * name) {
    for (size_t i = 0; i < sizeof(METHODS) / sizeof(METHODS[0]); i++) {
        if (strcmp(METHODS[i].name, name) == 0) {
            bool is_there = !METHODS[i].needs_lastuse || lastuse_is_allocating();
            CHECK(is_there, "%s is a method of lastuse, which is not linked", name);
            return &METHODS[i];
        }
    }
    return NULL;
}

bool method_needs_loop(const struct method * method) {
    return method->prepare != NULL;
}

void method_print_names(FILE * out) {
    for (size_t i = 0; i < sizeof(METHODS) / sizeof(METHODS[0]); i++) {
        fprintf(out, "%s%s", i > 0 ? ", " : "", METHODS[i].name);
    }
}
