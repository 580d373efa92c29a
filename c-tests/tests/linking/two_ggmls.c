// A host that loads plugins, each with its own ggml, and uses them in turn:
//     two_ggmls [together] [self] [global:][lazy:]PLUGIN...
// Each is loaded when the one before it is in use already, or all before the first is used (together). With
// HOST_HAS_GGML the host is linked with a ggml too, and uses it (self). A plugin may also be
// tests/support/plan_two_graphs.c.

#include <dlfcn.h>
#include <string.h>

#include "check.h"
#include "ggml_plugin.h"

enum { MOST = 4, STEPS = 3 };

struct loaded {
    const char *    path;
    int             mode;
    void *          library;
    struct plugin * plugin;
    struct plugin * (*open)(void);
    void (*step)(struct plugin *, int);
    void (*close)(struct plugin *, const char *);
    int (*plan_graphs)(void);
};

static int skip(const char ** text, const char * word) {
    size_t length = strlen(word);
    int    found  = strncmp(*text, word, length) == 0;
    *text += found ? length : 0;
    return found;
}

static void load(struct loaded * loaded) {
#ifdef HOST_HAS_GGML
    if (strcmp(loaded->path, "self") == 0) {
        loaded->open  = plugin_open;
        loaded->step  = plugin_step;
        loaded->close = plugin_close;
        return;
    }
#endif
    loaded->library = dlopen(loaded->path, loaded->mode);
    CHECK(loaded->library != NULL, "%s", dlerror());
    loaded->open  = (struct plugin * (*) (void) ) dlsym(loaded->library, "plugin_open");
    loaded->step  = (void (*)(struct plugin *, int)) dlsym(loaded->library, "plugin_step");
    loaded->close = (void (*)(struct plugin *, const char *)) dlsym(loaded->library, "plugin_close");
    loaded->plan_graphs = (int (*)(void)) dlsym(loaded->library, "plan_graphs");
    int is_plugin       = loaded->open != NULL && loaded->step != NULL && loaded->close != NULL;
    CHECK(is_plugin || loaded->plan_graphs != NULL, "%s is not a plugin", loaded->path);
}

static void step(struct loaded * loaded, int number) {
    if (loaded->plan_graphs != NULL) {
        CHECK(loaded->plan_graphs() == 0, "%s cannot plan", loaded->path);
        return;
    }
    if (loaded->plugin == NULL) {
        loaded->plugin = loaded->open();
    }
    loaded->step(loaded->plugin, number);
}

int main(int argc, char ** argv) {
    struct loaded all[MOST];
    int           count = 0, together = 0;
    for (int i = 1; i < argc && count < MOST; i++) {
        if (strcmp(argv[i], "together") == 0) {
            together = 1;
            continue;
        }
        const char * path = argv[i];
        int          mode = skip(&path, "global:") ? RTLD_GLOBAL : RTLD_LOCAL;
        mode |= skip(&path, "lazy:") ? RTLD_LAZY : RTLD_NOW;
        all[count++] = (struct loaded){ .path = path, .mode = mode };
    }
    for (int i = 0; together && i < count; i++) {
        load(&all[i]);
    }
    for (int i = 0; i < count; i++) {
        if (!together) {
            load(&all[i]);
        }
        for (int known = 0; known <= i; known++) {
            step(&all[known], i);
        }
    }
    for (int turn = 0; turn < STEPS; turn++) {
        for (int i = 0; i < count; i++) {
            step(&all[i], count + turn);
        }
    }
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof(name), "plugin%d", i + 1);
        if (all[i].plugin != NULL) {
            all[i].close(all[i].plugin, name);
        }
    }
    return 0;
}
