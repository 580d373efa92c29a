// Given to the compiler with -include when it compiles upstream's ggml-alloc.c, so that upstream's allocator and lastuse
// can live in one process, and lastuse does not find it.
#pragma once

#define LASTUSE_ORIGINAL_NAME(name) upstream_##name
#include "../../packaging/cmake/original-names.h"
