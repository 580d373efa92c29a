// Graphs with irregular live ranges, which are hard to place: only a search finds the smallest plan.
#pragma once

#include "transformer.h"

// Each node makes a tensor of another size, and one of the next nodes, drawn from the seed, reads it. What would be
// read after the end of the graph is an output. A node computes its values from all bytes that it reads.
struct built graph_of_lifetimes(uint64_t seed);

// A graph whose lower bound can be reached, though no quick strategy comes near to it.
struct built hard_graph(void);
