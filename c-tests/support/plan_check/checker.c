#include "checker.h"

#include <stdarg.h>
#include <stdlib.h>

#include "check.h"

bool check_fails(struct checker * c, const char * format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->reason, sizeof(c->reason), format, args);
    va_end(args);
    return false;
}

static void add_owned(struct checker * c, struct range range, const struct ggml_tensor * owner) {
    if (range.start >= range.end) {
        return;
    }
    if (c->n_owned == c->capacity) {
        c->capacity = c->capacity * 2 + 64;
        c->owned    = realloc(c->owned, (size_t) c->capacity * sizeof(*c->owned));
        CHECK(c->owned != NULL, "out of memory");
    }
    c->owned[c->n_owned++] = (struct owned_range){ .range = range, .owner = owner };
}

void take(struct checker * c, struct range range, const struct ggml_tensor * owner) {
    for (int i = 0; i < c->n_owned; i++) {
        struct owned_range old = c->owned[i];
        if (!overlaps(old.range, range)) {
            continue;
        }
        struct range before = { old.range.buffer, old.range.start, range.start };
        struct range behind = { old.range.buffer, range.end, old.range.end };
        c->owned[i--]       = c->owned[--c->n_owned];
        add_owned(c, before, old.owner);
        add_owned(c, behind, old.owner);
    }
    add_owned(c, range, owner);
}

static uintptr_t least(uintptr_t a, uintptr_t b) {
    return a < b ? a : b;
}

static uintptr_t largest(uintptr_t a, uintptr_t b) {
    return a > b ? a : b;
}

bool owns(const struct checker * c, const struct ggml_tensor * owner, struct range range) {
    uintptr_t bytes = 0;
    for (int i = 0; i < c->n_owned; i++) {
        struct range r = c->owned[i].range;
        if (c->owned[i].owner == owner && overlaps(r, range)) {
            bytes += least(r.end, range.end) - largest(r.start, range.start);
        }
    }
    return bytes == range.end - range.start;
}

bool owns_anything(const struct checker * c, const struct ggml_tensor * owner) {
    for (int i = 0; i < c->n_owned; i++) {
        if (c->owned[i].owner == owner) {
            return true;
        }
    }
    return false;
}

const char * other_owner(const struct checker * c, const struct ggml_tensor * owner, struct range range) {
    for (int i = 0; i < c->n_owned; i++) {
        if (c->owned[i].owner != owner && overlaps(c->owned[i].range, range)) {
            return c->owned[i].owner->name;
        }
    }
    return "nothing";
}
