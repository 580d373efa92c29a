// The ways to train with less memory, or to look at more. A method is a set of functions, any of which may be NULL.
#pragma once

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

#include <stdio.h>

// A graph that is computed many times.
struct computed_graph {
    struct ggml_context * ctx; // with room for more tensors
    struct ggml_cgraph *  graph;
    ggml_backend_t        backend;
    ggml_gallocr_t        galloc; // shared by all graphs of a run
    void *                own; // of the method
};

struct method {
    const char * name;
    bool         needs_lastuse;
    bool         keeps_layers; // the results of layers can be read after a graph was computed

    // Once, before there is any graph. Files of the method go to `folder`.
    void (*start)(const char * folder);

    // Changes a graph before it has memory. New tensors go to `ctx`.
    void (*change)(struct ggml_context * ctx, struct ggml_cgraph * graph);

    // Before and after each time that a graph is computed.
    void (*before)(struct ggml_cgraph * graph);
    void (*after)(struct ggml_cgraph * graph);

    // The rest belongs to the loop alone, since ggml_opt does not show its allocator.

    // Before a graph gets memory.
    void (*prepare)(struct computed_graph * g);

    // Computes a graph, in place of the backend, and frees the method's additions.
    void (*compute)(struct computed_graph * g);
    void (*free)(struct computed_graph * g);

    // Bytes that the method holds for a graph besides the allocator's.
    size_t (*memory)(const struct computed_graph * g);
};

// Calls `f` for the result of each layer.
void for_each_layer(struct ggml_cgraph * graph, void (*f)(struct ggml_tensor * layer, void * user), void * user);

// Returns the method of a name, or NULL. Ends the program when the method needs lastuse and the program has none.
const struct method * method_find(const char * name);

// Whether it needs an allocator, or computes graphs itself.
bool method_needs_loop(const struct method * method);

// Writes the names of all methods.
void method_print_names(FILE * out);
