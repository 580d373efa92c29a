//! ggml's types and functions: the only place that names them.
//!
//! Uses [`crate::report`], [`crate::graph`] and [`crate::placement`]. The way of a graph through here: [`Runtime`] (which ggml is this?)
//! -> [`GraphRef`] (a live `ggml_cgraph`) -> `read` (plain data) -> [`Allocator`] (plan, buffers, addresses).

mod allocator;
#[rustfmt::skip]
mod bindings;
mod buffers;
mod context;
mod context_tensors;
mod copies;
mod dependency;
mod fingerprint;
mod fit;
mod functions;
mod ids;
mod loaded;
mod measure;
mod memory;
mod operations;
mod original;
mod output;
mod outputs;
mod planned;
mod probe;
mod read;
mod redirect;
mod reorder;
mod runtime;
mod settings;
mod snapshot;
mod tensor;

pub use allocator::{Allocator, Refusal};
pub use bindings::{
    ggml_backend, ggml_backend_buffer, ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tallocr, ggml_tensor,
};
pub use buffers::BufferType;
pub use context::{
    Kind, NoAddressSpace, NotAlive, NotRealized, Waiting, Wanted, free_context, is_freed, new_context, realize_context,
};
pub use context_tensors::{allocate_context, context_size};
pub use copies::remove_copies;
pub use dependency::{NoDependency, depend};
pub use functions::Functions;
pub use measure::{Need, NotMeasured, measure};
pub use original::{Original, ggml_gallocr};
pub use output::{NoOutput, set_output};
pub use outputs::{BrokenOutput, check_outputs};
pub use redirect::{LISTED_SLOT, Place, WANTED_SLOT, redirect, redirect_as_listed, redirected_to};
pub use reorder::{Reordered, reorder_nodes};
pub use runtime::{Runtime, Server, abort, known_ggml, runtime};
pub use settings::{Settings, effort};
pub use tensor::{GraphRef, TensorRef};

/// An `enum lastuse_context_kind` as C passes it: any number.
pub type ContextKind = u32;

/// ggml's status for success.
pub const STATUS_SUCCESS: i32 = 0;
