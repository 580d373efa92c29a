// Random graphs computed with every tensor in memory of its own: what every plan must compute too, to the last bit.
#pragma once

#include "ggml-backend.h"
#include "random_graph.h"

// Sets the inputs and weights, and runs the graph where it lies.
void compute_graph(ggml_backend_t cpu, const struct random_graph * g);

// Places every tensor of the graph by itself and runs the graph. Nothing of lastuse is used here: a fault in both would
// show on neither side. Returns the memory, for ggml_backend_buffer_free().
ggml_backend_buffer_t compute_in_own_memory(ggml_backend_t cpu, const struct random_graph * g);

// Every tensor of the one list holds the same bytes as that of the other. Tensors of `truth` without memory were made,
// and never entered the graph.
void check_same_lists(struct tensor_list list, struct tensor_list truth, uint64_t seed);
