// lastuse.h behind ggml's own headers.

#include "ggml.h"

#include "lastuse.h"
#include "set_output_twice.h"

int main(void) {
    return set_output_is_two_functions() ? 0 : 1;
}
