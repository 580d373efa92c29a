// How graphs are planned, and what is written to files. Explained in docs/settings.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_set(struct ggml_context * ctx, ggml_backend_t backend) {
    // Each call returns false if lastuse is not enabled, and then has no effect.
    bool is_set = lastuse_set("rules", "default,no-unread-inputs"); // inputs keep their bytes while graphs run
    GGML_ASSERT(is_set == lastuse_enabled());
    lastuse_set("rules", "ggml,gpu:default"); // ggml's rules on a CPU, all correct sharing elsewhere
    lastuse_set("rules", "keep-inputs");      // schedulers too keep inputs that ggml-alloc leaves intact
    lastuse_set("effort", "100000000");       // about a third of a second where a plan is not at its lower bound
    lastuse_set("verify", "plan");            // graphs are verified when they are allocated
    lastuse_set("retain", "hidden-*");        // in existing allocators too
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // created with all of these
    lastuse_set("rules", NULL); // the default, for later allocators
    lastuse_set("effort", NULL);
    lastuse_set("verify", NULL);
    lastuse_set("retain", NULL);
    ggml_gallocr_free(galloc);

    GGML_ASSERT(!lastuse_set("capture", "graph.jsonl")); // a file name needs "%s": one file cannot hold all graphs
    GGML_ASSERT(!lastuse_set("dump", "hidden-*,,"));     // a pattern is empty
    GGML_ASSERT(!lastuse_set("accounting", "/no/such/folder/memory.json"));
    printf("nothing is written: %s\n", lastuse_last_error());
}

void example_of_lastuse_gallocr_set(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    lastuse_gallocr_set(galloc, "rules", "ggml");       // share only what ggml's own allocator shares
    lastuse_gallocr_set(galloc, "effort", "100000000"); // about a third of a second where a plan is not at its lower bound
    GGML_ASSERT(!lastuse_gallocr_set(galloc, "retain", "*")); // a setting of the process
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_gallocr_trim(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
    struct ggml_tensor * prompt = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 512, 2048);
    struct ggml_tensor * token = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 512, 1);
    struct ggml_cgraph * graphs[2] = { ggml_new_graph(ctx), ggml_new_graph(ctx) };
    ggml_build_forward_expand(graphs[0], ggml_sum(ctx, ggml_sqr(ctx, prompt)));
    ggml_build_forward_expand(graphs[1], ggml_sum(ctx, ggml_sqr(ctx, token)));

    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graphs[0])); // ... and computed: its pages are in memory
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graphs[1]));
    lastuse_gallocr_trim(galloc); // what only the prompt needs is given back; it may come again
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graphs[0]));
    ggml_gallocr_free(galloc);
}

static size_t most_at_once;

static struct ggml_backend_buffer * allocate_noted(struct ggml_backend_buffer_type * buft, size_t size) {
    most_at_once = size > most_at_once ? size : most_at_once; // or from a pool of the program
    return ggml_backend_buft_alloc_buffer(buft, size);
}

void example_of_lastuse_buffer_allocate_by(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sqr(ctx, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 512, 512)));

    lastuse_buffer_allocate_by(allocate_noted);
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
    GGML_ASSERT(!lastuse_enabled() || most_at_once == ggml_gallocr_get_buffer_size(galloc, 0));
    lastuse_buffer_allocate_by(NULL); // later ones are ggml's again
    ggml_gallocr_free(galloc);
}
