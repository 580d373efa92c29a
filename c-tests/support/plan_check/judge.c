#include "judge.h"

#include <stdarg.h>
#include <stdlib.h>

#include "check.h"

bool judge_fails(struct judge * j, const char * format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(j->reason, sizeof(j->reason), format, args);
    va_end(args);
    return false;
}

static void add_owned(struct judge * j, struct range range, const struct ggml_tensor * owner) {
    if (range.start >= range.end) {
        return;
    }
    if (j->n_owned == j->capacity) {
        j->capacity = j->capacity * 2 + 64;
        j->owned    = realloc(j->owned, (size_t) j->capacity * sizeof(*j->owned));
        CHECK(j->owned != NULL, "out of memory");
    }
    j->owned[j->n_owned++] = (struct owned_range){ .range = range, .owner = owner };
}

void take(struct judge * j, struct range range, const struct ggml_tensor * owner) {
    for (int i = 0; i < j->n_owned; i++) {
        struct owned_range old = j->owned[i];
        if (!overlaps(old.range, range)) {
            continue;
        }
        struct range before = { old.range.buffer, old.range.start, range.start };
        struct range behind = { old.range.buffer, range.end, old.range.end };
        j->owned[i--]       = j->owned[--j->n_owned];
        add_owned(j, before, old.owner);
        add_owned(j, behind, old.owner);
    }
    add_owned(j, range, owner);
}

static uintptr_t least(uintptr_t a, uintptr_t b) {
    return a < b ? a : b;
}

static uintptr_t largest(uintptr_t a, uintptr_t b) {
    return a > b ? a : b;
}

bool owns(const struct judge * j, const struct ggml_tensor * owner, struct range range) {
    uintptr_t bytes = 0;
    for (int i = 0; i < j->n_owned; i++) {
        struct range r = j->owned[i].range;
        if (j->owned[i].owner == owner && overlaps(r, range)) {
            bytes += least(r.end, range.end) - largest(r.start, range.start);
        }
    }
    return bytes == range.end - range.start;
}

bool owns_anything(const struct judge * j, const struct ggml_tensor * owner) {
    for (int i = 0; i < j->n_owned; i++) {
        if (j->owned[i].owner == owner) {
            return true;
        }
    }
    return false;
}

const char * other_owner(const struct judge * j, const struct ggml_tensor * owner, struct range range) {
    for (int i = 0; i < j->n_owned; i++) {
        if (j->owned[i].owner != owner && overlaps(j->owned[i].range, range)) {
            return j->owned[i].owner->name;
        }
    }
    return "nobody";
}
