// Small graphs in which one rule of sharing decides how much memory is needed. Wide tensors count; what comes before
// and behind them is narrow.
#pragma once

#include "transformer.h"

#define PICKED_ROWS 8

typedef struct built (*graph_maker)(void);

struct built graph_in_place(void);
struct built graph_through_a_view(void);
struct built graph_with_norm(void);
struct built graph_with_l2_norm(void);
struct built graph_with_group_norm(void);
struct built graph_with_sums(void);
struct built graph_with_sine(void);
struct built graph_with_gate_in_first(void);
struct built graph_with_gate_in_second(void);
struct built graph_with_copy(void);
struct built graph_with_concat(void);
struct built graph_with_unread_input(void);
struct built graph_with_alternative(void);

// The last node is the sum of two products of equal layout. Both end there.
struct sources_of_sum {
    bool younger_first; // the product that was computed last is the first source
    bool squared;       // in place, just before the sum: the younger one
};

struct built graph_with_sum(struct sources_of_sum sources);

// A CONCAT of `first` and `second` rows, followed by a product.
struct built         graph_with_concat_of(int first, int second);
struct ggml_tensor * concat_of(struct built built);

// The last node adds rows of a copy of an input, picked by numbers, to a weight.
struct built graph_with_add_id(void);

// The last node is a gradient whose two sources end there.
struct built graph_with_rms_norm_back(void);
struct built graph_with_soft_max_back(void);
