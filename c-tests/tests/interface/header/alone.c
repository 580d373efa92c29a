// lastuse.h needs no other header before it.

#include "lastuse.h"

int main(void) {
    return lastuse_version()[0] != '\0' && lastuse_last_error()[0] == '\0' ? 0 : 1;
}
