// Places the work memory of ggml's CPU backend at cache lines: linked with a program, or preloaded.
//
// The backend takes it with new[], so it lies at a multiple of 16 that depends on all that was allocated before, and with
// it the speed of kernels that load whole cache lines of it, with any graph allocator. Otherwise a program would be
// faster or slower with lastuse by chance.

#include <cstddef>
#include <cstdlib>
#include <new>

static const std::size_t CACHE_LINE = 64;

void * operator new[](std::size_t size) {
    void * memory = nullptr;
    if (posix_memalign(&memory, CACHE_LINE, size) != 0) {
        throw std::bad_alloc();
    }
    return memory;
}

void operator delete[](void * memory) noexcept {
    free(memory);
}

void operator delete[](void * memory, std::size_t) noexcept {
    free(memory);
}
