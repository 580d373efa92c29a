#include "fuzz.h"

#include "fuzz/ways.h"
#include "shared_turns.h"
#include "splitmix.h"

#define REPLANNED 10 // percent

// Separate numbers: the graph is drawn from the seed itself.
static uint64_t random_for(uint64_t seed) {
    return seed ^ 0x6c62272e07bb0142u;
}

enum fuzz_kind fuzz_kind_of(uint64_t seed, struct fuzz_shares shares) {
    uint64_t random = random_for(seed);
    int      number = (int) (splitmix64(&random) % 100);
    return number < shares.computed                   ? FUZZ_COMPUTED
           : number < shares.computed + shares.shared ? FUZZ_SHARED
           : number >= 100 - REPLANNED                ? FUZZ_REPLANNED
                                                      : FUZZ_PLANNED;
}

uint64_t fuzz_graph(ggml_backend_t cpu, uint64_t seed, enum fuzz_kind kind) {
    uint64_t random = random_for(~seed);
    switch (kind) {
        case FUZZ_REPLANNED: fuzz_replanned(seed, &random); break;
        case FUZZ_COMPUTED:
            fuzz_computed(cpu, seed, &random);
            fuzz_repeated(cpu, seed, &random);
            break;
        case FUZZ_SHARED: return shared_turns(cpu, seed);
        default:          fuzz_planned(seed, &random); break;
    }
    return 0;
}
