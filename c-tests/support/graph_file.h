// Writes a graph to a file of the format "lastuse-graph", version 1: the parts that an allocator reads. A header
// without a .c file, so that programs that use it consist of one file.
//
// Leafs, nodes and their sources are written. Every tensor counts as one of the one buffer type given.

#ifndef LASTUSE_GRAPH_FILE_H
#define LASTUSE_GRAPH_FILE_H

#include "ggml.h"
#include "ggml-backend.h"
#include "ggml-impl.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// The tensors of a graph, in the order of their ids; found again by address in a table with open addressing.
struct graph_file_ids {
    const struct ggml_tensor ** tensors;
    int                         count;
    int *                       table; // id + 1, or 0
    size_t                      table_size;
};

static inline size_t graph_file_slot(const struct graph_file_ids * ids, const struct ggml_tensor * tensor) {
    size_t slot = ((uintptr_t) tensor / 16 * UINT64_C(0x9E3779B97F4A7C15)) % ids->table_size;
    while (ids->table[slot] != 0 && ids->tensors[ids->table[slot] - 1] != tensor) {
        slot = (slot + 1) % ids->table_size;
    }
    return slot;
}

// Assigns the next id to a tensor without one.
static inline void graph_file_add(struct graph_file_ids * ids, const struct ggml_tensor * tensor) {
    const size_t slot = graph_file_slot(ids, tensor);
    if (ids->table[slot] == 0) {
        ids->tensors[ids->count] = tensor;
        ids->table[slot] = ++ids->count;
    }
}

// -1 for a tensor that is not written.
static inline int graph_file_id(const struct graph_file_ids * ids, const struct ggml_tensor * tensor) {
    return ids->table[graph_file_slot(ids, tensor)] - 1;
}

static inline void graph_file_add_referred(struct graph_file_ids * ids, const struct ggml_tensor * tensor) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (tensor->src[i] != NULL) {
            graph_file_add(ids, tensor->src[i]);
            if (tensor->src[i]->view_src != NULL) {
                graph_file_add(ids, tensor->src[i]->view_src);
            }
        }
    }
    if (tensor->view_src != NULL) {
        graph_file_add(ids, tensor->view_src);
    }
}

// Leafs, nodes, then the rest. Returns false when there is not enough memory.
static inline bool graph_file_collect(struct graph_file_ids * ids, const struct ggml_cgraph * graph) {
    const size_t listed = (size_t) graph->n_leafs + (size_t) graph->n_nodes;
    const size_t most   = listed * (2 * GGML_MAX_SRC + 2) + 1; // with all sources, and the roots of all views
    *ids = (struct graph_file_ids) { .table_size = 2 * most + 1 };
    ids->tensors = (const struct ggml_tensor **) calloc(most, sizeof(*ids->tensors));
    ids->table   = (int *) calloc(ids->table_size, sizeof(*ids->table));
    if (ids->tensors == NULL || ids->table == NULL) {
        return false;
    }
    for (int i = 0; i < graph->n_leafs; i++) {
        graph_file_add(ids, graph->leafs[i]);
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        graph_file_add(ids, graph->nodes[i]);
    }
    for (int i = 0; i < (int) listed; i++) {
        graph_file_add_referred(ids, i < graph->n_leafs ? graph->leafs[i] : graph->nodes[i - graph->n_leafs]);
    }
    return true;
}

// A JSON string; names are UTF-8.
static inline void graph_file_string(FILE * file, const char * text) {
    fputc('"', file);
    for (const unsigned char * c = (const unsigned char *) text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(file, "\\%c", *c);
        } else if (*c < 0x20) {
            fprintf(file, "\\u%04x", *c);
        } else {
            fputc(*c, file);
        }
    }
    fputc('"', file);
}

static inline void graph_file_member(FILE * file, const char * key, const char * text) {
    fprintf(file, ",\"%s\":", key);
    graph_file_string(file, text);
}

