//! The C interface: the functions of `ggml-alloc.h`, and lastuse's own, which `include/lastuse.h` declares.
//!
//! Uses all layers before it in [`crate`]. A function checks its pointers, makes safe values of them,
//! makes one call and returns a C result. Where ggml aborts, it aborts through `ggml_abort`. Only the functions and
//! types of the interface are `pub`: cbindgen reads no others.

#![allow(non_camel_case_types, reason = "types of C")]

// The frame of a function: what C passes, how a call fails, what its arguments stand for.
mod c_types;
mod call;
mod arguments;
mod handle;
mod question;

// ggml-alloc.h.
mod tensors_in_buffers;
mod gallocr;
mod gallocr_new;

// lastuse.h: the process, and what it writes down.
mod process;
mod records;
mod arena;

// lastuse.h: contexts, tensors and graphs.
mod context;
mod inspect;
mod tensor;
mod passes;
mod budget_passes;
mod scheduler;
mod steps;

// lastuse.h: devices.
mod offload;
mod offload_device;
mod offload_item;
mod offload_solve;

// lastuse.h: checks.
mod checks;
