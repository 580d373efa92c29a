#include "plan_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "plan_check/judge.h"

const char * plan_check(struct ggml_cgraph * graph) {
    static char  reason[512];
    struct judge j     = { .graph = graph };
    find_skipped(&j);
    bool         right = judge_places(&j) && judge_start(&j) && judge_steps(&j) && judge_end(&j);
    free(j.owned);
    free(j.skipped);
    snprintf(reason, sizeof(reason), "%s", j.reason);
    return right ? NULL : reason;
}
