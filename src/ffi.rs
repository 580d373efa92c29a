//! ggml's C types, for Rust programs that pass them between ggml and lastuse.
//!
//! Structs have the layout of the supported versions of ggml as far as lastuse reads them; the rest is opaque.

pub use crate::ggml::{
    ggml_backend_buffer, ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_gallocr, ggml_tensor,
};
