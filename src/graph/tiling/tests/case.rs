//! Graphs of operations with real shapes, a call per node.

use crate::graph::tests::sketch::{List, Sketch};
use crate::graph::{
    BufferIndex, BufferSpec, Flags, Layout, NotChanged, Op, Requests, Rules, TensorId, View, Wishes, Workspace, plan,
    simulate,
};
use crate::placement::{Bytes, validate};
use crate::testing::Random;

use super::super::{Known, TileKernels, TileKind, TileableGraph, TiledGraph, TilingEffort, TilingLimits, tile};

/// Bytes of an element.
pub const ELEMENT: Bytes = 4;

/// A graph to tile, with the fields that a sketch lacks.
pub struct Case {
    pub sketch: Sketch,
    pub kinds: Vec<TileKind>,
    pub kept: Vec<bool>,
    pub unsliced: Vec<bool>,
    pub kernels: TileKernels,
    /// Whether a node is IM2COL.
    pub convolves: bool,
}

pub fn packed(ne: [i64; 4]) -> Layout {
    Layout { element: 0, ne, nb: [0; 4] }.packed(ELEMENT)
}

impl Case {
    pub fn new() -> Self {
        Self {
            sketch: Sketch::new(),
            kinds: Vec::new(),
            kept: Vec::new(),
            unsliced: Vec::new(),
            kernels: TileKernels::Cpu,
            convolves: false,
        }
    }

    fn put(&mut self, id: TensorId, kind: TileKind, layout: Layout) -> TensorId {
        let draft = self.sketch.draft(id);
        let steps = layout.nb.iter().zip(&layout.ne).map(|(&nb, &ne)| nb * (ne.unsigned_abs() - 1));
        draft.nbytes = steps.sum::<Bytes>() + ELEMENT;
        draft.size = draft.nbytes;
        draft.layout = layout;
        self.kinds.push(kind);
        self.kept.push(false);
        self.unsliced.push(false);
        id
    }

    /// A weight or an input with its own memory.
    pub fn leaf(&mut self, ne: [i64; 4]) -> TensorId {
        let id = self.sketch.leaf(ELEMENT);
        self.sketch.draft(id).tensor.external = true;
        self.put(id, TileKind::Other, packed(ne))
    }

    /// A node with ggml's name of its operation.
    pub fn node(&mut self, name: &str, ne: [i64; 4], sources: &[TensorId]) -> TensorId {
        let id = self.sketch.node(ELEMENT, sources);
        let is_listed = ["ADD", "MUL", "UNARY", "SOFT_MAX", "SCALE"].contains(&name);
        let tensor = &mut self.sketch.draft(id).tensor;
        tensor.op = Op::named(name);
        tensor.in_place = tensor.op.in_place(is_listed);
        self.put(id, Op::named(name).tiles(), packed(ne))
    }

    pub fn layout(&self, id: TensorId) -> Layout {
        self.sketch.drafts[id as usize].layout
    }

    pub fn ne(&self, id: TensorId) -> [i64; 4] {
        self.layout(id).ne
    }

    fn view(&mut self, of: TensorId, name: &str, layout: Layout, offset: Bytes) -> TensorId {
        let memory = self.sketch.drafts[of as usize].tensor.view.unwrap_or(View { root: of, offset: 0 });
        let id = self.node(name, layout.ne, &[of]);
        self.sketch.draft(id).tensor.view = Some(View { offset: memory.offset + offset, ..memory });
        self.sketch.draft(id).tensor.external = self.sketch.drafts[of as usize].tensor.external;
        self.kinds.pop();
        self.kept.pop();
        self.unsliced.pop();
        self.put(id, TileKind::View, layout)
    }

    pub fn reshape(&mut self, of: TensorId, ne: [i64; 4]) -> TensorId {
        self.view(of, "RESHAPE", packed(ne), 0)
    }

    /// Dimension `d` of the source becomes `to[d]`, as in ggml.
    pub fn permute(&mut self, of: TensorId, to: [usize; 4]) -> TensorId {
        let given = self.layout(of);
        let mut layout = given;
        for (from, &to) in to.iter().enumerate() {
            (layout.ne[to], layout.nb[to]) = (given.ne[from], given.nb[from]);
        }
        self.view(of, "PERMUTE", layout, 0)
    }

