// An add-on of Node that uses a plugin when it is loaded. Node calls this function of it.

#include <stddef.h>

#include "ggml_plugin.h"

void * napi_register_module_v1(void * env, void * exports) {
    (void) env;
    struct plugin * plugin = plugin_open();
    plugin_step(plugin, 0);
    plugin_close(plugin, "addon");
    return exports;
}

// The function that Python's ctypes calls.
int plan_graphs(void) {
    napi_register_module_v1(NULL, NULL);
    return 0;
}
