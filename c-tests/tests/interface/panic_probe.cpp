// A panic inside lastuse must end in ggml's abort callback. In C++, so that unwinding would be visible: as an exception
// that passes the catch, or as a destructor that runs.

#include "ggml.h"

#include <cstdio>
#include <cstdlib>

extern "C" void lastuse_panic_probe(void); // only in builds with the feature "panic-probe"

namespace {

struct unwinding_shows {
    ~unwinding_shows() {
        std::printf("the stack was unwound\n");
        std::fflush(stdout);
        std::_Exit(1);
    }
};

void print_and_exit(const char * message) {
    std::printf("%s\n", message);
    std::fflush(stdout);
    std::_Exit(43);
}

} // namespace

int main() {
    ggml_set_abort_callback(print_and_exit);
    unwinding_shows shows;
    try {
        lastuse_panic_probe();
    } catch (...) {
        std::printf("the panic became an exception\n");
        std::fflush(stdout);
        std::_Exit(2);
    }
    std::printf("the panic was swallowed\n");
    return 3;
}
