//! The lists of graphs that were read and are not needed any more.

use crate::ggml::live::spare::Spare;
use crate::ggml::live::tensor::TensorRef;
use crate::graph::Graph;

/// With more tensors, `malloc` takes no notable part of the time, and the process would hold more than a MiB or two.
pub const MOST_TENSORS: usize = 1 << 14;

static SPARE: Spare<SpareLists> = Spare::none();

/// Lists that take memory, without tensors.
pub struct SpareLists {
    /// A graph with capacity for the tensors.
    pub graph: Box<Graph>,
    addresses: Vec<usize>,
    /// The numbers of operations.
    pub ops: Vec<u32>,
}

impl SpareLists {
    /// Returns empty lists with capacity for `tensors`.
    pub fn take(tensors: usize) -> Self {
        let Some(mut lists) = SPARE.take() else {
            let (addresses, ops) = (Vec::with_capacity(tensors), Vec::with_capacity(tensors));
            return Self { graph: Box::new(Graph::with_capacity(tensors)), addresses, ops };
        };
        let Self { graph, addresses, ops } = &mut lists;
        graph.reset(tensors);
        addresses.clear();
        addresses.reserve_exact(tensors);
        ops.clear();
        ops.reserve_exact(tensors);
        lists
    }

    /// Takes the list of tensors.
    pub fn tensors<'g>(&mut self) -> Vec<TensorRef<'g>> {
        let addresses = std::mem::take(&mut self.addresses);
        // Without elements, only the type changes: the list keeps its memory.
        addresses.into_iter().map(|_| -> TensorRef<'g> { unreachable!("the list is empty") }).collect()
    }

    /// Leaves the lists of a graph, with the addresses of its tensors and the numbers of their operations, to the next
    /// graph.
    pub fn leave(graph: Box<Graph>, addresses: Vec<usize>, ops: Vec<u32>) {
        if addresses.capacity() <= MOST_TENSORS {
            SPARE.leave(Self { graph, addresses, ops });
        }
    }
}
