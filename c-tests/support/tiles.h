// Operations computed by the real kernels of the CPU in tiles along one dimension of the result, compared bit by bit
// with the whole operation.
//
// A tiling states which tiles keep the bits. Tiling of graphs relies on it: docs/internals/tiling-kernels.md.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "in_place.h"

// Elements [first, first + count) of one dimension of the result of an operation.
struct tile {
    struct ggml_context *      ctx;
    const struct ggml_tensor * whole;
    struct ggml_tensor *       node; // its sources and parameters are those of the whole, until `take` changes them
    int                        dim;
    int64_t                    first;
    int64_t                    count;
    bool                       copies; // sources are contiguous copies of their slices instead of views
    unsigned                   strided; // sources that may be views that are not contiguous, as a set
};

struct tiled {
    const char * name;
    // Makes the whole operation. Its sources are tensors without operation, or views of such.
    struct ggml_tensor * (*build)(struct form form);
    int      variants; // 0: only one
    uint64_t types;
    unsigned layouts;  // 0: only contiguous
    int      dim;      // of the result
    const int64_t (*shapes)[GGML_MAX_DIMS];
    int      n_shapes;
    // Sets the sources and parameters of a tile.
    void (*take)(struct tile * tile);
    // Whether the tile has the bits of the whole, by the rule; NULL: each tile has.
    bool (*keeps)(const struct tile * tile);
    unsigned strided_sources; // may be views that are not contiguous, as a set
    bool     strided_result;  // the result may be a view that is not contiguous
    int      since;           // the first version that has these kernels; 0: all
    int      before;          // the first version for which it no longer holds; 0: none
    bool     positive;        // no negative values
    // Outside of the rule, and in views that are not allowed, other bits are found; except:
    bool     only_by_reading;     // outside of the rule, which comes from the sources of ggml
    int      needed_since;        // outside of the rule before this version
    bool     views_by_reading;    // in views, whose rule comes from the sources of ggml
    int      views_needed_before; // in views from this version on; 0: none
};

struct tilings {
    const char *       name;
    const struct tiled * items;
    int                count;
};

#define CUTS(name, items) { name, items, (int) (sizeof(items) / sizeof((items)[0])) }

// What `keeps` and the flags of a tiling allow gives equal bits.
extern const struct tilings MATRIX_CUTS;
extern const struct tilings ROW_CUTS;
extern const struct tilings ATTENTION_CUTS;
extern const struct tilings ELEMENT_CUTS;
extern const struct tilings IMAGE_CUTS;
extern const struct tilings MOVING_CUTS;

// Makes source `i` of the tile elements [first, first + count) along `dim` of that of the whole.
void tile_slice(struct tile * tile, int i, int dim, int64_t first, int64_t count);
// The slice of source `i` that belongs to the tile when result and source have equal numbers of elements along `dim`
// or the source is broadcast by repeating each element, or all of them if it has one.
void tile_slice_along(struct tile * tile, int i, int dim);

// A tiling with a whole operation, ready to be computed.
struct division {
    const struct tiled *    tiled;
    struct form           form;
    ggml_backend_t        backend;
    ggml_backend_buffer_t arena;
    struct ggml_tensor *  whole;
    int                   n_threads;
    char *                truth;   // the bytes of the whole result
    char *                sources; // the bytes of all that was made with the whole
    size_t                source_bytes;
};

// Where tiles are computed.
enum storage {
    VIEWS,  // in views of one result, from views of the sources, where the tiling allows it
    COPIES, // in their own tensors, from copies of the slices
    FORCED, // in views, whatever the tiling allows
};

struct division division_new(const struct tiled * tiled, struct form form, ggml_backend_t backend,
                             ggml_backend_buffer_t arena, int n_threads);
// Whether the rule holds for all tiles of `count` elements.
bool division_keeps(const struct division * division, int64_t count);
// Whether the tiles of `count` elements have the bits of the whole.
bool division_same_bits(const struct division * division, int64_t count, enum storage storage);
void division_free(struct division * division);
