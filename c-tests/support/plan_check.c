#include "plan_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "plan_check/checker.h"

const char * plan_check(struct ggml_cgraph * graph) {
    static char  reason[512];
    struct checker c     = { .graph = graph };
    find_skipped(&c);
    bool         valid = check_addresses(&c) && check_start(&c) && check_steps(&c) && check_end(&c);
    free(c.owned);
    free(c.skipped);
    snprintf(reason, sizeof(reason), "%s", c.reason);
    return valid ? NULL : reason;
}
