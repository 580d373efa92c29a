//! Measures the compute buffers that a graph needs: plans it without allocating anything.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::placement::Bytes;

use crate::ggml::allocator::Allocator;
use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::context::PendingTensors;
use crate::ggml::linking::original::Original;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::refusal::NotMeasured;

/// The memory that a graph needs in one buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes that the allocator would allocate; 0 for a buffer type that repeats an earlier one.
    pub size: Bytes,
    /// The peak of live bytes, the lower bound of any plan with these live ranges; 0 if ggml's own allocator measured.
    pub lower_bound: Bytes,
}

impl Need {
    /// Returns the size that is enough for either of two graphs.
    pub fn max(self, other: Self) -> Self {
        Self { size: self.size.max(other.size), lower_bound: self.lower_bound.max(other.lower_bound) }
    }
}

/// Plans `graph` and returns its requirements by buffer id; buffer id `i` refers to `types[i]`, and `None` for the ids
/// means 0. Allocates no buffers and does not change the graph. With `original`, ggml's own allocator measures.
///
/// # Errors
/// [`NotMeasured`].
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them.
///
/// # Panics
/// If there is neither `original` nor a type.
pub unsafe fn measure(
    original: Option<&Original>,
    types: &[BufferType],
    graph: NonNull<ggml_cgraph>,
    node_ids: Option<&[usize]>,
    leaf_ids: Option<&[usize]>,
) -> Result<Vec<Need>, NotMeasured> {
    if let Some(original) = original {
        // SAFETY: a live graph that no other thread uses, as the caller guarantees.
        return unsafe { measure_original(original, types, graph, node_ids, leaf_ids) };
    }
    let mut allocator = Allocator::for_measuring(types[0].runtime(), types);
    if node_ids.is_none() {
        allocator.note_direct_use();
    }
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    allocator.expect_acceptable(unsafe { GraphRef::new(graph) }, node_ids, leaf_ids)?;
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    unsafe { allocator.measure(graph, node_ids, leaf_ids) }?;
    let need = |id| Need { size: allocator.required_size(id), lower_bound: allocator.lower_bound(id) };
    Ok((0..types.len()).map(need).collect())
}

/// # Safety
/// `graph` and its tensors are live, and no other thread uses them.
unsafe fn measure_original(
    original: &Original,
    types: &[BufferType],
    graph: NonNull<ggml_cgraph>,
    node_ids: Option<&[usize]>,
    leaf_ids: Option<&[usize]>,
) -> Result<Vec<Need>, NotMeasured> {
    let reserve_n_size = original.gallocr_reserve_n_size.ok_or(NotMeasured::NoSizeFunction)?;
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    if PendingTensors::is_possible() && !PendingTensors::in_graph(unsafe { GraphRef::new(graph) }).is_empty() {
        return Err(NotMeasured::NotRealized);
    }
    let mut pointers: Vec<_> = types.iter().map(|buffer_type| buffer_type.as_ptr()).collect();
    let count = c_int::try_from(types.len()).unwrap_or(c_int::MAX);
    let (node_ids, leaf_ids) = (c_ids(node_ids), c_ids(leaf_ids));
    let pointer = |ids: &Option<Vec<c_int>>| ids.as_ref().map_or(std::ptr::null(), |ids| ids.as_ptr());
    let mut sizes = vec![0; types.len()];
    // SAFETY: that many live buffer types.
    let galloc = unsafe { (original.gallocr_new_n)(pointers.as_mut_ptr(), count) };
    // SAFETY: a live allocator, graph and lists of ids, and room for one size a buffer type.
    unsafe { reserve_n_size(galloc, graph.as_ptr(), pointer(&node_ids), pointer(&leaf_ids), sizes.as_mut_ptr()) };
    // SAFETY: created above, and not used afterwards.
    unsafe { (original.gallocr_free)(galloc) };
    // ggml counts a repeated type each time, but allocates one buffer.
    let is_repeated = |id: usize| types[..id].contains(&types[id]);
    let size = |id: usize| if is_repeated(id) { 0 } else { sizes[id] as Bytes };
    Ok((0..types.len()).map(|id| Need { size: size(id), lower_bound: 0 }).collect())
}

fn c_ids(ids: Option<&[usize]>) -> Option<Vec<c_int>> {
    let id = |&id: &usize| c_int::try_from(id).unwrap_or(c_int::MAX);
    ids.map(|ids| ids.iter().map(id).collect())
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;

    use super::*;

    /// A ggml older than `ggml_gallocr_reserve_n_size`. None of its functions are called.
    fn old_ggml() -> Original {
        let found = Original::find(|name| {
            if name == c"ggml_gallocr_reserve_n_size" { std::ptr::null() } else { old_ggml as *const c_void }
        });
        found.expect("that function may be missing")
    }

    #[test]
    fn ggml_without_a_measuring_function_is_an_error() {
        // SAFETY: the graph is not read.
        let measured = unsafe { measure(Some(&old_ggml()), &[], NonNull::dangling(), None, None) };
        assert_eq!(measured, Err(NotMeasured::NoSizeFunction));
        assert!(NotMeasured::NoSizeFunction.to_string().contains("ggml_gallocr_reserve_n_size"));
    }
}
