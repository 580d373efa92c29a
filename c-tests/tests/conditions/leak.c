// Faults that the sanitizers must find, to show that they are on.

#include <stdlib.h>
#include <string.h>

static char * volatile bytes; // volatile: the compiler must not see through the mistakes

int main(int argc, char ** argv) {
    bytes = malloc(16);
    if (argc > 1 && strcmp(argv[1], "overrun") == 0) {
        bytes[16] = 1;
    }
    bytes = NULL;
    return 0;
}
