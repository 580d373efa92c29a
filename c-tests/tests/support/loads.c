// Loads libraries, as interpreters do, and uses those that are plugins (tests/support/ggml_plugin.c, or
// tests/support/plain_scheduler.c with PLUGIN) after each, and again when all are loaded: loads [MODE:]...LIBRARY...
// Modes are global, deep and lazy. At the end it prints what lastuse, if it is one of them or was preloaded, says.

#include <dlfcn.h>

#include "check.h"
#include "ggml_plugin.h"

enum { MOST = 4 };

struct loaded {
    void * library;
    struct plugin * (*open)(void);
    void (*step)(struct plugin *, int);
    void (*close)(struct plugin *, const char *);
    int (*plan_graphs)(void);
    struct plugin * plugin;
};

static int has_mode(const char ** argument, const char * mode) {
    size_t length = strlen(mode);
    int    found  = strncmp(*argument, mode, length) == 0;
    *argument += found ? length : 0;
    return found;
}

static struct loaded load(const char * argument) {
    int mode = has_mode(&argument, "global:") ? RTLD_GLOBAL : RTLD_LOCAL;
    mode |= has_mode(&argument, "deep:") ? RTLD_DEEPBIND : 0;
    mode |= has_mode(&argument, "lazy:") ? RTLD_LAZY : RTLD_NOW;
    void * library = dlopen(argument, mode);
    CHECK(library != NULL, "%s", dlerror());
    return (struct loaded){
        .library     = library,
        .open        = (struct plugin * (*) (void) ) dlsym(library, "plugin_open"),
        .step        = (void (*)(struct plugin *, int)) dlsym(library, "plugin_step"),
        .close       = (void (*)(struct plugin *, const char *)) dlsym(library, "plugin_close"),
        .plan_graphs = (int (*)(void)) dlsym(library, "plan_graphs"),
    };
}

// Computes graphs with allocators that were made before, and with new ones.
static void use(struct loaded * loaded, int step) {
    if (loaded->plan_graphs != NULL) {
        CHECK(loaded->plan_graphs() == 0, "the graph has no memory");
    }
    if (loaded->open != NULL) {
        loaded->plugin = loaded->plugin != NULL ? loaded->plugin : loaded->open();
        loaded->step(loaded->plugin, step);
        struct plugin * another = loaded->open();
        loaded->step(another, step + 1);
        loaded->close(another, step == 0 ? "early" : "late");
    }
}

int main(int argc, char ** argv) {
    struct loaded all[MOST];
    int           count                = 0;
    bool (*enabled)(void)              = (bool (*)(void)) dlsym(RTLD_DEFAULT, "lastuse_enabled");
    const char * (*last_error)(void)   = (const char * (*) (void) ) dlsym(RTLD_DEFAULT, "lastuse_last_error");
    for (int i = 1; i < argc && count < MOST; i++) {
        all[count] = load(argv[i]);
        use(&all[count], 0);
        if (enabled == NULL) {
            enabled    = (bool (*)(void)) dlsym(all[count].library, "lastuse_enabled");
            last_error = (const char * (*) (void) ) dlsym(all[count].library, "lastuse_last_error");
        }
        count++;
    }
    for (int i = 0; i < count; i++) {
        use(&all[i], 2);
        if (all[i].plugin != NULL) {
            all[i].close(all[i].plugin, "both");
        }
    }
    if (enabled != NULL) {
        int is_enabled = enabled();
        printf("enabled=%d\nerror=%s\n", is_enabled, is_enabled ? "" : last_error());
    }
    return 0;
}
