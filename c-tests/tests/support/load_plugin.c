// Loads ggml after the start, as an interpreter loads its extensions: only the plugin can see it.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char ** argv) {
    void * plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: load_plugin PLUGIN");
        return 2;
    }
    int (*plan_graphs)(void)      = (int (*)(void)) dlsym(plugin, "plan_graphs");
    uint64_t (*plan_count)(void) = (uint64_t (*)(void)) dlsym(RTLD_DEFAULT, "lastuse_plan_count");
    int failed                   = plan_graphs();
    printf("plans=%llu\n", plan_count != NULL ? (unsigned long long) plan_count() : 0);
    return failed;
}
