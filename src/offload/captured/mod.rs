//! Facts about a program from its captured graphs: its weights and caches, and the compute buffers of an offload plan.
//!
//! ```text
//!  Snapshots -> tied     (an embedding that is the output head too)
//!            -> reads    (what runs read and write)
//!            -> identity (what names say, and which tensors of several graphs are one)
//!            -> items    (weights and caches, each once, however many graphs read it)
//!            -> compute  (an assignment of the items, ggml's scheduler, a plan: bytes of each compute buffer)
//! ```

mod tied;
mod reads;
mod identity;
mod items;
mod layers;
mod compute;
#[cfg(test)]
mod tests;

pub use compute::{CapturedCompute, CapturedRule};
pub use identity::{class, layer};
pub use items::{CapturedItems, ItemsError};
pub use layers::{LayerHomes, layer_device};
pub use reads::Reads;
pub use tied::untied;
