// A program that does not use lastuse: two schedulers whose graphs a device computes while the program goes on, in turns, some of
// them again without being allocated. Prints the bytes that both hold on the device, and how many elements of the results are wrong.

#include "late_contexts.h"
#include "splitmix.h"

static void tell_nothing(ggml_backend_sched_t sched) {
    (void) sched;
}

int main(void) {
    struct separate_backends separate;
    struct late_context      contexts[2];
    uint64_t                 random = 1;
    size_t                   wrong  = 0;
    separate_backends_init(&separate, 1);
    separate.dummies[0].is_never_reset = separate.dummies[1].is_never_reset = true;
    late_context_init(&contexts[0], &separate, 256);
    late_context_init(&contexts[1], &separate, 64);
    for (int turn = 0; turn < 60; turn++) {
        struct late_context * it = &contexts[turn < 2 ? turn : (int) (splitmix64(&random) % 2)];
        late_context_turn(it, tell_nothing, splitmix64(&random) % 3 == 0, (float) (turn + 1) / 64.0f);
        // Read after the other one has begun, from what was asked for before.
        if (turn % 4 == 3) {
            wrong += late_context_wrong(&contexts[0]) + late_context_wrong(&contexts[1]);
        }
    }
    late_context_turn(&contexts[0], tell_nothing, true, 0.5f);
    late_context_turn(&contexts[1], tell_nothing, true, 0.25f);
    printf("bytes=%zu\n", late_context_bytes(&contexts[0]) + late_context_bytes(&contexts[1]));
    wrong += late_context_wrong(&contexts[0]) + late_context_wrong(&contexts[1]);
    printf("wrong=%zu\n", wrong);
    late_context_free(&contexts[0]);
    late_context_free(&contexts[1]);
    separate_backends_free(&separate);
    return 0;
}
