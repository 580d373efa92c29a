//! A live graph with the addresses that its tensors have.

use crate::graph::{AddressMap, Graph, Labels, Region, TensorId, describe, simulate_at};
use crate::placement::Bytes;

use super::Violation;
use super::places::check_not_freed;
use crate::ggml::USAGE_COMPUTE;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::{Requested, read};

/// A live graph, and the addresses of its tensors.
#[derive(Debug)]
pub struct PlacedGraph<'g> {
    /// The graph as plain data. Tensors are external unless they are in the buffers to be verified, or have no memory.
    pub graph: Graph,
    /// The tensors, by id.
    pub tensors: Vec<TensorRef<'g>>,
    /// Whether all tensors are leafs or nodes.
    pub all_listed: bool,
    /// Where tensors are in the buffers to be verified, which are the spaces.
    pub places: AddressMap,
    /// The buffer of each space.
    pub buffers: Vec<Space>,
    /// Bytes from the first to the last element, by id.
    pub nbytes: Vec<Bytes>,
}

/// A buffer as an address space.
#[derive(Clone, Debug)]
pub struct Space {
    /// The buffer.
    pub buffer: BufferRef,
    /// Its first address.
    pub base: usize,
    /// The name of its type.
    pub name: String,
}

impl<'g> PlacedGraph<'g> {
    /// Reads `graph`. The buffers to be verified are those for which `is_own` returns `true`.
    pub fn read(runtime: &'static Runtime, graph: GraphRef<'g>, is_own: impl Fn(BufferRef) -> bool) -> Self {
        let reading = read(runtime, &[], graph, &Requested::default());
        let all_listed = reading.listed == reading.tensors.len();
        let nbytes = reading.tensors.iter().map(|&tensor| runtime.nbytes(tensor)).collect();
        let places = AddressMap { spaces: Vec::new(), regions: vec![None; reading.tensors.len()] };
        let mut placed =
            Self { graph: *reading.graph, tensors: reading.tensors, all_listed, places, buffers: Vec::new(), nbytes };
        for (id, tensor) in (0..).zip(placed.tensors.clone()) {
            if placed.graph.tensor(id).view.is_none() {
                placed.place(runtime, id, tensor, &is_own);
            }
        }
        placed
    }

    fn place(
        &mut self,
        runtime: &'static Runtime,
        id: TensorId,
        tensor: TensorRef<'_>,
        is_own: impl Fn(BufferRef) -> bool,
    ) {
        let (buffer, data) = (tensor.buffer_ref(), tensor.data());
        // Empty tensors need no memory, but may have an address.
        let is_empty = self.nbytes[id as usize] == 0;
        let is_unallocated = buffer.is_none() && data.is_null() && !is_empty;
        let buffer = buffer.filter(|&buffer| !data.is_null() && is_own(buffer));
        self.graph.set_external(id, !is_unallocated && buffer.is_none());
        if let Some(buffer) = buffer {
            let space = self.space(runtime, buffer, tensor);
            let start = data.addr().wrapping_sub(self.buffers[space as usize].base) as u64;
            let size = runtime.alloc_size_in(buffer, tensor).max(self.nbytes[id as usize]);
            self.places.regions[id as usize] = Some(Region { space, start, end: start.saturating_add(size) });
        }
    }

    fn space(&mut self, runtime: &'static Runtime, buffer: BufferRef, tensor: TensorRef<'_>) -> u32 {
        let known = self.buffers.iter().position(|space| space.buffer == buffer);
        let index = known.unwrap_or_else(|| {
            let (base, size) = runtime.extent(buffer);
            let name = runtime.buffer_type_of(tensor).map(|buffer_type| buffer_type.name()).unwrap_or_default();
            self.buffers.push(Space { buffer, base: base.addr(), name });
            self.places.spaces.push(size);
            self.buffers.len() - 1
        });
        u32::try_from(index).expect("fewer than 2^32 buffers")
    }

    /// Simulates the graph at its addresses.
    ///
    /// # Errors
    /// [`Violation`] with the first defect.
    pub fn verify(&self, runtime: &Runtime) -> Result<(), Violation> {
        self.check_views(runtime)?;
        let findings = simulate_at(&self.graph, &self.places, &self.nbytes, 1);
        let words = Names { placed: self, runtime };
        let wrong =
            |finding| Violation(format!("the memory of a graph is wrong: {}", describe(&self.graph, finding, &words)));
        findings.first().map_or(Ok(()), |finding| Err(wrong(finding)))
    }

    /// Checks that each view is at its offset in its root.
    fn check_views(&self, runtime: &Runtime) -> Result<(), Violation> {
        for (id, &tensor) in (0..).zip(&self.tensors) {
            let Some(root) = tensor.view_source().filter(|_| !self.graph.tensor(self.graph.root(id)).external) else {
                continue;
            };
            let expected = root.data().addr().wrapping_add(tensor.view_offset());
            let found = tensor.data().addr();
            if !root.data().is_null() && !tensor.data().is_null() && found != expected {
                let (view, offset) = (runtime.describe(tensor), tensor.view_offset());
                let (away, side) = (found.abs_diff(expected), if found > expected { "behind" } else { "before" });
                return Err(Violation(format!(
                    "the memory of a graph is wrong: {view}, a view of {} at offset {offset}, lies {away} bytes {side} that \
                     place",
                    runtime.describe(root)
                )));
            }
        }
        Ok(())
    }
}

/// Simulates a live graph at the addresses of its tensors, whichever allocator assigned them. Tensors outside of
/// compute buffers are not checked.
///
/// # Errors
/// [`Violation`] with the first defect, or if this ggml does not report which buffers are compute buffers.
pub fn verify_graph(runtime: &'static Runtime, graph: GraphRef<'_>) -> Result<(), Violation> {
    if runtime.functions.ggml_backend_buffer_get_usage.is_none() {
        return Err(Violation("this ggml does not report which buffers are compute buffers".to_owned()));
    }
    check_not_freed(graph)?;
    PlacedGraph::read(runtime, graph, |buffer| runtime.usage(buffer) == USAGE_COMPUTE).verify(runtime)
}

/// The names of the tensors and buffers of a live graph, for messages.
struct Names<'a, 'g> {
    placed: &'a PlacedGraph<'g>,
    runtime: &'a Runtime,
}

impl Labels for Names<'_, '_> {
    fn tensor(&self, tensor: TensorId) -> String {
        self.runtime.describe(self.placed.tensors[tensor as usize])
    }

    fn space(&self, space: u32) -> String {
        let several = self.placed.buffers.len() > 1;
        let Space { name, buffer, .. } = &self.placed.buffers[space as usize];
        if several { format!("a {name} buffer ({:p})", buffer.as_ptr()) } else { format!("the {name} buffer") }
    }
}

impl Runtime {
    /// Returns the name of a tensor, and of the operation that computes it.
    pub(in crate::ggml) fn describe(&self, tensor: TensorRef<'_>) -> String {
        format!("{:?} ({})", tensor.name(), self.operations.name(tensor.op()).to_string_lossy())
    }
}
