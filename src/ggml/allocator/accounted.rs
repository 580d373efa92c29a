//! Reports the graph of an allocator's largest plan to the accounting of the process.

use std::collections::HashMap;

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::observe::accounting::{GraphDraft, recorder};
use crate::ggml::read::ReadGraph;
use crate::ggml::read::requested::Requested;
use crate::graph::GraphPlan;
use crate::placement::Bytes;

use super::chunks::Chunks;

/// The largest plan of an allocator, until its chunks are allocated.
#[derive(Debug)]
pub struct AccountedPlan {
    /// The number of the allocator; 0 for one that is not accounted.
    allocator: u64,
    /// The bytes of all its buffers, and the graph.
    waiting: Option<(Bytes, Box<GraphDraft>)>,
}

impl AccountedPlan {
    /// Creates the value for the allocator with this number.
    pub fn new(allocator: u64) -> Self {
        Self { allocator, waiting: None }
    }

    /// Takes a new plan, if it is the largest and anything is recorded.
    pub fn take(
        &mut self,
        types: &[BufferType],
        graph: GraphRef<'_>,
        reading: &ReadGraph<'_>,
        requested: &Requested,
        plan: &GraphPlan,
    ) {
        let bytes = plan.buffers.iter().fold(0, |sum: Bytes, buffer| sum.saturating_add(buffer.placement.size()));
        if self.allocator == 0 || !recorder().takes_graph(self.allocator, bytes) {
            return;
        }
        let Some(runtime) = types.first().map(|buffer_type| buffer_type.runtime()) else { return };
        let ids = reading.ids_by_address();
        let steps: HashMap<usize, usize> = graph.nodes.iter().map(|node| node.address()).zip(0..).collect();
        let buffer_of_step = |step: usize| requested.nodes.get(step).map_or(0, |&buffer| buffer as usize);
        let devices: Vec<String> = types.iter().map(|buffer_type| buffer_type.device_facts().name).collect();
        let draft = GraphDraft::new(
            runtime,
            graph,
            |tensor| ids.get(&tensor.address()).and_then(|&id| plan.placed(id)),
            // A node is requested in the buffer of the backend that executes it, wherever its memory is.
            |node| steps.get(&node.address()).map(|&step| devices[buffer_of_step(step)].clone()),
        );
        self.waiting = Some((bytes, Box::new(draft)));
    }

    /// Tells the accounting, once the chunks of the plan are allocated.
    pub fn tell(&mut self, chunks: &Chunks) {
        if let Some((bytes, draft)) = self.waiting.take() {
            recorder()
                .note_graph(self.allocator, bytes, *draft, |address| Some(chunks.at(address).as_ptr().addr() as u64));
        }
    }

    /// Drops a plan whose chunks cannot be allocated.
    pub fn forget(&mut self) {
        self.waiting = None;
    }
}

impl Drop for AccountedPlan {
    fn drop(&mut self) {
        if self.allocator > 0 {
            recorder().note_allocator_freed(self.allocator);
        }
    }
}
