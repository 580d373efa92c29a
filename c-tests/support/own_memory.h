// Random graphs computed with every tensor in its own memory: the reference for every plan, to the last bit.
#pragma once

#include "ggml-backend.h"
#include "random_graph.h"

// Sets the inputs and weights, and runs the graph in its memory.
void compute_graph(ggml_backend_t cpu, const struct random_graph * g);

// Places every tensor of the graph by itself and runs the graph. Nothing of lastuse is used here: a fault on both
// sides would stay hidden. Returns the memory, for ggml_backend_buffer_free().
ggml_backend_buffer_t compute_in_own_memory(ggml_backend_t cpu, const struct random_graph * g);

// Compares the bytes of two lists, tensor by tensor. Tensors of `truth` without memory never entered the graph.
void check_same_lists(struct tensor_list list, struct tensor_list truth, uint64_t seed);
