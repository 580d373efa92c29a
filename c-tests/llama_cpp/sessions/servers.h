// Servers of ggml's RPC backend.

#pragma once

#include "session.h"

#include <signal.h>

// Registers the devices of RPC servers. Returns how many servers there are.
static size_t add_servers(const char * endpoints) {
    char * rest = strdup(endpoints);
    check(rest != NULL, "out of memory");
    ggml_backend_reg_t rpc = ggml_backend_reg_by_name("RPC");
    check(rpc != NULL, "this llama.cpp has no RPC backend");
    ggml_backend_reg_t (*add)(const char *) =
        (ggml_backend_reg_t (*)(const char *)) ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server");
    check(add != NULL, "the RPC backend adds no servers");
    // A write to a server that has gone away fails and is reported, where it would end the program without a word.
    signal(SIGPIPE, SIG_IGN);
    size_t count = 0;
    for (char * endpoint = strtok(rest, ","); endpoint != NULL; endpoint = strtok(NULL, ",")) {
        ggml_backend_reg_t server = add(endpoint);
        check(server != NULL, "a server does not answer");
        ggml_backend_register(server);
        count++;
    }
    free(rest);
    return count;
}
