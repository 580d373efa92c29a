// Which weights and caches are on which device, within budgets. Explained in docs/offload.md.
//
// An example of each function. ctx has room for tensors and graphs, and backend is a CPU.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "lastuse.h"

void example_of_lastuse_offload_new(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_offload_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.order       = LASTUSE_OFFLOAD_BY_CLASS;
    struct lastuse_offload * offload = lastuse_offload_new(&params);
    GGML_ASSERT(offload != NULL);
    lastuse_offload_free(offload);
}

void example_of_lastuse_offload_add_device(struct ggml_context * ctx, ggml_backend_t backend) {
    struct lastuse_offload *      offload = lastuse_offload_new(NULL);
    struct lastuse_offload_device device;
    memset(&device, 0, sizeof(device));
    device.struct_size = sizeof(device);
    device.name        = "CUDA0";
    device.budget      = (size_t) 8 << 30;
    device.reserve     = (size_t) 600 << 20; // for the driver
    GGML_ASSERT(lastuse_offload_add_device(offload, &device) == 0);
    memset(&device, 0, sizeof(device));
    device.struct_size = sizeof(device);
    device.budget      = SIZE_MAX;
    device.backend     = backend; // the CPU: the host is last
    GGML_ASSERT(lastuse_offload_add_device(offload, &device) == 1);
    lastuse_offload_free(offload);
}