    /// The elements from `first` on, `len` of them, in a dimension.
    pub fn range(&mut self, of: TensorId, dimension: usize, first: u64, len: i64) -> TensorId {
        let mut layout = self.layout(of);
        layout.ne[dimension] = len;
        let offset = layout.nb[dimension] * first;
        self.view(of, "VIEW", layout, offset)
    }

    /// Rows of a quarter of the elements, each beginning one element or half a row after the one before.
    pub fn overlapping(&mut self, of: TensorId, random: &mut Random) -> TensorId {
        let all: i64 = self.ne(of).iter().product();
        let columns = (all / 4).max(1);
        let step = if random.chance(50) { 1 } else { (columns / 2).max(1) };
        let rows = ((all - columns) / step + 1).min(40);
        let layout = packed([columns, rows, 1, 1]);
        let [element, stride] = [1, step].map(|elements| elements.unsigned_abs() * ELEMENT);
        let after = stride * rows.unsigned_abs();
        self.view(of, "VIEW", Layout { nb: [element, stride, after, after], ..layout }, 0)
    }

    pub fn mul_mat(&mut self, first: TensorId, second: TensorId) -> TensorId {
        let (one, other) = (self.ne(first), self.ne(second));
        self.node("MUL_MAT", [one[1], other[1], other[2], other[3]], &[first, second])
    }

    pub fn flag(&mut self, id: TensorId, flag: Flags) {
        self.sketch.flag(id, flag);
    }

    pub fn requests(&self) -> (Vec<BufferIndex>, Vec<BufferIndex>) {
        (self.sketch.requests(List::Leafs), self.sketch.requests(List::Nodes))
    }

    pub fn known(&self) -> Vec<Known> {
        let drafts = (0..).zip(&self.sketch.drafts).zip(&self.kinds);
        let known = drafts.map(|((id, draft), &kind)| Known::of_given(id, kind, draft.nbytes));
        let limits = self.kept.iter().zip(&self.unsliced);
        known.zip(limits).map(|(known, (&kept, &unsliced))| Known { kept, unsliced, ..known }).collect()
    }

    pub fn buffers(&self, rules: Rules) -> Vec<BufferSpec> {
        self.sketch.buffers_with(rules)
    }

    pub fn given_bytes(&self, rules: Rules) -> Bytes {
        self.sketch.plan(rules).bytes()
    }

    pub fn search(
        &self,
        rules: Rules,
        limits: TilingLimits,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<TiledGraph, NotChanged> {
        let (leafs, nodes) = self.requests();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let subject =
            TileableGraph { graph: self.sketch.graph(), detached: None, known: self.known(), kernels: self.kernels };
        let mut sizes = |id: TensorId, _: BufferIndex| self.sketch.drafts[id as usize].size;
        tile(&subject, &self.buffers(rules), requests, &mut sizes, limits, progress)
    }

    /// Tiles for a budget with one thread, and asserts that the new plan is right.
    pub fn tile(&self, rules: Rules, budget: Bytes) -> TiledGraph {
        let limits = TilingLimits { budget, threads: 1, effort: TilingEffort(1_000_000) };
        let found = self.search(rules, limits, &mut |_| true).expect("a graph");
        self.assert_plan(rules, &found);
        found
    }

    fn assert_plan(&self, rules: Rules, found: &TiledGraph) {
        let draft = &found.draft;
        let mut given = |id: TensorId, _: BufferIndex| self.sketch.drafts[id as usize].size;
        let mut sizes = |id: TensorId, buffer: BufferIndex| draft.alloc_size(&mut given, id, buffer);
        let plan = plan(
            &draft.graph,
            &self.buffers(rules),
            draft.requests(),
            &mut sizes,
            Wishes::default(),
            &mut Workspace::default(),
        )
        .expect("small sizes");
        for (problem, buffer) in plan.problems.iter().zip(&plan.buffers) {
            assert_eq!(validate(problem, &buffer.placement), Ok(()));
        }
        let nbytes: Vec<Bytes> = draft.known.iter().map(|known| known.nbytes).collect();
        assert_eq!(simulate(&draft.graph, &plan, &nbytes), Ok(()));
        let bytes: Bytes = plan.buffers.iter().map(|buffer| buffer.placement.size()).sum();
        assert_eq!((found.before, found.after), (self.given_bytes(rules), bytes));
    }
}
