// A server of ggml's RPC backend whose device is the CPU, with one thread: `rpc_server ADDRESS:PORT`. It runs until it is
// killed. With GGML_RPC_DEBUG set, ggml prints each command that it gets.

#include "ggml-backend.h"

#include <stdio.h>
#include <stdlib.h>

typedef void (*start_server)(const char * endpoint, const char * cache_dir, size_t n_threads, size_t n_devices,
                             ggml_backend_dev_t * devices);

int main(int argc, char ** argv) {
    ggml_backend_load_all();
    ggml_backend_reg_t rpc    = ggml_backend_reg_by_name("RPC");
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (argc != 2 || rpc == NULL || device == NULL) {
        fprintf(stderr, "rpc_server: expected ADDRESS:PORT, and a ggml with the backends RPC and CPU\n");
        return EXIT_FAILURE;
    }
    start_server start = (start_server) ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_start_server");
    if (start == NULL) {
        fprintf(stderr, "rpc_server: the RPC backend starts no servers\n");
        return EXIT_FAILURE;
    }
    start(argv[1], NULL, 1, 1, &device);
    return EXIT_FAILURE; // it could not listen
}
