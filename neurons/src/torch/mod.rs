//! Tensors that `torch.save` has written, with one dimension: both of its formats. A file is never executed.
//!
//! Today's format is a zip archive of a pickle and raw elements, the older one five pickles and raw elements. A
//! pickle is a program that can call any function of Python; here it is a few kinds of data, and every name and
//! operation beyond those that a tensor needs is refused. The crate serde-pickle cannot read them: it does not know
//! persistent ids (BINPERSID), by which torch names the storage of a tensor.
//!
//! - `archive`: zip archives, which rawzip reads
//! - `opcode`, `value`, `pickle`: pickles
//! - `tensor`: a tensor in its storage
//! - `saved`: the two formats

mod archive;
mod opcode;
mod tensor;
mod value;
mod pickle;
mod saved;
#[cfg(test)]
mod tests;

pub use saved::{is_torch, read};