void example_of_lastuse_offload_add_item(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // nothing has memory yet
    struct ggml_tensor * weight = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, 4096, 4096);
    ggml_set_name(weight, "blk.7.ffn_up.weight"); // says the layer and the class
    struct lastuse_offload *    offload = lastuse_offload_new(NULL);
    struct lastuse_offload_item item;
    memset(&item, 0, sizeof(item));
    item.struct_size = sizeof(item);
    item.tensor      = weight;
    GGML_ASSERT(lastuse_offload_add_item(offload, &item) == 0);
    item.tensor = NULL; // a tensor that is not made yet
    item.name   = "blk.7.ffn_down.weight";
    item.bytes  = ggml_nbytes(weight);
    GGML_ASSERT(lastuse_offload_add_item(offload, &item) == 1);
    lastuse_offload_free(offload);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_offload_add_graph(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // nothing has memory yet
    struct lastuse_offload * offload = lastuse_offload_new(NULL);
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, i == 0 ? 512 : 1);
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, ggml_soft_max(ctx, input));
        GGML_ASSERT(lastuse_offload_add_graph(offload, graph) == i);
    }
    lastuse_offload_free(offload);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_offload_solve(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // nothing has memory yet
    struct ggml_tensor * weight = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 256, 256);
    struct ggml_tensor * input  = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 256, 4);
    struct ggml_cgraph * graph  = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_mul_mat(ctx, weight, input));

    struct lastuse_offload *      offload = lastuse_offload_new(NULL);
    struct lastuse_offload_device device;
    memset(&device, 0, sizeof(device));
    device.struct_size = sizeof(device);
    device.name        = "gpu";
    device.budget      = 1000000;
    int gpu = lastuse_offload_add_device(offload, &device);
    device.name   = "cpu"; // the last device is the host
    device.budget = SIZE_MAX; // no limit
    lastuse_offload_add_device(offload, &device);
    struct lastuse_offload_item item;
    memset(&item, 0, sizeof(item));
    item.struct_size = sizeof(item);
    item.tensor      = weight;
    int index = lastuse_offload_add_item(offload, &item);
    lastuse_offload_add_graph(offload, graph);

    if (!lastuse_offload_solve(offload)) {
        fprintf(stderr, "%s\n", lastuse_last_error());
        abort();
    }
    struct lastuse_offload_place place = { sizeof(place) };
    GGML_ASSERT(lastuse_offload_item_report(offload, index, &place) && place.device == gpu);
    lastuse_offload_free(offload);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_offload_item_report(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // nothing has memory yet
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sqr(ctx, input));

    struct lastuse_offload *      offload = lastuse_offload_new(NULL);
    struct lastuse_offload_device device;
    memset(&device, 0, sizeof(device));
    device.struct_size = sizeof(device);
    device.name        = "gpu";
    device.budget      = 40000;
    lastuse_offload_add_device(offload, &device);
    device.name   = "cpu";
    device.budget = SIZE_MAX;
    lastuse_offload_add_device(offload, &device);
    double hotness[4] = { 9.0, 5.0, 2.0, 0.0 };
    struct lastuse_offload_item item;
    memset(&item, 0, sizeof(item));
    item.struct_size  = sizeof(item);
    item.name         = "blk.0.ffn"; // 1024 neurons, of which any number of groups can be on the device
    item.bytes        = 1024 * 64;
    item.n_rows       = 1024;
    item.row_bytes    = 64;
    item.row_benefits = hotness;
    lastuse_offload_add_item(offload, &item);
    lastuse_offload_add_graph(offload, graph);
    struct lastuse_offload_place place = { sizeof(place) };
    GGML_ASSERT(!lastuse_offload_item_report(offload, 0, &place)); // it is not placed yet
    GGML_ASSERT(lastuse_offload_solve(offload) && lastuse_offload_item_report(offload, 0, &place));
    GGML_ASSERT(place.device == 1 && place.n_rows == 512 && place.rows_device == 0); // on the host, and some rows there
    lastuse_offload_free(offload);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_offload_device_report(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // nothing has memory yet
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sqr(ctx, input));

    struct lastuse_offload *      offload = lastuse_offload_new(NULL);
    struct lastuse_offload_device host;
    memset(&host, 0, sizeof(host));
    host.struct_size = sizeof(host);
    host.budget      = 100000;
    host.backend     = backend;
    lastuse_offload_add_device(offload, &host);
    lastuse_offload_add_graph(offload, graph);
    GGML_ASSERT(lastuse_offload_solve(offload));
    struct lastuse_offload_memory memory;
    memset(&memory, 0, sizeof(memory));
    memory.struct_size = sizeof(memory);
    GGML_ASSERT(lastuse_offload_device_report(offload, 0, &memory));
    GGML_ASSERT(memory.compute_size > 0 && memory.total_size == memory.compute_size && memory.total_size <= 100000);
    lastuse_offload_free(offload);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_offload_buffer_ids(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // nothing has memory yet
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sqr(ctx, ggml_scale(ctx, input, 2.0f)));

    struct lastuse_offload_params params;
    memset(&params, 0, sizeof(params));
    params.struct_size = sizeof(params);
    params.direct      = true; // no scheduler: the program allocates the graph
    struct lastuse_offload *      offload = lastuse_offload_new(&params);
    struct lastuse_offload_device host;
    memset(&host, 0, sizeof(host));
    host.struct_size = sizeof(host);
    host.budget      = 100000;
    host.backend     = backend;
    lastuse_offload_add_device(offload, &host);
    lastuse_offload_add_graph(offload, graph);
    GGML_ASSERT(lastuse_offload_solve(offload));

    int node_ids[2], leaf_ids[1];
    GGML_ASSERT(lastuse_offload_buffer_ids(offload, 0, node_ids, leaf_ids));
    ggml_backend_buffer_type_t type   = ggml_backend_get_default_buffer_type(backend);
    ggml_gallocr_t             galloc = ggml_gallocr_new_n(&type, 1);
    GGML_ASSERT(ggml_gallocr_reserve_n(galloc, graph, node_ids, leaf_ids));
    GGML_ASSERT(ggml_gallocr_get_buffer_size(galloc, 0) <= 100000);
    ggml_gallocr_free(galloc);
    lastuse_offload_free(offload);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_offload_apply(struct ggml_context * ctx, ggml_backend_t backend) {
    ggml_set_no_alloc(ctx, true); // nothing has memory yet
    struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 4096);
    ggml_set_input(input);
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, ggml_sqr(ctx, ggml_scale(ctx, input, 2.0f)));

    struct lastuse_offload *      offload = lastuse_offload_new(NULL);
    struct lastuse_offload_device host;
    memset(&host, 0, sizeof(host));
    host.struct_size = sizeof(host);
    host.budget      = 100000;
    host.backend     = backend;
    lastuse_offload_add_device(offload, &host);
    lastuse_offload_add_graph(offload, graph);
    GGML_ASSERT(lastuse_offload_solve(offload));
    struct lastuse_offload_memory memory;
    memset(&memory, 0, sizeof(memory));
    memory.struct_size = sizeof(memory);
    GGML_ASSERT(lastuse_offload_device_report(offload, 0, &memory));

    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, 64, false, true);
    GGML_ASSERT(lastuse_offload_apply(offload, 0, sched));
    GGML_ASSERT(ggml_backend_sched_alloc_graph(sched, graph));
    GGML_ASSERT(ggml_backend_sched_get_buffer_size(sched, backend) == memory.compute_size);
    ggml_backend_sched_free(sched);
    lastuse_offload_free(offload);
    ggml_set_no_alloc(ctx, false);
}

void example_of_lastuse_offload_free(struct ggml_context * ctx, ggml_backend_t backend) {
    lastuse_offload_free(NULL);
}
