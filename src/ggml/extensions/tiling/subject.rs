//! A live graph as the pass takes it.

use crate::graph::tiling::{Subject, TileKind, Window, detached};
use crate::graph::{Graph, TensorId};
use crate::placement::Bytes;

use crate::ggml::extensions::pass::same_memory;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::read::ReadGraph;

/// The facts about a live graph that the pass uses, as plain data. Equal ones are tiled equally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSubject {
    graph: Graph,
    detached: Option<Graph>,
    same_memory: Vec<TensorId>,
    kinds: Vec<TileKind>,
    nbytes: Vec<Bytes>,
    kept: Vec<bool>,
    unsliced: Vec<bool>,
}

impl LiveSubject {
    /// Returns the facts about a graph that was read with all layouts.
    pub fn of(runtime: &Runtime, reading: &ReadGraph<'_>) -> Self {
        let ReadGraph { graph, tensors, .. } = reading;
        let unsliced: Vec<bool> = tensors.iter().map(|&tensor| !may_be_sliced(runtime, tensor)).collect();
        // Kernels for weights in such memory are not known, nor are bits of their tiles.
        let reads_unsliced = |id: TensorId| graph.sources(id).iter().any(|&it| unsliced[graph.root(it) as usize]);
        let kinds: Vec<TileKind> = tensors.iter().map(|&tensor| kind(runtime, tensor)).collect();
        Self {
            detached: detached(graph, &kinds),
            graph: Graph::clone(graph),
            same_memory: same_memory(runtime, reading),
            kinds,
            nbytes: tensors.iter().map(|&tensor| runtime.nbytes(tensor)).collect(),
            kept: (0..).take(tensors.len()).map(reads_unsliced).collect(),
            unsliced,
        }
    }

    /// Keeps a tensor as it is.
    pub fn keep(&mut self, tensor: TensorId) {
        self.kept[tensor as usize] = true;
    }

    /// Returns the subject of the pass.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            graph: &self.graph,
            detached: self.detached.as_ref(),
            same_memory: &self.same_memory,
            kinds: &self.kinds,
            nbytes: &self.nbytes,
            kept: &self.kept,
            unsliced: &self.unsliced,
        }
    }
}

/// The slots of masks. They may be empty before those of the sinks.
const MASK_OF_SOFT_MAX: usize = 1;
const MASK_OF_FLASH_ATTENTION: usize = 3;

/// Returns `true` if a slot is empty before one that is not.
fn has_gap(tensor: TensorRef<'_>) -> bool {
    let slots = tensor.source_slots();
    let used = slots.iter().take_while(|slot| slot.is_some()).count();
    slots[used..].iter().any(Option::is_some)
}

/// Returns how a live tensor can be tiled, with what its parameters say.
fn kind(runtime: &Runtime, tensor: TensorRef<'_>) -> TileKind {
    let parameters = tensor.parameters();
    match runtime.operations.op(tensor.op()).tiles() {
        // A hint at the values of the first source, which other kernels use.
        TileKind::MatMul if parameters[1] != 0 => TileKind::Other,
        TileKind::SoftMax { .. } => TileKind::SoftMax {
            same_slopes: f32::from_bits(parameters[1].cast_unsigned()) == 0.0,
            has_mask: Some(tensor.source(MASK_OF_SOFT_MAX).is_some()),
        },
        TileKind::FlashAttention { .. } => {
            TileKind::FlashAttention { has_mask: Some(tensor.source(MASK_OF_FLASH_ATTENTION).is_some()) }
        }
        // The table identifies sources by their order, so only these operations may lack one before another.
        _ if has_gap(tensor) => TileKind::Other,
        TileKind::Im2col(_) => {
            let [_, stride, _, padding, _, dilation, is_2d] = [0, 1, 2, 3, 4, 5, 6].map(|at| i64::from(parameters[at]));
            let kernel = tensor.source(0).map_or(0, |kernel| kernel.ne()[1]);
            let window = Window { stride, padding, dilation, kernel };
            if is_2d != 0 && kernel > 0 { TileKind::Im2col(Some(window)) } else { TileKind::Other }
        }
        kind => kind,
    }
}

/// Returns `true` unless the tensor is in memory whose layout only its backend knows, such as that of repacked weights.
fn may_be_sliced(runtime: &Runtime, tensor: TensorRef<'_>) -> bool {
    tensor.buffer_ref().is_none_or(|buffer| runtime.is_host(buffer))
}
