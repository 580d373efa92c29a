// Errors that end the program.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static void die(const char * format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void die(const char * format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "llama_style: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

static void * checked_calloc(size_t count, size_t size) {
    void * memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL) {
        die("out of memory: %zu x %zu bytes", count, size);
    }
    return memory;
}
