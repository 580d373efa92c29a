//! The key by which a live graph is recognized as the planned one.
//!
//! Programs rebuild their graph for every token, usually in the same memory. A graph whose tensors are at the addresses
//! of the planned ones, and in which planning would read the same values, need not be planned again.

use crate::graph::{Graph, Tensor, TensorId, id_of};

use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::outputs::redirect::redirected_to;

/// Identifies a planned graph, besides the fields that planning reads. Every tensor is a leaf or a node, except some
/// that came with memory; a leaf may be listed twice.
#[derive(Debug)]
pub struct GraphKey {
    /// The address of each tensor, by id.
    pub(super) addresses: Vec<usize>,
    /// ggml's number of each operation, by id; not compared for constants.
    pub(super) ops: Vec<u32>,
    /// The tensors whose results are redirected.
    redirected: Vec<TensorId>,
    /// A reference to each tensor in neither list.
    unlisted: Vec<UnlistedRef>,
    /// [`Sample`] of the graph.
    pub(super) sample: Sample,
}

/// A few nodes of a graph in 64 bits: tells most graphs apart before their tensors are compared, such as those of other
/// shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(u64);

impl Sample {
    /// Returns the sample of `graph`.
    pub fn of(graph: GraphRef<'_>) -> Self {
        let nodes = graph.nodes;
        Self::of_nodes([nodes.first(), nodes.get(nodes.len() / 2), nodes.last()].into_iter().flatten().copied())
    }

    /// Returns the sample of a graph with these tensors, by their ids in `plain`.
    fn of_tensors(tensors: &[TensorRef<'_>], plain: &Graph) -> Self {
        let nodes = plain.nodes();
        let sampled = [nodes.first(), nodes.get(nodes.len() / 2), nodes.last()].into_iter().flatten();
        Self::of_nodes(sampled.map(|&node| tensors[node as usize]))
    }

    fn of_nodes<'g>(nodes: impl Iterator<Item = TensorRef<'g>>) -> Self {
        // Arbitrary, and odd.
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        let words = nodes.flat_map(|node| {
            let [a, b, c, d] = node.ne().map(i64::cast_unsigned);
            [node.address() as u64, u64::from(node.op()), a, b, c, d]
        });
        Self(words.fold(0, |hash: u64, word| (hash.rotate_left(23) ^ word).wrapping_mul(FACTOR)))
    }
}

/// The first reference from a listed tensor to one that is in neither list.
#[derive(Clone, Copy, Debug)]
struct UnlistedRef {
    /// The listed tensor that refers to it.
    by: TensorId,
    /// Its position among the sources of `by`; `None` if it is the root that `by` is a view of.
    source: Option<usize>,
}

impl GraphKey {
    /// Creates the key of a graph with these tensors, read as `plain`; the first `listed` of them are leafs or nodes.
    pub fn new(
        tensors: Vec<TensorRef<'_>>,
        ops: Vec<u32>,
        redirected: Vec<TensorId>,
        plain: &Graph,
        listed: usize,
    ) -> Self {
        let unlisted = if tensors.len() > listed { unlisted_refs(plain, listed) } else { Vec::new() };
        let sample = Sample::of_tensors(&tensors, plain);
        Self { addresses: tensors.into_iter().map(address).collect(), ops, redirected, unlisted, sample }
    }

    /// Returns `true` if `graph` is the planned graph, which was read as `plain`. Constants are compared by address
    /// only.
    pub fn matches(&self, graph: GraphRef<'_>, plain: &Graph) -> bool {
        if graph.leafs.len() != plain.leafs().len() || graph.nodes.len() != plain.nodes().len() {
            return false;
        }
        // Whether a result may be redirected also depends on the buffers, layouts and sources of unlisted tensors.
        if !self.unlisted.is_empty() && !self.redirected.is_empty() {
            return false;
        }
        let first_node = plain.nodes().first().map_or(0, |&node| node as usize);
        // Graphs of one model have the same leafs, and differ in their nodes.
        self.tensors_match(plain, first_node, graph.nodes)
            && plain.leafs().iter().zip(graph.leafs).all(|(&id, &leaf)| self.leaf_matches(plain, id as usize, leaf))
            && self.unlisted.iter().all(|reference| reference.has_memory(graph))
    }

    fn leaf_matches(&self, plain: &Graph, id: usize, leaf: TensorRef<'_>) -> bool {
        let is_constant = leaf.is_constant();
        let is_same = || if is_constant { true } else { self.tensors_match(plain, id, &[leaf]) };
        address(leaf) == self.addresses[id] && is_constant == is_planned_constant(plain, id) && is_same()
    }

