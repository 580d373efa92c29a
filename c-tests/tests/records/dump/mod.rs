//! Dumps of tensors: each array has the bytes that the tensor has when its graph is computed node by node without lastuse,
//! for programs that call lastuse and for unmodified ones.

mod calls;
mod folder;
mod unmodified;
