// Counts the kernels that ggml's CUDA backend starts: a program that this is linked with has the functions that it calls.
// At the end of the program their number is in its log.

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// As CUDA's header has them, without needing it.
typedef struct { unsigned x, y, z; } dimensions;

typedef int launch(const void * kernel, dimensions blocks, dimensions threads, void ** arguments, size_t shared, void * stream);
typedef int launch_with(const void * config, const void * kernel, void ** arguments);

static _Atomic unsigned long long n_kernels;

static void print_kernels(void) {
    fprintf(stderr, "kernels=%llu\n", (unsigned long long) n_kernels);
}

static void * original(const char * name) {
    void * found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        fprintf(stderr, "there is no %s\n", name);
        abort();
    }
    return found;
}

static void count_kernel(void) {
    if (atomic_fetch_add(&n_kernels, 1) == 0) {
        atexit(print_kernels);
    }
}

#define PASSED_ON(name)                                                                                          \
    int name(const void * kernel, dimensions blocks, dimensions threads, void ** arguments, size_t shared, void * stream) { \
        static launch * _Atomic next;                                                                            \
        if (next == NULL) {                                                                                      \
            next = (launch *) original(#name);                                                                   \
        }                                                                                                        \
        count_kernel();                                                                                          \
        return next(kernel, blocks, threads, arguments, shared, stream);                                         \
    }

PASSED_ON(cudaLaunchKernel)
PASSED_ON(__cudaLaunchKernel) // what compilers of CUDA 13 write for kernel<<<...>>>

int cudaLaunchKernelExC(const void * config, const void * kernel, void ** arguments) {
    static launch_with * _Atomic next;
    if (next == NULL) {
        next = (launch_with *) original("cudaLaunchKernelExC");
    }
    count_kernel();
    return next(config, kernel, arguments);
}
