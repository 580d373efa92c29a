//! The nodes that a device computes in a row, with what fusions depend on.

use std::sync::Arc;

use crate::graph::{Flags, Graph, Layout, Op, TensorId};
use crate::placement::Bytes;

/// Returns ggml's description of a tensor: the operation with details, such as `SILU`.
pub type Desc<'a> = &'a dyn Fn(TensorId) -> Arc<str>;

/// Nodes in a row, computed by one device.
pub struct Nodes<'a> {
    pub graph: &'a Graph,
    pub desc: Desc<'a>,
    pub ids: &'a [TensorId],
    /// By tensor, how often it is a source of a node of the graph.
    pub uses: &'a [u32],
    /// Whether nodes without [`Flags::COMPUTE`] are skipped.
    pub skips_inactive: bool,
    /// The alignment of the buffer, in bytes.
    pub alignment: Bytes,
}

impl<'a> Nodes<'a> {
    pub fn op(&self, at: usize) -> Op {
        self.graph.tensor(self.ids[at]).op
    }

    /// Returns `true` if the node at `at` has this description.
    pub fn is(&self, at: usize, desc: &str) -> bool {
        *(self.desc)(self.ids[at]) == *desc
    }

    pub fn sources(&self, at: usize) -> &'a [TensorId] {
        self.graph.sources(self.ids[at])
    }

    pub fn layout(&self, tensor: TensorId) -> Layout {
        *self.graph.layout(tensor)
    }

    /// Returns `true` if the node at `at` exists, has this operation, and is computed.
    pub fn computes(&self, at: usize, op: Op) -> bool {
        at < self.ids.len() && self.op(at) == op && self.is_active(at)
    }

    fn is_active(&self, at: usize) -> bool {
        !self.skips_inactive || self.flags(at).has(Flags::COMPUTE)
    }

    fn flags(&self, at: usize) -> Flags {
        self.graph.tensor(self.ids[at]).flags
    }

    /// Returns `true` if a kernel runs for the node.
    pub fn runs(&self, at: usize) -> bool {
        let has_elements = self.layout(self.ids[at]).ne.iter().all(|&extent| extent > 0);
        has_elements && self.is_active(at) && !self.op(at).computes_nothing()
    }

    /// Returns `true` if nothing but the nodes at `users` reads the node at `at`.
    pub fn is_read_only_by(&self, at: usize, mut users: std::ops::Range<usize>) -> bool {
        let id = self.ids[at];
        let inside = users.by_ref().flat_map(|user| self.sources(user)).filter(|&&source| source == id).count();
        !self.flags(at).has(Flags::OUTPUT) && u32::try_from(inside) == Ok(self.uses[id as usize])
    }

    /// Returns `true` if the node at `at` is a view.
    pub fn is_view(&self, at: usize) -> bool {
        self.graph.tensor(self.ids[at]).view.is_some()
    }

    /// Returns `true` if the node is not a view, or is one of a node in `range` or of a constant.
    pub fn views_inside(&self, at: usize, range: std::ops::Range<usize>) -> bool {
        let Some(view) = self.graph.tensor(self.ids[at]).view else { return true };
        let root = self.graph.tensor(view.root);
        let is_constant = root.external && root.op == Op::None && !root.flags.has(Flags::INPUT);
        is_constant || self.ids[range].contains(&view.root)
    }

    /// Returns `true` for elements of four bytes. Queried tensors never hold integers.
    pub fn is_f32(&self, tensor: TensorId) -> bool {
        self.layout(tensor).nb[0] == 4
    }

    pub fn same_type(&self, one: TensorId, other: TensorId) -> bool {
        self.layout(one).element == self.layout(other).element
    }

    pub fn same_shape(&self, one: TensorId, other: TensorId) -> bool {
        self.layout(one).ne == self.layout(other).ne
    }

    pub fn same_strides(&self, one: TensorId, other: TensorId) -> bool {
        self.layout(one).nb == self.layout(other).nb
    }

    /// Returns `true` if its elements lie without gaps from dimension `from` on.
    pub fn is_contiguous_from(&self, tensor: TensorId, from: usize) -> bool {
        let Layout { ne, nb, .. } = self.layout(tensor);
        let follows = |dim: usize| ne[dim] == 1 || nb[dim] == nb[dim - 1].saturating_mul(ne[dim - 1].unsigned_abs());
        (from.max(1)..4).all(|dim| (dim == from && from > 0) || follows(dim))
    }

    pub fn is_contiguous(&self, tensor: TensorId) -> bool {
        self.is_contiguous_from(tensor, 0)
    }

    /// Returns the number of elements in all dimensions but the first.
    pub fn rows(&self, tensor: TensorId) -> i64 {
        self.layout(tensor).ne[1..].iter().product()
    }

    pub fn elements(&self, tensor: TensorId) -> i64 {
        self.layout(tensor).ne.iter().product()
    }

    /// Returns `true` if it begins at a multiple of the alignment. Tensors with their own memory do.
    pub fn is_aligned(&self, tensor: TensorId) -> bool {
        self.graph.tensor(tensor).view.is_none_or(|view| view.offset.is_multiple_of(self.alignment.max(1)))
    }
}
