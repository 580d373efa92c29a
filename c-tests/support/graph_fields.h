// The fields of a graph, which ggml keeps to itself; the functions of its header are not all needed.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "ggml-impl.h"
#pragma GCC diagnostic pop

#define FLAG_COMPUTE 16 // GGML_TENSOR_FLAG_COMPUTE, which old versions do not have
