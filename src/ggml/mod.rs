//! The only part of lastuse that uses ggml's types and functions.
//!
//! Uses all layers before it in [`crate`]. A graph passes through this layer as follows:
//!
//! 1. `ggml_gallocr_reserve_n` and `ggml_gallocr_alloc_graph` find the [`Ggml`] of the call (`process`). Its [`Server`]
//!    is lastuse, with the [`Runtime`] of a ggml whose struct layout is known (`live::probe`), or ggml's own allocator,
//!    to which the call is forwarded.
//! 2. A [`GraphRef`] gives access to the live `ggml_cgraph`, and an [`Allocator`] searches its cached plans for one
//!    that matches.
//! 3. Without a match, `read` converts the [`GraphRef`] to a `ReadGraph`: a [`crate::graph::Graph`], in which dense ids
//!    replace pointers, with the live tensor of each id and the sizes that the [`BufferType`]s require.
//! 4. The graph is planned to a [`crate::graph::GraphPlan`] (`allocator::planner`), which is cached, and its
//!    chunks are allocated.
//! 5. For `ggml_gallocr_alloc_graph`, the locations in the plan become addresses, which are written to the tensors
//!    (`allocator::plan_cache::assignments`).
//!
//! The modules below are in order of use: each uses only those before it.

#[rustfmt::skip]
mod bindings;
mod version;
mod platform;
mod environment;
mod linking;
mod log;
mod live;
mod outputs;
mod dedicated;
mod refusal;
mod context;
mod retention;
mod read;
mod observe;
mod process;
mod extensions;
mod allocator;
pub mod scheduler;
mod steps;
mod offload;

pub use allocator::arena::Arena;
pub use allocator::inspect::measure;
pub use allocator::turns;
pub use allocator::{Allocator, Need};
pub use bindings::{
    ggml_backend, ggml_backend_buffer, ggml_backend_buffer_type, ggml_backend_sched, ggml_cgraph, ggml_context,
    ggml_tallocr, ggml_tensor,
};
pub use context::allocate::{allocate_context, context_size};
pub use context::{
    ContextMode, ContextOptions, NotLive, NotRealized, PendingTensors, free_context, is_freed, new_context,
    realize_context,
};
pub use dedicated::dedicate;
pub use extensions::copies::remove_copies;
pub use extensions::dependency::depend;
pub use extensions::dump::{begin_dump, dump_graph};
pub use extensions::pass::{Budgeted, NotFitted};
pub use extensions::recompute::{RecomputeRequest, recompute_graph};
pub use extensions::reorder::{Reordered, reorder_nodes};
pub use extensions::tiling::{TilingRequest, tile_graph};
pub use linking::original::{Original, ggml_gallocr};
pub use live::buffer_ref::{BufferRef, allocate_by};
pub use live::buffers::BufferType;
pub use live::lock::Lock;
pub use live::recycled::free_all as free_recycled;
pub use live::runtime::Runtime;
pub use live::tensor::{GraphRef, TensorRef};
pub use log::{abort, log_error, set_current_ggml};
pub use observe::accounting::recorder;
pub use observe::capture::captures;
pub use observe::note_context;
pub use observe::statistics::totals;
pub use observe::verify::{MemoryGuard, NextCallback, NotComputed, Violation, compute_guarded, verify_graph};
pub use observe::verify::{
    check_not_freed, check_place, check_places, note_buffer_allocated, note_buffer_freed, places_are_recorded,
};
pub use offload::{DevicePlanner, LiveDevice, LiveItem, OffloadFailure, OffloadRule, PlannerSettings};
pub use outputs::set::set_output;
pub use platform::text as text_of_c;
pub use process::enabled::{NotEnabled, check_enabled};
pub use process::forwarding::{
    GallocFactory, forward_to, forwarding_to, galloc_factory, ggml_of_galloc, is_forwarded, register_forwarded,
    unregister_forwarded,
};
pub use process::ggml::{Ggml, NoGgml, Server};
pub use process::original_events;
pub use process::reached::note_reached;
pub use process::registry::{all_ggmls, ggml_of_buffers, ggml_of_caller, ggml_of_object, ggml_of_type};
pub use process::settings::{AllocatorSetting, set, settings};
pub use refusal::Refusal;
pub use retention::LiveRetention;
pub use steps::{AfterStep, Runner, Steps};
pub use version::SIGNATURE;

/// ggml's status for success.
pub const STATUS_SUCCESS: i32 = 0;

/// ggml's status for a callback that has stopped a computation.
pub const STATUS_ABORTED: i32 = 1;

/// ggml's status for failure.
pub const STATUS_FAILED: i32 = -1;

/// ggml's numbers for the usage of buffers.
const USAGE_NOT_KNOWN: u32 = 0;
const USAGE_WEIGHTS: u32 = 1;
const USAGE_COMPUTE: u32 = 2;
