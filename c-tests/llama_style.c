// A llama-style transformer with random weights, run on ggml's CPU backend.
//
// It uses the graph allocator like a language model: one worst-case reservation, a prompt graph of
// hundreds of tokens, then many single-token graphs whose topology stays the same while the KV length grows. It reports
// the size of the compute buffer, the time that planning and allocation take, and a hash over every logit. Two
// correct allocators give equal hashes for equal options and one build of ggml. The thread count is one of those
// options: it decides how ggml splits its sums.
//
// With --capture it runs nothing, and writes the prompt graph to a file for lastuse's own tools.
//
// Failures end the process with exit(1) at once, without freeing: the system takes the memory back.

#define _DEFAULT_SOURCE // clock_gettime and sysconf under -std=c11

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "llama_style/capture.h"
#include "llama_style/errors.h"
#include "llama_style/model.h"
#include "llama_style/options.h"
#include "llama_style/report.h"
#include "llama_style/session.h"

#include <stddef.h>

int main(int argc, char ** argv) {
    const struct options opt = parse_options(argc, argv);

    ggml_backend_t backend = ggml_backend_cpu_init();
    if (backend == NULL) {
        die("ggml_backend_cpu_init failed");
    }
    ggml_backend_cpu_set_n_threads(backend, opt.threads);
    if (opt.capture != NULL) {
        capture(&opt, backend);
        ggml_backend_free(backend);
        return 0;
    }

    struct model   model   = model_new(&opt, backend);
    struct session session = session_new(&model, backend);
    const struct results results = run_session(&session);

    if (opt.machine) {
        print_machine(&opt, &results);
    } else {
        print_table(&opt, &results);
    }

    session_free(&session);
    model_free(&model);
    ggml_backend_free(backend);
    return 0;
}
