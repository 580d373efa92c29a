//! The C interface: the functions of `ggml-alloc.h`, and lastuse's own, which `include/lastuse.h` declares.
//!
//! Uses all layers before it in [`crate`]. A function checks its pointers, makes safe values of them,
//! makes one call and returns a C result. Where ggml aborts, it aborts through `ggml_abort`. Only the functions and
//! types of the interface are `pub`: cbindgen reads no others.

#![allow(non_camel_case_types, reason = "types of C")]

// How a call fails.
mod abort;
mod last_error;
mod struct_size;
mod handle;

// What a call is for: a ggml, an allocator of it, buffers of that; and what makes a graph fit a budget.
mod buffer_ids;
mod enabled;
mod ggml_of_arguments;
mod graph_allocator;
mod call;
mod budgeted_graph;

// ggml-alloc.h.
mod context_tensors;
mod gallocr;
mod gallocr_new;
mod tallocr;

// lastuse.h: the process, and what it writes down.
mod process;
mod accounting;
mod dump;

// lastuse.h: contexts, tensors and graphs.
mod context;
mod inspect;
mod tensor;
mod dedicate;
mod passes;
mod recompute;
mod tiling;
mod steps;

// lastuse.h: devices.
mod offload;
mod offload_device;
mod offload_item;
mod offload_numbers;
mod offload_graph;

// lastuse.h: checks.
mod verify;
mod memory_guard;
mod guard_check;
