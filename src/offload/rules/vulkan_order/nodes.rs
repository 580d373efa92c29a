//! The inputs of the order of a split.

use crate::graph::kernels::fusions::GATES;
use crate::graph::{Flags, Op, TensorId};

use super::super::placed_graph::PlacedGraph;

/// The nodes of a split before they are reordered.
pub struct Nodes<'a> {
    placed: PlacedGraph<'a>,
    ids: &'a [TensorId],
    is_copied: &'a dyn Fn(TensorId) -> bool,
    /// By tensor, how often it is a source of a node of the graph.
    uses: &'a [u32],
}

impl<'a> Nodes<'a> {
    pub fn new(
        placed: PlacedGraph<'a>,
        ids: &'a [TensorId],
        is_copied: &'a dyn Fn(TensorId) -> bool,
        uses: &'a [u32],
    ) -> Self {
        Self { placed, ids, is_copied, uses }
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn id(&self, at: usize) -> TensorId {
        self.ids[at]
    }

    pub fn op(&self, at: usize) -> Op {
        self.placed.graph().tensor(self.ids[at]).op
    }

    pub fn is_empty(&self, at: usize) -> bool {
        self.op(at).computes_nothing()
    }

    pub fn sources(&self, at: usize) -> &'a [TensorId] {
        self.placed.graph().sources(self.ids[at])
    }

    /// Returns `true` if the first source of the node at `user` is the node at `source`.
    pub fn is_first_source(&self, user: usize, source: usize) -> bool {
        self.sources(user).first() == Some(&self.ids[source])
    }

    /// Returns `true` if a source is computed by no node: a copy, a weight, a cache or an input.
    pub fn is_given(&self, source: TensorId) -> bool {
        (self.is_copied)(source) || self.placed.graph().tensor(source).op == Op::None
    }

    /// Returns `true` if a node must run after an earlier one: it uses its result, or memory that both touch.
    pub fn depends_on(&self, later: usize, earlier: usize) -> bool {
        let (result, own) = (self.ids[earlier], self.ids[later]);
        let (earlier_root, later_root) = (self.root(result), self.root(own));
        let computes = !self.is_empty(later) && !self.is_empty(earlier);
        let is_memory = |source: &TensorId, root: TensorId| !(self.is_copied)(*source) && self.root(*source) == root;
        let reads = |source: &TensorId| *source == result || (computes && is_memory(source, earlier_root));
        let overwrites = |source: &TensorId| computes && is_memory(source, later_root);
        later_root == earlier_root
            || self.sources(later).iter().any(reads)
            || self.sources(earlier).iter().any(overwrites)
    }

    /// Returns `true` if ROPE or RMS_NORM, a view of its result and the SET_ROWS of that are one kernel: no other node
    /// uses the first two.
    pub fn can_write_rows(&self, [result, view, rows]: [usize; 3]) -> bool {
        let is_only_used_by = |used: usize, users: &[usize]| {
            let id = self.ids[used];
            let inside = users.iter().flat_map(|&user| self.sources(user)).filter(|&&source| source == id).count();
            let flags = self.placed.graph().tensor(id).flags;
            !flags.has(Flags::OUTPUT) && u32::try_from(inside) == Ok(self.uses[id as usize])
        };
        let is_computed = |&at: &usize| self.placed.graph().tensor(self.ids[at]).flags.has(Flags::COMPUTE);
        let is_inside = |at: usize| {
            let root = self.root(self.ids[at]);
            root == self.ids[at]
                || [result, view, rows].iter().any(|&at| self.ids[at] == root)
                || self.is_constant(root)
        };
        [result, view, rows].iter().all(is_computed)
            && is_only_used_by(result, &[view, rows])
            && is_only_used_by(view, &[rows])
            && is_inside(result)
            && is_inside(view)
    }

    /// Returns `true` if a unary operation and a product with its result are one kernel.
    pub fn can_gate(&self, unary: usize, product: usize) -> bool {
        let (unary_id, product_id) = (self.ids[unary], self.ids[product]);
        let [first, second] = self.sources(product) else { return false };
        let other = if *first == unary_id { *second } else { *first };
        let tensors = &self.placed.snapshot.tensors;
        let element = |id: TensorId| tensors[id as usize].element.as_ref();
        let element_size = match element(unary_id) {
            "f32" => 4,
            "f16" => 2,
            _ => return false,
        };
        let is_alike = |id: TensorId| element(id) == element(unary_id);
        let (tiled, into) = if *first == unary_id { (other, unary_id) } else { (unary_id, *first) };
        GATES.contains(&tensors[unary_id as usize].desc.as_ref())
            && is_alike(product_id)
            && is_alike(other)
            && self.has_packed_rows(other, element_size)
            && self.sources(unary).first().is_some_and(|&source| self.has_packed_rows(source, element_size))
            && self.can_repeat(tiled, into)
    }

    fn root(&self, tensor: TensorId) -> TensorId {
        self.placed.graph().root(tensor)
    }

    fn is_constant(&self, tensor: TensorId) -> bool {
        self.placed.is_weight(tensor)
    }

    /// Returns `true` if there are no gaps but between rows.
    fn has_packed_rows(&self, tensor: TensorId, element_size: u64) -> bool {
        let layout = self.placed.graph().layout(tensor);
        let [columns, rows, planes, volumes] = layout.ne.map(i64::unsigned_abs);
        let [column, row, plane, volume] = layout.nb;
        let after_rows = if rows == 1 { element_size.saturating_mul(columns) } else { rows.saturating_mul(row) };
        let after_planes = if planes == 1 { after_rows } else { after_rows.saturating_mul(planes) };
        (columns == 1 || column == element_size)
            && (planes == 1 || plane == after_rows)
            && (volumes == 1 || volume == after_planes)
    }

    /// Returns `true` if every extent of `into` is a multiple of that of `tiled`.
    fn can_repeat(&self, tiled: TensorId, into: TensorId) -> bool {
        let extents = |id: TensorId| self.placed.graph().layout(id).ne;
        let mut both = extents(tiled).into_iter().zip(extents(into));
        both.all(|(tile, whole)| if tile == 0 { whole == 0 } else { whole % tile == 0 })
    }
}
