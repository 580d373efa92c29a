//! Redirects results: the tensor becomes a view of the memory that its operation is to write.

use crate::ggml::live::tensor::{MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;

/// The memory that a result is written to.
#[derive(Clone, Copy, Debug)]
pub struct OutputTarget<'g> {
    /// The tensor that owns the memory; no view.
    pub root: TensorRef<'g>,
    /// Bytes from the start of `root`.
    pub offset: usize,
    /// Strides in bytes.
    pub nb: [usize; 4],
}

impl<'g> OutputTarget<'g> {
    /// Returns the memory that `tensor` occupies.
    pub fn of(tensor: TensorRef<'g>) -> Self {
        let root = tensor.view_source().unwrap_or(tensor);
        Self { root, offset: tensor.view_offset(), nb: tensor.nb() }
    }
}

/// The source slot of the tensor in whose memory a result is computed. No kernel reads it, since operations fill their
/// slots from the first on; every traversal of a graph does. [`check_outputs`](super::check::check_outputs) checks,
/// when a graph is planned, that no other node interferes with the result.
pub const OUTPUT_SLOT: usize = MAX_SOURCES - 1;

/// The source slot of that tensor if the caller knows the graph, and that its nodes are in an order in which none
/// interferes: such results are not checked again.
pub const ORDERED_OUTPUT_SLOT: usize = OUTPUT_SLOT - 1;

/// Makes `tensor` a view of `target`, which its operation then writes. `dst` is the tensor in that memory: it becomes a
/// source, so that it is computed and allocated first.
///
/// As in a view that ggml creates, the address is set at once if the root has one; the buffer is left to allocators and
/// schedulers.
pub fn redirect<'g>(tensor: TensorRef<'g>, target: OutputTarget<'g>, dst: TensorRef<'g>) {
    // SAFETY: `target` and `dst` hold no references into the tensor, nor do callers keep any.
    let mut writer = unsafe { TensorMut::new(tensor) };
    writer.set_view(target.root, target.offset);
    writer.set_strides(target.nb);
    writer.set_source(OUTPUT_SLOT, dst);
    let start = target.root.data();
    if !start.is_null() {
        writer.set_memory(std::ptr::null_mut(), start.wrapping_byte_add(target.offset));
    }
}

/// Returns the tensor in whose memory `tensor` is computed, if [`redirect`] was called for it.
pub fn redirected_to(tensor: TensorRef<'_>) -> Option<TensorRef<'_>> {
    tensor.source(OUTPUT_SLOT).filter(|_| tensor.view_source().is_some())
}
