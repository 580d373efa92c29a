//! Computes graphs element by element: which elements of its sources each element of a result is made of.
//!
//! A value is a number made of the values that it depends on. Memory begins without values: reads before the first
//! write are found, and so are tiles that write twice.

use std::collections::HashMap;

use crate::graph::{Effect, Graph, Layout, TensorId};

use super::super::{TileKind, Window};
use super::case::ELEMENT;

/// The values in the memory of each root, by element.
pub struct Values<'g> {
    graph: &'g Graph,
    kinds: &'g [TileKind],
    memory: HashMap<TensorId, Vec<Option<u64>>>,
}

fn mix(one: u64, other: u64) -> u64 {
    (one ^ other.rotate_left(31).wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .wrapping_mul(0xBF58_476D_1CE4_E5B9)
        .rotate_left(17)
}

fn indices(ne: [i64; 4]) -> impl Iterator<Item = [i64; 4]> {
    let all = (0..ne[3]).flat_map(move |l| (0..ne[2]).map(move |k| [k, l]));
    all.flat_map(move |[k, l]| (0..ne[1]).map(move |j| [j, k, l]))
        .flat_map(move |[j, k, l]| (0..ne[0]).map(move |i| [i, j, k, l]))
}

impl<'g> Values<'g> {
    /// Computes all nodes. `seeds` has the number of each leaf.
    pub fn of(graph: &'g Graph, kinds: &'g [TileKind], seeds: impl Fn(TensorId) -> u64) -> Self {
        let mut values = Self { graph, kinds, memory: HashMap::new() };
        for (id, tensor) in (0..).zip(graph.tensors()) {
            if tensor.view.is_none() {
                let bytes = graph.layout(id).nb.iter().zip(&graph.layout(id).ne).map(|(nb, ne)| nb * ne.unsigned_abs());
                let elements = usize::try_from(bytes.max().unwrap_or(0) / ELEMENT).expect("small");
                values.memory.insert(id, vec![None; elements]);
            }
        }
        for &leaf in graph.leafs() {
            let elements = values.memory.get_mut(&leaf).expect("a leaf has memory");
            for (at, element) in (0..).zip(elements) {
                *element = Some(mix(seeds(leaf), at));
            }
        }
        for &node in graph.nodes() {
            if graph.tensor(node).op.effect() == Effect::Result {
                values.compute(node);
            }
        }
        values
    }

    fn at(&self, id: TensorId, index: [i64; 4]) -> (TensorId, usize) {
        let layout = self.graph.layout(id);
        let offset = self.graph.tensor(id).view.map_or(0, |view| view.offset);
        let bytes: u64 = offset + layout.nb.iter().zip(index).map(|(nb, at)| nb * at.unsigned_abs()).sum::<u64>();
        (self.graph.root(id), usize::try_from(bytes / ELEMENT).expect("small"))
    }

    /// Returns the value of an element.
    pub fn read(&self, id: TensorId, index: [i64; 4]) -> u64 {
        let (root, at) = self.at(id, index);
        self.memory[&root][at].unwrap_or_else(|| panic!("element {index:?} of {id} is read before it is written"))
    }

    /// Returns all values of a tensor.
    pub fn all(&self, id: TensorId) -> Vec<u64> {
        indices(self.graph.layout(id).ne).map(|index| self.read(id, index)).collect()
    }

    fn compute(&mut self, node: TensorId) {
        let ne = self.graph.layout(node).ne;
        let found: Vec<([i64; 4], u64)> = indices(ne).map(|index| (index, self.element(node, index))).collect();
        for (index, value) in found {
            let (root, at) = self.at(node, index);
            let element = &mut self.memory.get_mut(&root).expect("a root has memory")[at];
            assert_eq!(*element, None, "element {index:?} of {node} is written twice");
            *element = Some(value);
        }
    }

    fn element(&self, node: TensorId, [i, j, k, l]: [i64; 4]) -> u64 {
        let sources = self.graph.sources(node);
        let layout = |slot: usize| -> &Layout { self.graph.layout(sources[slot]) };
        let row = |slot: usize, [j, k, l]: [i64; 3]| {
            (0..layout(slot).ne[0]).fold(11, |sum, i| mix(sum, self.read(sources[slot], [i, j, k, l])))
        };
        let broadcast = |slot: usize| {
            let at = [i, j, k, l];
            let index = std::array::from_fn(|dimension| at[dimension] % layout(slot).ne[dimension]);
            self.read(sources[slot], index)
        };
        match self.kinds[node as usize] {
            TileKind::Unary => mix(1, self.read(sources[0], [i, j, k, l])),
            TileKind::Copy => self.read(sources[0], [i, j, k, l]),
            TileKind::Binary => mix(broadcast(0), broadcast(1)),
            TileKind::Gated => mix(self.read(sources[0], [i, j, k, l]), self.read(sources[1], [i, j, k, l])),
            TileKind::Rows => mix(row(0, [j, k, l]), self.read(sources[0], [i, j, k, l])),
            TileKind::SoftMax { has_mask, .. } => {
                let sum = mix(row(0, [j, k, l]), self.read(sources[0], [i, j, k, l]));
                let mask = |mask: &TensorId| {
                    let ne = self.graph.layout(*mask).ne;
                    self.read(*mask, [i, j, k % ne[2], l % ne[3]])
                };
                let (mask_of, sinks) = match (has_mask, &sources[1..]) {
                    (Some(false), rest) => (None, rest.first()),
                    (_, rest) => (rest.first(), rest.get(1)),
                };
                let sum = mix(sum, mask_of.map_or(5, mask));
                mix(sum, sinks.map_or(6, |sinks| self.read(*sinks, [k, 0, 0, 0])))
            }
            TileKind::MatMul => {
                let (first, result) = (layout(0).ne, self.graph.layout(node).ne);
                let of_first = [i, k / (result[2] / first[2]), l / (result[3] / first[3])];
                mix(row(0, of_first), row(1, [j, k, l]))
            }
            TileKind::MatMulId => {
                let of_experts = (0..layout(0).ne[2]).fold(7, |sum, expert| mix(sum, row(0, [i, expert, 0])));
                let id = self.read(sources[2], [j, k, 0, 0]);
                mix(mix(of_experts, id), row(1, [j % layout(1).ne[1], k, 0]))
            }
            TileKind::Im2col(window) => self.window(node, window, [i, j, k, l]),
            kind => panic!("{kind:?} is not computed here"),
        }
    }

    fn window(&self, node: TensorId, window: Option<Window>, [i, j, k, l]: [i64; 4]) -> u64 {
        let [kernel, input] = [0, 1].map(|slot| self.graph.sources(node)[slot]);
        let (kernel, extents) = (self.graph.layout(kernel).ne, self.graph.layout(input).ne);
        let result = self.graph.layout(node).ne;
        let likely = |dimension: usize, result: i64| Window::of_extents(kernel[dimension], extents[dimension], result);
        let rows = window.or_else(|| likely(1, result[2])).expect("a window");
        let columns = likely(0, result[1]).expect("a window");
        let [x, y, channel] = [i % kernel[0], i / kernel[0] % kernel[1], i / (kernel[0] * kernel[1])];
        let column = j * columns.stride + x * columns.dilation - columns.padding;
        let row = k * rows.stride + y * rows.dilation - rows.padding;
        let is_inside = (0..extents[0]).contains(&column) && (0..extents[1]).contains(&row);
        if is_inside { self.read(input, [column, row, channel, l]) } else { 0 }
    }
}