    /// Returns `true` if `tensors` are those with the ids from `first` on in `plain`, and planning would read the same
    /// of them.
    fn tensors_match(&self, plain: &Graph, first: usize, tensors: &[TensorRef<'_>]) -> bool {
        let known = self.addresses[first..].iter().zip(&self.ops[first..]);
        let planned = plain.tensors()[first..].iter().zip(&plain.layout_ids()[first..]);
        (first..).zip(tensors.iter().zip(known).zip(planned)).all(
            #[inline(always)]
            |(id, ((&tensor, (&known, &op)), (planned, &layout)))| {
                let are_fields_equal = (address(tensor) == known)
                    & (tensor.op() == op)
                    & (tensor.flags() == planned.flags.0)
                    & tensor.layout().is(plain.layout_by_id(layout));
                are_fields_equal && self.memory_matches(planned, tensor) && self.sources_match(plain, id, tensor)
            },
        )
    }

    #[inline(always)]
    fn memory_matches(&self, planned: &Tensor, tensor: TensorRef<'_>) -> bool {
        match (planned.view, tensor.view_source()) {
            (None, None) => tensor.has_memory() == planned.external,
            (Some(view), Some(root)) => {
                (address(root) == self.addresses[view.root as usize]) & (tensor.view_offset() as u64 == view.offset)
            }
            _ => false,
        }
    }

    #[inline(always)]
    fn sources_match(&self, plain: &Graph, id: usize, tensor: TensorRef<'_>) -> bool {
        let planned = plain.sources(id_of(id));
        let (slots, others) = tensor.used_slots();
        let is_planned = |(at, slot): (usize, &Option<TensorRef<'_>>)| {
            slot.map_or(0, address) == planned.get(at).map_or(0, |&known| self.addresses[known as usize])
        };
        // Nearly all tensors have few sources, in the first slots.
        let is_same = others.is_none() && planned.len() <= slots.len() && slots.iter().enumerate().all(is_planned);
        (is_same && self.redirected.is_empty()) || self.sources_match_in_any_slot(planned, id, tensor)
    }

    /// Returns `true` if the sources are the `planned` tensors, in whichever slots.
    #[cold]
    fn sources_match_in_any_slot(&self, planned: &[TensorId], id: usize, tensor: TensorRef<'_>) -> bool {
        let planned = planned.iter().map(|&known| self.addresses[known as usize]);
        tensor.sources().map(address).eq(planned) && self.redirection_matches(id, tensor)
    }

    /// Compares whether the result is redirected: the only case in which a slot has a meaning.
    fn redirection_matches(&self, id: usize, tensor: TensorRef<'_>) -> bool {
        redirected_to(tensor).is_some() == self.redirected.contains(&id_of(id))
    }
}

impl UnlistedRef {
    /// Returns `true` if the tensor is a root with memory. Nothing else is read of unlisted tensors.
    fn has_memory(&self, graph: GraphRef<'_>) -> bool {
        let by = self.by as usize;
        let by = graph.leafs.get(by).or_else(|| graph.nodes.get(by - graph.leafs.len()));
        let tensor = by.and_then(|by| match self.source {
            Some(at) => by.sources().nth(at),
            None => by.view_source(),
        });
        tensor.is_some_and(|tensor| tensor.has_memory() && tensor.view_source().is_none())
    }
}

/// Returns the first reference to each tensor after the first `listed` ones.
fn unlisted_refs(plain: &Graph, listed: usize) -> Vec<UnlistedRef> {
    let mut known = vec![false; plain.tensors().len() - listed];
    let mut references = Vec::new();
    for (by, tensor) in (0..).zip(&plain.tensors()[..listed]) {
        let sources = plain.sources(by).iter().enumerate().map(|(at, &source)| (source, Some(at)));
        for (id, source) in sources.chain(tensor.view.map(|view| (view.root, None))) {
            if let Some(known) = (id as usize).checked_sub(listed).and_then(|index| known.get_mut(index))
                && !std::mem::replace(known, true)
            {
                references.push(UnlistedRef { by, source });
            }
        }
    }
    references
}

fn is_planned_constant(plain: &Graph, id: usize) -> bool {
    let tensor = &plain.tensors()[id];
    tensor.external && tensor.view.is_none() && plain.sources(id_of(id)).is_empty()
}

fn address(tensor: TensorRef<'_>) -> usize {
    tensor.as_ptr().addr()
}
