// A real scheduler on backends that compute nothing and answer as a test wants, for callers in other languages:
// everything is a function. The graph that the scheduler would have allocated is kept instead: this library defines
// `ggml_gallocr_reserve_n`, and must be loaded before the base library of ggml, which calls it.

#ifndef FAKE_BACKENDS_H
#define FAKE_BACKENDS_H

#include "ggml-backend.h"
#include "ggml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Tables are flat: the entries of the first backend, then those of the next.
struct fake_setup {
    int             n_types;
    int             n_backends; // the last is the CPU
    int             n_tensors;
    const size_t *  alignments;     // by buffer type
    const uint8_t * is_host;        // by buffer type
    const uint8_t * pads_rows;      // by buffer type: see dummy_row_padding()
    const int *     backend_types;  // by backend
    const uint8_t * supports_types; // by backend, then by buffer type
    const uint8_t * supports_ops;   // by backend, then by tensor
    const uint8_t * offloads_ops;   // by backend, then by tensor
    bool            op_offload;
    bool            parallel;
    int             current_copy;
    bool            optimizes; // each backend changes the order of the nodes of its splits, and keeps some tensors longer
};

struct fake_backends;

// The scheduler. `tensors` are all of the graph; `setup` is copied, its tables are not.
struct fake_backends * fake_backends_new(const struct fake_setup * setup, struct ggml_tensor ** tensors);
void                   fake_backends_free(struct fake_backends * fake);

// Puts a tensor into a buffer without memory; a view is in the buffer of its root.
void fake_backends_place(struct fake_backends * fake, struct ggml_tensor * tensor, int type, bool is_weight);

// ggml_backend_sched_set_tensor_backend.
void fake_backends_assign(struct fake_backends * fake, struct ggml_tensor * tensor, int backend);

// Schedules the graph once. False when the scheduler did not get as far as to allocate it.
bool fake_backends_schedule(struct fake_backends * fake, struct ggml_cgraph * graph);

// The decisions of the scheduler. -1 for a tensor without backend. Valid until the scheduler is freed.
int                        fake_backends_backend(struct fake_backends * fake, struct ggml_tensor * tensor);
int                        fake_backends_splits(struct fake_backends * fake);
int                        fake_backends_copies(struct fake_backends * fake);
struct ggml_cgraph *       fake_backends_graph(struct fake_backends * fake);
const int *                fake_backends_node_ids(struct fake_backends * fake);
const int *                fake_backends_leaf_ids(struct fake_backends * fake);
ggml_backend_buffer_type_t fake_backends_type(struct fake_backends * fake, int backend);

#endif
