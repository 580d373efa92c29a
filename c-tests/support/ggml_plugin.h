// The functions of tests/support/ggml_plugin.c that a host calls.

#ifndef GGML_PLUGIN_H
#define GGML_PLUGIN_H

struct plugin;

// Loads its weights.
struct plugin * plugin_open(void);

// Computes graphs whose size depends on step.
void plugin_step(struct plugin * plugin, int step);

// Prints the results as NAME_hash=... and so on, and frees everything.
void plugin_close(struct plugin * plugin, const char * name);

#endif
