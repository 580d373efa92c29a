//! Results in given memory: a tensor that is computed becomes a view of where it is wanted.

use crate::ggml::live::tensor::{MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;

/// Where a result is to lie.
#[derive(Clone, Copy, Debug)]
pub struct Place<'g> {
    /// The owner of the memory; no view.
    pub root: TensorRef<'g>,
    /// Bytes from its start.
    pub offset: usize,
    /// Strides in bytes.
    pub nb: [usize; 4],
}

impl<'g> Place<'g> {
    /// Where `tensor` lies.
    pub fn of(tensor: TensorRef<'g>) -> Self {
        let root = tensor.view_source().unwrap_or(tensor);
        Self { root, offset: tensor.view_offset(), nb: tensor.nb() }
    }
}

/// The slot for the tensor that a result is wanted in. Nothing that computes looks there: operations fill their slots
/// from the first on. Every walker of graphs does. Whether a graph leaves the result alone is checked when it is planned:
/// see [`super::check_outputs`].
pub const WANTED_SLOT: usize = MAX_SOURCES - 1;

/// The slot for the same where whoever redirects the result knows the graph, and that the order of its nodes is right.
pub const LISTED_SLOT: usize = WANTED_SLOT - 1;

/// Makes `tensor` a view of `place`, which its operation then writes. `wanted` is the tensor that lies there: it becomes
/// a source, so that whatever makes it comes first, and allocators give it memory first.
///
/// As in a view that ggml makes, there is an address at once where the root has one, and no buffer: allocators and
/// schedulers see to that.
pub fn redirect<'g>(tensor: TensorRef<'g>, place: Place<'g>, wanted: TensorRef<'g>) {
    redirect_through(WANTED_SLOT, tensor, place, Some(wanted));
}

/// The same in a graph whose nodes are known to be in an order in which nobody touches that memory at a wrong time. Where
/// the memory is there and nothing has to come first, nothing is wanted.
pub fn redirect_as_listed<'g>(tensor: TensorRef<'g>, place: Place<'g>, wanted: Option<TensorRef<'g>>) {
    redirect_through(LISTED_SLOT, tensor, place, wanted);
}

fn redirect_through<'g>(slot: usize, tensor: TensorRef<'g>, place: Place<'g>, wanted: Option<TensorRef<'g>>) {
    // SAFETY: `place` and `wanted` hold no references into the tensor, nor do callers keep any.
    let mut writer = unsafe { TensorMut::new(tensor) };
    writer.set_view(place.root, place.offset);
    writer.set_strides(place.nb);
    if let Some(wanted) = wanted {
        writer.set_source(slot, wanted);
    }
    let start = place.root.data();
    if !start.is_null() {
        writer.set_memory(std::ptr::null_mut(), start.wrapping_byte_add(place.offset));
    }
}

/// The tensor in whose memory `tensor` is computed because [`redirect`] said so.
pub fn redirected_to(tensor: TensorRef<'_>) -> Option<TensorRef<'_>> {
    tensor.source(WANTED_SLOT).filter(|_| tensor.view_source().is_some())
}
