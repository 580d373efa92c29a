// A function in several threads at once.
#pragma once

#include <pthread.h>

#include "check.h"

enum { MOST_THREADS = 16 };

// Calls `work` in a thread for each of `count` arguments of `size` bytes, and waits for the ends.
static inline void in_threads(int count, void * (*work)(void * argument), void * arguments, size_t size) {
    pthread_t threads[MOST_THREADS];
    CHECK(count <= MOST_THREADS, "%d threads", count);
    for (int i = 0; i < count; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, (char *) arguments + (size_t) i * size) == 0, "no thread");
    }
    for (int i = 0; i < count; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0, "no end of thread %d", i);
    }
}
