//! Copies in hand-made graphs.

mod element_order;
mod moves;
mod reasons;

use crate::graph::copies::{CopyFacts, CopyTarget, Found, Freedom, Known, Reason, Storage, find};
use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{Flags, GraphEdit, InPlace, Layout, Op, Slots, Strides, TensorId, View};
use crate::placement::Bytes;

/// The strides that ggml gives a new tensor of 4-byte elements.
fn plain(ne: [i64; 4]) -> Layout {
    let mut nb = [4; 4];
    for d in 1..4 {
        nb[d] = nb[d - 1] * ne[d - 1].unsigned_abs();
    }
    Layout { element: 0, ne, nb }
}

fn bytes(layout: &Layout) -> Bytes {
    layout.ne.iter().map(|extent| extent.unsigned_abs()).product::<u64>() * 4
}

/// A graph whose copies are to be removed.
struct Scene {
    sketch: Sketch,
    known: Vec<Known>,
    target: CopyTarget,
    runs_elsewhere: bool,
    freedom: Freedom,
}

impl Scene {
    /// Creates an empty graph on one CPU backend, with all freedom.
    fn new() -> Self {
        Self {
            sketch: Sketch::new(),
            known: Vec::new(),
            target: CopyTarget::Cpu,
            runs_elsewhere: true,
            freedom: Freedom::LiveRanges,
        }
    }

    fn add(&mut self, list: List, layout: Layout, sources: &[TensorId]) -> TensorId {
        let id = self.sketch.add(list, bytes(&layout), sources);
        self.sketch.draft(id).layout = layout;
        self.known.push(Known { writes: Strides::Rows, memory: Storage::Planned, has_slot: true, fused: 0 });
        id
    }

    fn input(&mut self, ne: [i64; 4]) -> TensorId {
        self.add(List::Leafs, plain(ne), &[])
    }

    /// A leaf in a buffer of the CPU.
    fn cache(&mut self, ne: [i64; 4]) -> TensorId {
        let id = self.input(ne);
        self.sketch.draft(id).tensor.external = true;
        self.known[id as usize].memory = Storage::Buffer { start: 0x1000 * (Bytes::from(id) + 1), cpu: true };
        id
    }

    fn node(&mut self, ne: [i64; 4], sources: &[TensorId]) -> TensorId {
        self.add(List::Nodes, plain(ne), sources)
    }

    /// An elementwise node, which may be computed in place of a source.
    fn elementwise(&mut self, sources: &[TensorId]) -> TensorId {
        let id = self.node(self.layout(sources[0]).ne, sources);
        self.sketch.draft(id).tensor.in_place = InPlace::Listed(Slots::ALL);
        id
    }

    fn layout(&self, id: TensorId) -> Layout {
        self.sketch.drafts[id as usize].layout
    }

    /// A view of some layout, `offset` bytes from where its source starts.
    fn view(&mut self, source: TensorId, offset: Bytes, layout: Layout) -> TensorId {
        let place = self.sketch.drafts[source as usize].tensor.view.unwrap_or(View { root: source, offset: 0 });
        let id = self.add(List::Nodes, layout, &[source]);
        let draft = self.sketch.draft(id);
        draft.tensor.view = Some(View { offset: place.offset + offset, ..place });
        draft.tensor.op = Op::View;
        id
    }

    fn reshape(&mut self, source: TensorId, ne: [i64; 4]) -> TensorId {
        self.view(source, 0, plain(ne))
    }

    /// A view with the dimensions of a source in another order.
    fn permute(&mut self, source: TensorId, order: [usize; 4]) -> TensorId {
        let from = self.layout(source);
        self.view(source, 0, Layout { ne: order.map(|d| from.ne[d]), nb: order.map(|d| from.nb[d]), ..from })
    }

    /// CPY.
    fn copy(&mut self, source: TensorId, place: TensorId) -> TensorId {
        let id = self.view(place, 0, self.layout(place));
        let draft = self.sketch.draft(id);
        draft.sources = vec![source, place];
        draft.tensor.op = Op::Cpy;
        id
    }

    /// CONT to some shape.
    fn cont(&mut self, source: TensorId, ne: [i64; 4]) -> TensorId {
        let id = self.node(ne, &[source]);
        self.sketch.draft(id).tensor.op = Op::Cont;
        id
    }

    /// CONCAT along a dimension.
    fn concat(&mut self, sources: [TensorId; 2], dimension: usize) -> TensorId {
        let mut ne = self.layout(sources[0]).ne;
        ne[dimension] += self.layout(sources[1]).ne[dimension];
        let id = self.node(ne, &sources);
        self.sketch.draft(id).tensor.op = Op::Concat;
        id
    }

    fn flag(&mut self, id: TensorId, flag: Flags) {
        self.sketch.flag(id, flag);
    }

    fn find(&self) -> Found {
        let same_memory: Vec<TensorId> = (0..).take(self.known.len()).collect();
        let facts = CopyFacts {
            tensors: &self.known,
            same_memory: &same_memory,
            target: self.target,
            alignment: 32,
            runs_at: &|_, _| self.runs_elsewhere,
        };
        find(&self.sketch.graph(), facts, self.freedom)
    }

    /// Asserts that all copies are removed.
    #[track_caller]
    fn assert_removed(&self, copies: &[TensorId]) -> Found {
        let found = self.find();
        let mut removed = found.removed.clone();
        removed.sort_unstable();
        assert_eq!((removed.as_slice(), found.left), (copies, [0; Reason::COUNT]));
        found
    }

    /// Asserts that the only copy stays.
    #[track_caller]
    fn assert_left(&self, reason: Reason) {
        let found = self.find();
        let mut left = [0; Reason::COUNT];
        left[reason as usize] = 1;
        assert_eq!(found, Found { left, ..Found::default() });
    }
}

/// Returns the graph without copies.
#[track_caller]
fn edit(found: &Found) -> &GraphEdit {
    found.edit.as_ref().expect("copies are removed")
}

/// Returns the new view and strides of a tensor.
#[track_caller]
fn moved(found: &Found, id: TensorId) -> (Option<View>, [u64; 4]) {
    let edit = edit(found);
    (edit.tensor(id).view, edit.layout(id).nb)
}
