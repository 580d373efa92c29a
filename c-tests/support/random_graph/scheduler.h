// The changes of the backend scheduler to its copy of a graph.
#pragma once

#include "builder.h"

void insert_markers(struct builder * b);

// Where a part of the graph for another backend starts, the scheduler inserts a marker for each tensor
// that the part reads from outside, and the copy of that tensor which the part reads in its place.
void insert_split_copies(struct builder * b);

// No more than a fifth of all tensors: upstream's hash table has no place for many that are not listed.
void unlist_leafs(struct builder * b);
