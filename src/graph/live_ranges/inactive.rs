//! Nodes that no backend computes.
//!
//! A graph can hold alternatives of which one is selected (`ggml_build_forward_select`). The nodes of the others lack
//! [`Flags::COMPUTE`], and backends skip them: they read nothing and write nothing, so they need an address, but no own
//! bytes.

use std::cmp::Reverse;

use crate::graph::{Flags, Graph, Tensor, TensorId};
use crate::placement::{Step, filled};

/// How many nodes are checked together.
const CHUNK: usize = 16;

/// The inactive nodes of a graph.
#[derive(Default)]
pub struct InactiveNodes {
    /// In the order of execution.
    nodes: Vec<(Step, TensorId)>,
    /// By tensor; empty where there are none.
    is_inactive: Vec<bool>,
}

/// Facts about the uses of a tensor beyond the steps that are followed.
pub struct KnownUses<R, A> {
    /// Returns `true` if any node uses a tensor.
    pub is_used: R,
    /// Returns `true` if a node uses a tensor that is not followed.
    pub is_used_after: A,
}

impl InactiveNodes {
    /// Returns the nodes of `graph` that may be inactive, in the order of execution: they lack the flag though others
    /// have it, and `is_allowed` for their steps. Dependency markers, inputs and outputs never are. `consecutive` are the
    /// nodes if their ids are consecutive.
    pub fn candidates(
        graph: &Graph,
        consecutive: Option<&[Tensor]>,
        is_allowed: impl Fn(Step) -> bool,
    ) -> Vec<(Step, TensorId)> {
        let mut found = Vec::new();
        if !graph.has_flag_compute() {
            return found;
        }
        let tensors = graph.tensors();
        let mut first = 0;
        // Most nodes are computed, so several are checked at once.
        for nodes in graph.nodes().chunks(CHUNK) {
            let range = first as usize..first as usize + nodes.len();
            let common = match consecutive.and_then(|all| all.get(range)) {
                Some(nodes) => nodes.iter().fold(u32::MAX, |common, node| common & node.flags.0),
                None => nodes.iter().fold(u32::MAX, |common, &node| common & tensors[node as usize].flags.0),
            };
            if common & Flags::COMPUTE.0 == 0 {
                let may_be =
                    |&(step, node): &(Step, TensorId)| may_be_inactive(&tensors[node as usize]) && is_allowed(step);
                found.extend((first..).zip(nodes.iter().copied()).filter(may_be));
            }
            first += Step::try_from(nodes.len()).expect("few nodes");
        }
        found
    }

    /// Returns those of `candidates` whose results nothing needs: no active node uses them, directly or through views
    /// and other candidates. Follows the steps before `end`. An unused VIEW stays active: the scheduler lists one of
    /// each tensor that it copies to another backend, so that its memory lasts until then.
    pub fn find<R: Fn(TensorId) -> bool, A: Fn(TensorId) -> bool>(
        graph: &Graph,
        candidates: &[(Step, TensorId)],
        end: Step,
        uses: &KnownUses<R, A>,
    ) -> Self {
        let mut is_inactive = filled(false, graph.tensors().len());
        for &(_, node) in candidates {
            let is_kept = graph.tensor(node).op.is_view() && !(uses.is_used)(node);
            is_inactive[node as usize] = !is_kept && !(uses.is_used_after)(node);
        }
        while Self::spread(graph, end, &mut is_inactive) {}
        let nodes = candidates.iter().copied().filter(|&(_, node)| is_inactive[node as usize]).collect();
        Self { nodes, is_inactive }
    }

    /// Marks as active the sources of active nodes and the tensors that these view. Returns `true` if anything changed.
    fn spread(graph: &Graph, end: Step, is_inactive: &mut [bool]) -> bool {
        let mut changed = false;
        for &node in graph.nodes()[..end as usize].iter().rev() {
            if is_inactive[node as usize] {
                continue;
            }
            for &id in graph.sources(node).iter().chain([&node]) {
                for id in [id, graph.root(id)] {
                    changed |= std::mem::take(&mut is_inactive[id as usize]);
                }
            }
        }
        changed
    }

    /// Returns `true` for an inactive node.
    #[inline]
    pub fn has(&self, tensor: TensorId) -> bool {
        self.is_inactive.get(tensor as usize).is_some_and(|&is_inactive| is_inactive)
    }

    /// Returns the inactive nodes, in the order of execution.
    pub fn nodes(&self) -> impl Iterator<Item = TensorId> {
        self.nodes.iter().map(|&(_, node)| node)
    }

    /// Returns what inactive nodes use or are views of, by id, with the step until which ggml's own allocator keeps its
    /// memory for them. It keeps memory with an unused view to the end.
    pub fn last_uses(&self, graph: &Graph) -> Vec<(TensorId, Step)> {
        let mut uses = Vec::new();
        for &(step, node) in &self.nodes {
            for &source in graph.sources(node) {
                uses.push((source, step));
                uses.push((graph.root(source), step));
            }
        }
        let last = latest(uses);
        let mut kept = Vec::new();
        for &(_, node) in &self.nodes {
            let is_used = last.binary_search_by_key(&node, |&(used, _)| used).is_ok();
            if graph.tensor(node).view.is_some() && !is_used {
                kept.push((graph.root(node), Step::MAX));
            }
        }
        kept.extend(last);
        latest(kept)
    }
}

/// Keeps the last use of each tensor, by id.
fn latest(mut uses: Vec<(TensorId, Step)>) -> Vec<(TensorId, Step)> {
    uses.sort_unstable_by_key(|&(used, step)| (used, Reverse(step)));
    uses.dedup_by_key(|&mut (used, _)| used);
    uses
}

fn may_be_inactive(tensor: &Tensor) -> bool {
    const HEEDED: u32 = Flags::COMPUTE.0 | Flags::INPUT.0 | Flags::OUTPUT.0;
    tensor.flags.0 & HEEDED == 0 && !tensor.is_marker()
}
