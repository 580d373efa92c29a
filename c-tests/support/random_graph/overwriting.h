// Nodes that write to memory of other tensors explicitly.
#pragma once

#include "builder.h"

bool is_in_graph(struct builder * b, const struct ggml_tensor * tensor);

// A node that reads its own destination races with itself. Sources of `other` count as well: the CPU backend fuses a
// normalization and the product after it.
bool may_overwrite(struct ggml_tensor * target, struct ggml_tensor * other);

// Takes in a node that overwrites its view_src. All that reads the old values enters the graph before
// it, so that the order of reading and writing is the same however the rest is expanded.
struct ggml_tensor * add_overwriting(struct builder * b, struct ggml_tensor * node, float bound);

// For functions of ggml that give a new tensor in one version and a view in another.
struct ggml_tensor * add_result(struct builder * b, struct ggml_tensor * node, float bound);
