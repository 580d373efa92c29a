// Random settings for a graph: everything but the graph itself.

#include <string.h>

#include "ggml-cpu.h"
#include "lastuse.h"
#include "ways.h"

static int draw_steps(uint64_t * random) {
    int size = (int) random_below(random, 100);
    if (size < 75) {
        return (int) random_between(random, 1, 10);
    }
    return (int) (size < 98 ? random_between(random, 11, 30) : random_between(random, 31, 100));
}

struct random_graph_options draw_options(uint64_t * random) {
    return (struct random_graph_options){
        .n_steps      = draw_steps(random),
        .max_elements = (int64_t) 1 << random_between(random, 4, 12),
        .copies       = random_chance(random, 30),
        .alternatives = random_chance(random, 20),
    };
}

void draw_scheduler_parts(uint64_t * random, struct random_graph_options * options) {
    options->markers        = random_chance(random, 30);
    options->early_markers  = options->markers && random_chance(random, 30);
    options->split_copies   = random_chance(random, 20);
    options->unlisted_leafs = random_chance(random, 15);
}

int draw_n_buffers(uint64_t * random) {
    return random_chance(random, 50) ? 1 : (int) random_between(random, 2, MAX_BUFFERS);
}

size_t draw_max_size(uint64_t * random) {
    return random_chance(random, 65) ? 0 : (size_t) 1 << random_between(random, 7, 14);
}

void set_some_rules(ggml_gallocr_t galloc, uint64_t * random) {
    static const char * const names[] = { "in-place",      "views",         "rows",     "copies", "concat",
                                          "oldest-source", "unread-inputs", "inactive", "scans",  "leafs-last" };
    char text[128] = "none";
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (random_chance(random, 50)) {
            strcat(strcat(text, ","), names[i]);
        }
    }
    CHECK(lastuse_gallocr_set(galloc, "rules", text), "%s is known", text);
}

void put_on_cpu(struct bench * bench) {
    for (int i = 0; i < N_TYPES; i++) {
        bench->types[i].type.device = ggml_backend_buft_get_device(ggml_backend_cpu_buffer_type());
    }
}
