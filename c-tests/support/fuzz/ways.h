// The ways to test a random graph, and their random settings.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ggml-backend.h"
#include "random_graph.h"
#include "random_graph/random.h"
#include "side_by_side.h"

void fuzz_planned(uint64_t seed, uint64_t * random);
void fuzz_replanned(uint64_t seed, uint64_t * random);
void fuzz_computed(ggml_backend_t cpu, uint64_t seed, uint64_t * random);
void fuzz_repeated(ggml_backend_t cpu, uint64_t seed, uint64_t * random);

// Usually a few nodes, sometimes a hundred: small graphs find faults sooner, and are easier to read.
struct random_graph_options draw_options(uint64_t * random);

// Nodes that a scheduler adds to a graph that is planned, and never computed.
void draw_scheduler_parts(uint64_t * random, struct random_graph_options * options);

// 1 buffer, or several; one id may repeat the buffer type of another.
int draw_n_buffers(uint64_t * random);

// The largest buffer: 0 for no limit, or small enough to need several chunks.
size_t draw_max_size(uint64_t * random);

// Some of the sharing rules, by name.
void set_some_rules(ggml_gallocr_t galloc, uint64_t * random);

// Makes the buffer types those of the CPU device: lastuse shares more memory there.
void put_on_cpu(struct bench * bench);
