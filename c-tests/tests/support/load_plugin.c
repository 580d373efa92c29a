// Loads ggml after the start, as an interpreter loads its extensions: only the plugin can see it.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "lastuse.h"

int main(int argc, char ** argv) {
    void * plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: load_plugin PLUGIN");
        return 2;
    }
    int (*plan_graphs)(void)      = (int (*)(void)) dlsym(plugin, "plan_graphs");
    bool (*report)(struct lastuse_stats *) = (bool (*)(struct lastuse_stats *)) dlsym(RTLD_DEFAULT, "lastuse_stats_report");
    struct lastuse_stats stats             = { .struct_size = sizeof(stats) };
    int failed                             = plan_graphs();
    if (report != NULL) {
        report(&stats);
    }
    printf("plans=%llu\n", (unsigned long long) stats.plans);
    return failed;
}
