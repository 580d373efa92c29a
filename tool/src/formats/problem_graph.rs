//! A placement problem as a graph whose tensors have the live ranges of its blocks.

use lastuse::graph::snapshot::{BufferInfo, Snapshot, TensorInfo};
use lastuse::graph::{Graph, Layout, Op, Tensor, TensorId};
use lastuse::placement::{Bytes, Problem, Step};

/// The operation of the nodes that define and use a block. A planner knows nothing of it, and computes nothing in
/// place.
const OPERATION: &str = "CUSTOM";

/// The start or end of a live range. At one step ends come first: a live range is half-open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ends,
    Starts,
}

/// Creates a graph with one buffer. Each block is a node of its size, and the end of its live range is a node
/// without bytes that uses it. `names` are those of the blocks.
pub fn graph_of_problem(problem: &Problem, label: &str, names: &[&str]) -> Snapshot {
    let mut builder = ProblemGraph { graph: Graph::with_capacity(2 * names.len()), tensors: Vec::new() };
    let mut defs: Vec<TensorId> = vec![0; names.len()];
    for (_, event, block) in events(problem) {
        match event {
            Event::Starts => defs[block] = builder.add(names[block], problem.blocks()[block].size, None),
            Event::Ends => {
                builder.add(&format!("end of {}", names[block]), 0, Some(defs[block]));
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
    Snapshot { label: label.to_owned(), buffers: vec![buffer], graph: builder.graph, tensors: builder.tensors }
}
/// Returns the starts and ends in the order of their steps. Blocks that start together keep their order.
fn events(problem: &Problem) -> Vec<(Step, Event, usize)> {
    let blocks = problem.blocks().iter().enumerate();
    let both =
        blocks.flat_map(|(id, block)| [(block.first_step, Event::Starts, id), (block.end_step, Event::Ends, id)]);
    let mut events: Vec<_> = both.collect();
    events.sort_unstable();
    events
}

struct ProblemGraph {
    graph: Graph,
    tensors: Vec<TensorInfo>,
}

impl ProblemGraph {
    /// Adds a node of that many bytes, with at most one source.
    fn add(&mut self, name: &str, bytes: Bytes, source: Option<TensorId>) -> TensorId {
        let extent = i64::try_from(bytes).unwrap_or(i64::MAX);
        let layout = Layout { element: 0, ne: [extent, 1, 1, 1], nb: [1, bytes, bytes, bytes] };
        let mut tensor = Tensor::new();
        tensor.set_op(Op::Custom);
        let id = self.graph.add(tensor, layout.by_ref());
        self.graph.list_nodes([id]);
        self.graph.push_sources(source.into_iter());
        self.tensors.push(TensorInfo {
            id: u64::from(id),
            name: name.to_owned(),
            op: OPERATION.into(),
            desc: OPERATION.into(),
            element: "i8".into(),
            nbytes: bytes,
            size: bytes,
            buffer: 0,
            elsewhere: Vec::new(),
        });
        id
    }
}
