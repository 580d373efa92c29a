// Completes a graph: which values enter it, and which are outputs.
#pragma once

#include "builder.h"

// Nodes that read the tensor. A cast names itself as a source and is not a reader of itself.
int count_readers(const struct ggml_cgraph * graph, const struct ggml_tensor * tensor);

bool is_cast(const struct ggml_tensor * tensor);
void collect_outputs(struct random_graph * g);
void complete(struct builder * b);
