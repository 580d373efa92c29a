// Graphs of tensors with lifetimes of their own, which are hard to place: only a search finds out how little memory
// they need.
#pragma once

#include "transformer.h"

// Each node makes a tensor of another size, and one of the next nodes reads it, as the seed has it. What would be read
// after the end of the graph is an output. A node computes its values from all bytes that it reads.
struct built graph_of_lifetimes(uint64_t seed);

// Of this one no quick way of placing comes near to the lower bound, which can be met.
struct built hard_graph(void);
