//! Memory for the next graph.
//!
//! A graph of a few hundred tensors is planned in microseconds, of which `malloc` takes a tenth: it is slow for lists
//! of more than a KiB. So an allocator keeps the lists that reading and planning fill. Programs that create an
//! allocator for each graph gain too, since one that is freed leaves its lists to the next.

use crate::ggml::live::ids::Table;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::tensor::TensorRef;
use crate::graph::{self, Graph, GraphPlan};

use super::Requested;

/// With more tensors, `malloc` takes no notable part of the time, and an allocator would hold more than a MiB or two.
const MOST_TENSORS: usize = 1 << 14;

/// How many are held for new allocators, and of how many graphs each has the lists: a program measures one graph while it
/// uses the plan of another.
const MOST: usize = 2;

#[expect(clippy::vec_box, reason = "a workspace is handed over, not moved: it is large")]
static SPARE: Lock<Vec<Box<Workspace>>> = Lock::new(Vec::new());

/// Lists that reading and planning fill. Contents are discarded; capacity is reused.
#[derive(Debug, Default)]
pub struct Workspace {
    /// The table of ids.
    pub ids: Option<Box<Table>>,
    /// The lists of graphs, with the addresses of their tensors and their operations.
    graphs: Vec<(Box<Graph>, Vec<usize>, Vec<u32>)>,
    plans: Vec<GraphPlan>,
    /// For planning.
    plan: graph::Workspace,
    /// The only buffer, for every leaf and node.
    requested: Requested,
}

impl Workspace {
    /// Returns that of an allocator that was freed, if there is one.
    pub fn of_new_allocator() -> Box<Self> {
        SPARE.lock().pop().unwrap_or_default()
    }

    /// Leaves it to the next allocator.
    pub fn leave(self: Box<Self>) {
        let mut spare = SPARE.lock();
        if spare.len() < MOST {
            spare.push(self);
        }
    }

    /// Returns an empty graph, a list of tensors and a list of operations, each with capacity for `tensors`.
    pub fn take_lists<'g>(&mut self, tensors: usize) -> (Box<Graph>, Vec<TensorRef<'g>>, Vec<u32>) {
        let Some((mut graph, mut addresses, mut ops)) = self.graphs.pop() else {
            return (Box::new(Graph::with_capacity(tensors)), Vec::with_capacity(tensors), Vec::with_capacity(tensors));
        };
        graph.reset(tensors);
        addresses.clear();
        addresses.reserve_exact(tensors);
        ops.clear();
        ops.reserve_exact(tensors);
        // Without elements, only the type changes: the list keeps its memory.
        let list = addresses.into_iter().map(|_| -> TensorRef<'g> { unreachable!("the list is empty") }).collect();
        (graph, list, ops)
    }

    /// Takes the lists of a graph that is not needed any more, with the addresses of its tensors and their operations.
    pub fn reuse_lists(&mut self, graph: Box<Graph>, addresses: Vec<usize>, ops: Vec<u32>) {
        if addresses.capacity() <= MOST_TENSORS && self.graphs.len() < MOST {
            self.graphs.push((graph, addresses, ops));
        }
    }

    /// Returns the lists for the next plan, and those of requests.
    pub fn for_planning(&mut self) -> (&mut graph::Workspace, &mut Requested) {
        if let Some(plan) = self.plans.pop() {
            plan.leave_to(&mut self.plan);
        }
        (&mut self.plan, &mut self.requested)
    }

    /// Takes the placement problems of a plan that is in use.
    pub fn reuse_problems(&mut self, plan: &mut GraphPlan) {
        self.plan.reuse_problems(std::mem::take(&mut plan.problems));
    }

    /// Takes the lists of a plan that is not needed any more.
    pub fn reuse_plan(&mut self, plan: GraphPlan) {
        if plan.allocations.len() <= MOST_TENSORS && self.plans.len() < MOST {
            self.plans.push(plan);
        }
    }

    /// Frees the lists if they are those of a graph with many tensors.
    pub fn trim(&mut self, tensors: usize) {
        if tensors > MOST_TENSORS {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_earlier_graphs_are_used_again_unless_they_are_large() {
        for (tensors, is_kept) in [(100, true), (MOST_TENSORS + 1, false)] {
            let mut workspace = Workspace::default();
            let lists: Vec<Vec<usize>> = (0..=MOST).map(|_| Vec::with_capacity(tensors)).collect();
            let memory: Vec<usize> = lists.iter().take(MOST).map(|list| list.as_ptr().addr()).collect();
            lists
                .into_iter()
                .for_each(|list| workspace.reuse_lists(Box::new(Graph::with_capacity(0)), list, Vec::new()));
            let taken: Vec<_> = (0..MOST).map(|_| workspace.take_lists(1).1).collect();
            assert!(taken.iter().all(|list| list.is_empty() && list.capacity() >= 1));
            assert!(taken.iter().all(|list| memory.contains(&list.as_ptr().addr()) == is_kept), "{tensors}");
        }
    }
}
