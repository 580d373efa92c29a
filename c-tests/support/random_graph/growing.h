// Growing: random constructions, one after the other.
#pragma once

#include "builder.h"

void grow(struct builder * b);
