// A program that knows nothing of lastuse, and reads intermediate values of a graph that a scheduler has run.
//
// prints how many of them are still there, and the bytes of the compute buffer.

#include "retained_chain.h"

int main(void) {
    ggml_backend_t       cpu   = new_cpu(1);
    struct chain         chain = chain_of(1024);
    ggml_backend_sched_t sched = ggml_backend_sched_new(&cpu, NULL, 1, 64, false, false);
    CHECK(ggml_backend_sched_alloc_graph(sched, chain.graph), "not allocated");
    set_values(chain.input, 7);
    CHECK(ggml_backend_sched_graph_compute(sched, chain.graph) == GGML_STATUS_SUCCESS, "not computed");
    printf("held=");
    for (int i = 0; i < CHAIN; i++) {
        printf("%d", chain_holds(&chain, i));
    }
    printf("\nbytes=%zu\n", ggml_backend_sched_get_buffer_size(sched, cpu));
    ggml_backend_sched_free(sched);
    chain_free(&chain);
    ggml_backend_free(cpu);
    return 0;
}