// A size of 0 for ggml's own allocator means that it is unknown.
static inline void graph_file_header(FILE * file, const struct ggml_cgraph * graph, const char * label,
        ggml_backend_buffer_type_t buft, size_t ggml_alloc_size) {
    fprintf(file, "{\"format\":\"lastuse-graph\",\"version\":1");
    graph_file_member(file, "label", label);
    fprintf(file, ",\"n_leafs\":%d,\"n_nodes\":%d,\"buffers\":[{\"name\":", graph->n_leafs, graph->n_nodes);
    graph_file_string(file, ggml_backend_buft_name(buft));
    fprintf(file, ",\"alignment\":%zu,\"max_size\":", ggml_backend_buft_get_alignment(buft));
    const size_t max_size = ggml_backend_buft_get_max_size(buft);
    if (max_size == SIZE_MAX) {
        fprintf(file, "null");
    } else {
        fprintf(file, "%zu", max_size);
    }
    if (ggml_alloc_size > 0) {
        fprintf(file, ",\"ggml_alloc_size\":%zu", ggml_alloc_size);
    }
    fprintf(file, "}]}\n");
}

static inline void graph_file_layout(FILE * file, const struct ggml_tensor * tensor, ggml_backend_buffer_type_t buft) {
    fprintf(file, ",\"ne\":[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]",
            tensor->ne[0], tensor->ne[1], tensor->ne[2], tensor->ne[3]);
    fprintf(file, ",\"nb\":[%zu,%zu,%zu,%zu]", tensor->nb[0], tensor->nb[1], tensor->nb[2], tensor->nb[3]);
    fprintf(file, ",\"nbytes\":%zu,\"size\":%zu,\"buffer\":0",
            ggml_nbytes(tensor), ggml_backend_buft_get_alloc_size(buft, tensor));
}

static inline const char * graph_file_truth(bool value) {
    return value ? "true" : "false";
}

static inline void graph_file_tensor(FILE * file, const struct graph_file_ids * ids, int id, const char * kind,
        ggml_backend_buffer_type_t buft) {
    const struct ggml_tensor * tensor = ids->tensors[id];
    fprintf(file, "{\"id\":%d", id);
    graph_file_member(file, "kind", kind);
    graph_file_member(file, "op",   ggml_op_name(tensor->op));
    graph_file_member(file, "desc", ggml_op_desc(tensor));
    graph_file_member(file, "name", tensor->name);
    graph_file_member(file, "type", ggml_type_name(tensor->type));
    graph_file_layout(file, tensor, buft);
    fprintf(file, ",\"flags\":%d,\"inplace\":%s,\"external\":%s", tensor->flags,
            graph_file_truth(ggml_op_can_inplace(tensor->op)),
            graph_file_truth(tensor->data != NULL || tensor->buffer != NULL));
    if (tensor->view_src != NULL) {
        fprintf(file, ",\"view_of\":%d,\"view_offset\":%zu",
                graph_file_id(ids, tensor->view_src), tensor->view_offs);
    }
    fprintf(file, ",\"src\":[");
    const char * separator = "";
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        // A tensor that is only referred to may be the result of another graph, whose sources are not written.
        if (tensor->src[i] != NULL && graph_file_id(ids, tensor->src[i]) >= 0) {
            fprintf(file, "%s%d", separator, graph_file_id(ids, tensor->src[i]));
            separator = ",";
        }
    }
    fprintf(file, "]}\n");
}

// Writes `graph`, as it is before an allocator gives it memory. `ggml_alloc_size` is what ggml's own allocator needs
// for it in `buft`, or 0. Returns false when the file cannot be written.
static inline bool write_graph_file(const char * path, const struct ggml_cgraph * graph, const char * label,
        ggml_backend_buffer_type_t buft, size_t ggml_alloc_size) {
    struct graph_file_ids ids;
    FILE * file = fopen(path, "w");
    bool done = graph_file_collect(&ids, graph) && file != NULL;
    if (done) {
        graph_file_header(file, graph, label, buft, ggml_alloc_size);
        for (int id = 0; id < ids.count; id++) {
            const bool leaf = id < graph->n_leafs;
            const bool node = id < graph->n_leafs + graph->n_nodes;
            graph_file_tensor(file, &ids, id, leaf ? "leaf" : node ? "node" : "extra", buft);
        }
        done = ferror(file) == 0;
    }
    if (file != NULL && fclose(file) != 0) {
        done = false;
    }
    free(ids.tensors);
    free(ids.table);
    return done;
}

#endif
