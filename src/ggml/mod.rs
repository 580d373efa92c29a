//! ggml's types and functions: the only place that names them.
//!
//! Uses [`crate::report`], [`crate::graph`] and [`crate::placement`]. The way of a graph through here: [`Runtime`] (which ggml is this?)
//! -> [`GraphRef`] (a live `ggml_cgraph`) -> `read` (plain data) -> [`Allocator`] (plan, buffers, addresses).

mod allocator;
#[rustfmt::skip]
mod bindings;
mod buffers;
mod caller;
mod capture;
mod context;
mod context_tensors;
mod copies;
mod current;
mod decide;
mod dependency;
mod enabled;
mod environment;
mod events;
mod exports;
mod fingerprint;
mod fit;
mod functions;
mod handed;
mod ids;
mod loaded;
mod log;
mod looks;
mod measure;
mod memory;
mod operations;
mod original;
mod output;
mod outputs;
mod owner;
mod planned;
mod probe;
mod process;
mod read;
mod redirect;
mod reorder;
mod runtime;
mod settings;
mod sizes;
mod snapshot;
mod statistics;
mod switch;
mod tensor;
mod verify;

pub use allocator::{Allocator, Refusal};
pub use bindings::{
    ggml_backend, ggml_backend_buffer, ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tallocr, ggml_tensor,
};
pub use buffers::BufferType;
pub use capture::{Destination, NoDestination, captures};
pub use context::{
    Kind, NoAddressSpace, NotAlive, NotRealized, Waiting, Wanted, free_context, is_freed, new_context, realize_context,
};
pub use context_tensors::{allocate_context, context_size};
pub use copies::remove_copies;
pub use current::{hand_to, handed_to, log_error, now_for};
pub use dependency::{NoDependency, depend};
pub use enabled::{NotEnabled, check_enabled, note_reached};
pub use events::original as original_events;
pub use functions::Functions;
pub use handed::{Maker, forget, ggml_of_handed, is_remembered, maker, remember};
pub use measure::{Need, NotMeasured, measure};
pub use original::{Original, ggml_gallocr};
pub use output::{NoOutput, set_output};
pub use outputs::{BrokenOutput, check_outputs};
pub use process::{Ggml, NoGgml, ggml_of_buffers, ggml_of_caller, ggml_of_object, ggml_of_type};
pub use redirect::{LISTED_SLOT, Place, WANTED_SLOT, redirect, redirect_as_listed, redirected_to};
pub use reorder::{Reordered, reorder_nodes};
pub use runtime::{Runtime, SIGNATURE, Server, abort};
pub use settings::{Settings, change_settings, effort};
pub use statistics::{Totals, totals};
pub use tensor::{GraphRef, TensorRef};
pub use verify::{Guard, NextCallback, NotComputed, Verifier, Verify, Violation, compute_guarded, verify_graph};

/// An `enum lastuse_context_kind` as C passes it: any number.
pub type ContextKind = u32;

/// ggml's status for success.
pub const STATUS_SUCCESS: i32 = 0;

/// ggml's usages of buffers.
const USAGE_NOT_KNOWN: u32 = 0;
const USAGE_WEIGHTS: u32 = 1;
const USAGE_COMPUTE: u32 = 2;
