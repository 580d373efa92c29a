// How graphs are planned, and which are written to files. Explained in docs/planning.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_set_rules(struct ggml_context * ctx, ggml_backend_t backend) {
    GGML_ASSERT(lastuse_set_rules("default,no-unread-inputs")); // inputs keep their bytes while graphs run
    GGML_ASSERT(lastuse_set_rules("ggml,gpu:default")); // ggml's rules on a CPU, all correct sharing elsewhere
    GGML_ASSERT(lastuse_set_rules("keep-inputs")); // schedulers too keep inputs that ggml-alloc leaves intact
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // created with that rule
    GGML_ASSERT(lastuse_set_rules("default")); // for later allocators
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_gallocr_set_rules(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    GGML_ASSERT(lastuse_gallocr_set_rules(galloc, "ggml")); // share only what ggml's own allocator shares
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_set_effort(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_set_effort(100000000); // about a third of a second where a plan is not at its lower bound
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend)); // created with that effort
    lastuse_set_effort(0); // for later allocators
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_gallocr_set_effort(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    lastuse_gallocr_set_effort(galloc, 100000000); // about a third of a second where a plan is not at its lower bound
    ggml_gallocr_free(galloc);
}

void example_of_lastuse_set_capture(struct ggml_context * ctx, ggml_backend_t backend) {
    GGML_ASSERT(!lastuse_set_capture("graph.jsonl")); // a file name needs "%s": one file cannot hold all graphs
    printf("no captures: %s\n", lastuse_last_error());
    GGML_ASSERT(lastuse_set_capture(NULL) == lastuse_enabled()); // none are written
}
