//! A placement problem as a graph whose tensors live exactly as long as its blocks.

use crate::graph::{Graph, Layout, Operation, Tensor, TensorId};
use crate::placement::{Bytes, Problem, Step};

use super::{BufferInfo, Snapshot, TensorInfo};

/// What makes a block, and what reads it last. Nothing is computed in place of them, and nothing is known of either that
/// a planner could use.
const MAKER: &str = "CUSTOM";
const READER: &str = "CUSTOM";

/// What happens to a block. Of the same step, ends come first: a live range is half-open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ends,
    Starts,
}

impl Snapshot {
    /// A graph with one buffer. Each block is a node of its size, and so is the end of its live range: a node without bytes
    /// that reads it. `names` are those of the blocks.
    pub fn of_problem(problem: &Problem, label: &str, names: &[&str]) -> Self {
        let mut builder = Builder { graph: Graph::with_capacity(2 * names.len()), tensors: Vec::new() };
        let mut made: Vec<TensorId> = vec![0; names.len()];
        for (_, event, block) in events(problem) {
            match event {
                Event::Starts => made[block] = builder.add(names[block], MAKER, problem.blocks()[block].size, None),
                Event::Ends => {
                    builder.add(&format!("end of {}", names[block]), READER, 0, Some(made[block]));
                }
            }
        }
        let buffer = BufferInfo {
            name: "blocks".to_owned(),
            alignment: problem.alignment(),
            max_size: problem.max_chunk(),
            ggml_alloc_size: None,
            rules: None,
            effort: None,
        };
        Self { label: label.to_owned(), buffers: vec![buffer], graph: builder.graph, tensors: builder.tensors }
    }
}

/// In the order in which they happen. Blocks that start together keep their order.
fn events(problem: &Problem) -> Vec<(Step, Event, usize)> {
    let blocks = problem.blocks().iter().enumerate();
    let both =
        blocks.flat_map(|(id, block)| [(block.first_step, Event::Starts, id), (block.end_step, Event::Ends, id)]);
    let mut events: Vec<_> = both.collect();
    events.sort_unstable();
    events
}

struct Builder {
    graph: Graph,
    tensors: Vec<TensorInfo>,
}

impl Builder {
    /// A node of bytes that reads at most one other.
    fn add(&mut self, name: &str, op: &str, bytes: Bytes, source: Option<TensorId>) -> TensorId {
        let extent = i64::try_from(bytes).unwrap_or(i64::MAX);
        let layout = Layout { element: 0, ne: [extent, 1, 1, 1], nb: [1, bytes, bytes, bytes] };
        let mut tensor = Tensor::new();
        tensor.operation = Operation::named(op, false);
        let id = self.graph.add(tensor, layout.by_ref());
        self.graph.list_nodes([id]);
        self.graph.push_sources(source.into_iter());
        self.tensors.push(TensorInfo {
            id: u64::from(id),
            name: name.to_owned(),
            op: op.to_owned(),
            desc: op.to_owned(),
            element: "i8".to_owned(),
            nbytes: bytes,
            size: bytes,
            buffer: 0,
            elsewhere: Vec::new(),
        });
        id
    }
}
