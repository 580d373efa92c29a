// A backend that computes nothing before it is synchronized: what a device may do that works while the program goes on. What uses
// its memory without waiting finds the values of before, deterministically.
#pragma once

#include "ggml-backend-impl.h"
#include "ggml-backend.h"

enum { MOST_LATE = 64 };

// A graph to compute, or a tensor to read, at the time when it was asked for.
struct late_step {
    struct ggml_tensor ** nodes;
    int                   n_nodes;
    struct ggml_tensor    tensor;
    void *                data;
    size_t                offset, size;
};

struct late_backend {
    struct ggml_backend backend; // first: ggml's functions get its address
    ggml_backend_t      cpu;
    struct late_step    steps[MOST_LATE];
    int                 n_steps;
};

// `late` computes on `cpu` as the device that is given, and must not be moved. It owns nothing.
void late_backend_init(struct late_backend * late, ggml_backend_t cpu, ggml_backend_dev_t device);
