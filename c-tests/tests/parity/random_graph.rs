//! Random graphs as the lines of a file. Operations have the layouts that the allocator compares; they cannot be
//! computed.
//!
//! Left out is what ggml's allocator is wrong about: OUTPUT on views, views in no list, markers before what they name.

use serde_json::{Value, json};

const IN_PLACE: &[&str] = &["ADD", "MUL", "SCALE", "RMS_NORM", "UNARY", "ROPE", "SOFT_MAX", "CLAMP", "DIAG_MASK_INF"];
const OTHER: &[&str] =
    &["MUL_MAT", "CONT", "GET_ROWS", "GLU", "CONCAT", "FLASH_ATTN_EXT", "NORM", "REPEAT", "SSM_SCAN"];
const ALIGNMENT: u64 = 32;

const INPUT: u32 = 1;
const OUTPUT: u32 = 2;
const COMPUTE: u32 = 16;

/// A ggml element type: its name, and the elements and the bytes of a block.
type Element = (&'static str, i64, u64);

const F32: Element = ("f32", 1, 4);
const ELEMENTS: &[Element] = &[F32, F32, F32, ("f16", 1, 2), ("i32", 1, 4), ("i64", 1, 8), ("q8_0", 32, 34)];

/// The file of a random graph; equal seeds give equal graphs.
pub fn text(seed: u64) -> String {
    let mut draft = Draft { random: Random(seed), tensors: Vec::new(), readable: Vec::new() };
    for _ in 0..1 + draft.random.below(6) {
        draft.add_leaf();
    }
    for _ in 0..1 + draft.random.below(80) {
        draft.add_node();
    }
    draft.write()
}

struct Tensor {
    kind: &'static str,
    op: &'static str,
    element: Element,
    ne: [i64; 4],
    nb: [u64; 4],
    flags: u32,
    external: bool,
    /// Index of the root, and bytes from its start.
    view: Option<(usize, u64)>,
    sources: Vec<usize>,
}

struct Draft {
    random: Random,
    tensors: Vec<Tensor>,
    /// Values that later nodes may read.
    readable: Vec<usize>,
}

impl Draft {
    fn add_leaf(&mut self) {
        let (element, ne) = self.shape();
        let (flags, external) = match self.random.below(4) {
            0 => (0, false),
            1 => (0, true),
            _ => (INPUT, false),
        };
        self.add(Tensor { flags, external, ..owned("leaf", "NONE", element, ne, Vec::new()) }, true);
    }

    fn add_node(&mut self) {
        match self.random.below(20) {
            0..8 => self.add_in_place(),
            8..13 => self.add_other(),
            13..18 => self.add_view(),
            18 => self.add_cast(),
            _ => self.add_marker(),
        }
    }

    /// Adds a node, most of the time with the layout of its first source.
    fn add_in_place(&mut self) {
        let mut sources = vec![self.pick()];
        if self.random.one_in(3) {
            sources.push(self.pick());
        }
        let (mut element, mut ne) = self.layout_of(sources[0]);
        if self.random.one_in(6) {
            (element, ne) = self.shape();
        }
        let op = self.random.one_of(IN_PLACE);
        self.add_result(op, element, ne, sources);
    }

    fn add_other(&mut self) {
        let sources = (0..=self.random.below(4)).map(|_| self.pick()).collect();
        let (element, ne) = if self.random.one_in(2) { self.shape() } else { self.shape_like_some() };
        let op = self.random.one_of(OTHER);
        self.add_result(op, element, ne, sources);
    }

    /// A cast names itself as its second source.
    fn add_cast(&mut self) {
        let source = self.pick();
        let (_, ne) = self.layout_of(source);
        let sources = vec![source, self.tensors.len()];
        self.add_result("CPY", F32, ne, sources);
    }

    fn add_result(&mut self, op: &'static str, element: Element, ne: [i64; 4], sources: Vec<usize>) {
        let mut flags = COMPUTE;
        if self.random.one_in(12) {
            flags |= OUTPUT;
        }
        // ggml plans an input before its sources are counted: one that is computed in place can go wrong there.
        if self.random.one_in(25) && !IN_PLACE.contains(&op) {
            flags |= INPUT;
        }
        self.add(Tensor { flags, ..owned("node", op, element, ne, sources) }, true);
    }

    /// Adds a view: a whole tensor, one with two axes swapped, or some of its rows.
    fn add_view(&mut self) {
        let source = self.pick();
        let Tensor { element, mut ne, mut nb, .. } = self.tensors[source];
        let (root, mut offset) = self.tensors[source].view.unwrap_or((source, 0));
        let op = self.random.one_of(&["RESHAPE", "VIEW", "PERMUTE"]);
        match op {
            "PERMUTE" if element.1 == 1 => {
                ne.swap(0, 1);
                nb.swap(0, 1);
            }
            "VIEW" => {
                let first = self.random.below(ne[1].unsigned_abs());
                let rows = 1 + self.random.below(ne[1].unsigned_abs() - first);
                offset += first * nb[1];
                ne[1] = rows.cast_signed();
            }
            _ => {}
        }
        let view = Some((root, offset));
        let sources = vec![source];
        self.add(Tensor { kind: "node", op, element, ne, nb, flags: COMPUTE, external: false, view, sources }, true);
    }

    /// Adds a control dependency, which keeps its source live up to here, as those of the backend scheduler.
    fn add_marker(&mut self) {
        let source = self.pick();
        let Tensor { element, ne, nb, view, .. } = self.tensors[source];
        let view = Some(view.unwrap_or((source, 0)));
        let sources = vec![source];
        self.add(Tensor { kind: "node", op: "NONE", element, ne, nb, flags: 0, external: false, view, sources }, false);
    }

    fn add(&mut self, tensor: Tensor, readable: bool) {
        if readable {
            self.readable.push(self.tensors.len());
        }
        self.tensors.push(tensor);
    }

    /// Something to read, usually a new value.
    fn pick(&mut self) -> usize {
        let count = self.readable.len() as u64;
        let back = if self.random.one_in(4) { self.random.below(count) } else { self.random.below(count.min(4)) };
        self.readable[self.readable.len() - 1 - usize::try_from(back).unwrap_or(0)]
    }

    fn layout_of(&self, tensor: usize) -> (Element, [i64; 4]) {
        (self.tensors[tensor].element, self.tensors[tensor].ne)
    }

    /// Equal sizes are common in real graphs, and decide which gap is the best.
    fn shape_like_some(&mut self) -> (Element, [i64; 4]) {
        let like = self.pick();
        self.layout_of(like)
    }

    fn shape(&mut self) -> (Element, [i64; 4]) {
        let element = self.random.one_of(ELEMENTS);
        let row = match self.random.below(3) {
            0 => 1 << self.random.below(12),
            1 => 1 + self.random.below(100),
            _ => 1 + self.random.below(5000),
        };
        let rows = if self.random.one_in(3) { 1 } else { 1 + self.random.below(64) };
        let planes = if self.random.one_in(3) { 1 + self.random.below(4) } else { 1 };
        (element, [element.1 * row.cast_signed(), rows.cast_signed(), planes.cast_signed(), 1])
    }

    /// Leafs first, then nodes; ids are neither dense nor in order.
    fn write(&self) -> String {
        let count = |kind| self.tensors.iter().filter(|tensor| tensor.kind == kind).count();
        let buffers = json!([{"name": "CPU", "alignment": ALIGNMENT, "max_size": null}]);
        let mut lines = vec![json!({
            "format": "lastuse-graph", "version": 1, "label": "random",
            "n_leafs": count("leaf"), "n_nodes": count("node"), "buffers": buffers,
        })];
        lines.extend(self.tensors.iter().enumerate().map(|(id, tensor)| tensor.line(id)));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// A contiguous tensor with its own memory.
fn owned(kind: &'static str, op: &'static str, element: Element, ne: [i64; 4], sources: Vec<usize>) -> Tensor {
    let (_, block, size) = element;
    let mut nb = [size; 4];
    for axis in 1..4 {
        let extent = if axis == 1 { ne[0] / block } else { ne[axis - 1] };
        nb[axis] = nb[axis - 1] * extent.unsigned_abs();
    }
    Tensor { kind, op, element, ne, nb, flags: 0, external: false, view: None, sources }
}

impl Tensor {
    /// `ggml_nbytes`.
    fn nbytes(&self) -> u64 {
        let (_, block, size) = self.element;
        let row = if block == 1 {
            size + (self.ne[0] - 1).unsigned_abs() * self.nb[0]
        } else {
            (self.ne[0] / block).unsigned_abs() * size
        };
        row + (1..4).map(|axis| (self.ne[axis] - 1).unsigned_abs() * self.nb[axis]).sum::<u64>()
    }

    fn line(&self, id: usize) -> Value {
        let mut line = json!({
            "id": file_id(id), "kind": self.kind, "op": self.op, "name": format!("t{id}"), "type": self.element.0,
            "ne": self.ne, "nb": self.nb, "nbytes": self.nbytes(), "size": self.nbytes(), "buffer": 0,
            "flags": self.flags, "inplace": IN_PLACE.contains(&self.op), "external": self.external,
            "src": self.sources.iter().map(|&source| file_id(source)).collect::<Vec<_>>(),
        });
        if let Some((root, offset)) = self.view {
            line["view_of"] = file_id(root).into();
            line["view_offset"] = offset.into();
        }
        line
    }
}

fn file_id(id: usize) -> usize {
    7 * id + 3
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap_or(0)]
    }
}
