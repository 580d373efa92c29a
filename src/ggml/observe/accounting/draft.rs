//! The tensors of a graph as plain data, with their places.

use std::collections::BTreeMap;

use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::graph::{Address, Flags};
use crate::offload::accounting::{AccountedGraph, AccountedTensor, BufferUsage, MemoryClass};
use crate::placement::Bytes;

use super::describe::{DescribedBuffer, address, usage};
use super::walk::Walk;

/// Where a tensor lies, before its buffer has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftPlace {
    /// It has no memory, or memory in no buffer.
    Nowhere,
    /// At an address of a plan, and these bytes behind it.
    Planned(Address, Bytes),
    /// In the buffer at this address, at this offset.
    In(u64, Bytes),
}

/// A graph with its tensors, and the buffers that they lie in, as far as those are not planned.
#[derive(Clone, Debug)]
pub struct GraphDraft {
    /// The graph; devices, buffer types and locations of its tensors are not set.
    pub graph: AccountedGraph,
    /// By tensor.
    pub places: Vec<DraftPlace>,
    /// Each buffer once.
    pub buffers: Vec<DescribedBuffer>,
}

/// The part of a plan that concerns a tensor: its address, and the bytes that it takes.
type Planned = Option<(Address, Bytes)>;

impl GraphDraft {
    /// Describes a graph. `planned` returns the address of a tensor that a plan places, and `executes` what executes the
    /// node of a tensor.
    pub fn new<'g>(
        runtime: &'static Runtime,
        graph: GraphRef<'g>,
        planned: impl Fn(TensorRef<'g>) -> Planned,
        executes: impl Fn(TensorRef<'g>) -> Option<String>,
    ) -> Self {
        let walk = Walk::new(runtime, graph);
        let mut buffers: BTreeMap<u64, DescribedBuffer> = BTreeMap::new();
        let (mut tensors, mut places) = (Vec::new(), Vec::new());
        for (id, &tensor) in walk.tensors.iter().enumerate() {
            let root = walk.root(tensor);
            let owner = walk.tensors[root];
            let of_owner = planned(owner);
            let within = if root == id { 0 } else { tensor.view_offset() as Bytes };
            let place = match of_owner {
                Some((at, _)) => DraftPlace::Planned(at, within),
                None => place_in_buffer(runtime, owner, within, &mut buffers),
            };
            let bytes = match (root == id, of_owner, tensor.buffer_ref()) {
                (true, Some((_, bytes)), _) => bytes,
                (true, None, Some(buffer)) => runtime.alloc_size_in(buffer, tensor),
                _ => runtime.nbytes(tensor),
            };
            let class =
                if of_owner.is_some() { MemoryClass::Compute } else { class(runtime, owner, walk.is_written[root]) };
            places.push(place);
            tensors.push(AccountedTensor {
                class,
                bytes,
                steps: walk.steps[id],
                executes: walk.is_executed[id].then(|| executes(tensor)).flatten(),
                ..facts(runtime, tensor)
            });
        }
        let graph = AccountedGraph { allocator: None, leafs: graph.leafs.len(), nodes: graph.nodes.len(), tensors };
        Self { graph, places, buffers: buffers.into_values().collect() }
    }
}

/// Returns a tensor of a context that no graph is known to have, and the buffer that it lies in; `None` if it is in none,
/// or a view.
pub fn content(runtime: &'static Runtime, tensor: TensorRef<'_>) -> Option<(DescribedBuffer, AccountedTensor, Bytes)> {
    let buffer = tensor.buffer_ref().filter(|_| tensor.view_source().is_none())?;
    let described = DescribedBuffer::new(runtime, buffer, None, false)?;
    let offset = (tensor.data().addr() as Bytes).checked_sub(described.held.base)?;
    let class = class(runtime, tensor, tensor.name().starts_with("cache_"));
    let bytes = runtime.alloc_size_in(buffer, tensor);
    Some((described, AccountedTensor { class, bytes, ..facts(runtime, tensor) }, offset))
}

fn facts(runtime: &Runtime, tensor: TensorRef<'_>) -> AccountedTensor {
    AccountedTensor {
        name: tensor.name(),
        op: runtime.description(tensor),
        element: runtime.element_name(tensor),
        ne: tensor.ne(),
        class: MemoryClass::Other,
        bytes: 0,
        view_of: tensor.view_source().map(TensorRef::name),
        device: None,
        buffer_type: None,
        location: None,
        steps: None,
        executes: None,
    }
}

/// Returns the place in the buffer of a tensor that no plan places; describes the buffer.
fn place_in_buffer(
    runtime: &'static Runtime,
    owner: TensorRef<'_>,
    within: Bytes,
    buffers: &mut BTreeMap<u64, DescribedBuffer>,
) -> DraftPlace {
    let Some(buffer) = owner.buffer_ref().filter(|_| !owner.data().is_null()) else { return DraftPlace::Nowhere };
    let address = address(buffer);
    if !buffers.contains_key(&address)
        && let Some(described) = DescribedBuffer::new(runtime, buffer, None, false)
    {
        buffers.insert(address, described);
    }
    let base = buffers.get(&address).map(|described| described.held.base);
    let offset = base.and_then(|base| (owner.data().addr() as Bytes).checked_sub(base));
    offset.map_or(DraftPlace::Nowhere, |offset| DraftPlace::In(address, offset.saturating_add(within)))
}

/// Returns the use of a tensor that no plan places. `is_state` if a node writes to it.
fn class(runtime: &Runtime, owner: TensorRef<'_>, is_state: bool) -> MemoryClass {
    let flags = Flags(owner.flags());
    match owner.buffer_ref().map(|buffer: BufferRef| usage(runtime, buffer)) {
        Some(BufferUsage::Weights) => MemoryClass::Weights,
        Some(BufferUsage::Compute) => MemoryClass::Compute,
        _ if flags.has(Flags::PARAM) => MemoryClass::Weights,
        _ if is_state => MemoryClass::Cache,
        _ if owner.op() != 0 || flags.has(Flags::INPUT) => MemoryClass::Other,
        _ => MemoryClass::Weights,
    }
}
