// lastuse.h needs no other header before it.

#include "lastuse.h"
#include "reports.h"

int main(void) {
    return lastuse_version()[0] != '\0' && plans_made() == 0 ? 0 : 1;
}
