//! Who makes what, and who reads it when.

use crate::graph::order::Effect;
use crate::graph::snapshot::Snapshot;
use crate::graph::{Flags, Graph, GraphPlan, TensorId};
use crate::placement::Step;

use super::Kept;

/// Who makes what, and who reads it when.
#[derive(Debug)]
pub struct Uses {
    /// By tensor: what running it can change.
    pub effects: Vec<Effect>,
    /// By tensor: the step that computes it.
    pub step: Vec<Option<Step>>,
    /// By tensor: does it have memory from the start?
    pub from_start: Vec<bool>,
    /// By owner of memory: the steps that read or write it or a view of it, in their order. Nodes that are only another look
    /// at it do neither.
    pub touched: Vec<Vec<Step>>,
    /// By owner of memory: the first step that names it or a view of it, and the last.
    pub named: Vec<Option<(Step, Step)>>,
    /// By owner of memory: why it is kept to the end.
    pub kept: Vec<Option<Kept>>,
    /// By tensor: is it a source of an inactive node?
    pub read_by_inactive: Vec<bool>,
    /// By owner of memory: its views.
    pub views: Vec<Vec<TensorId>>,
}

impl Uses {
    /// GraphKey at each node once. The inactive ones of `plan` read nothing.
    pub fn of(snapshot: &Snapshot, plan: &GraphPlan) -> Self {
        let graph = &snapshot.graph;
        let count = graph.tensors().len();
        let mut uses = Self {
            effects: snapshot.tensors.iter().map(|tensor| Effect::of(&tensor.op)).collect(),
            step: vec![None; count],
            from_start: graph.tensors().iter().map(|tensor| tensor.flags.has(Flags::INPUT)).collect(),
            touched: vec![Vec::new(); count],
            named: vec![None; count],
            kept: vec![None; count],
            read_by_inactive: vec![false; count],
            views: vec![Vec::new(); count],
        };
        graph.leafs().iter().for_each(|&leaf| uses.from_start[leaf as usize] = true);
        let mut is_named = vec![false; count];
        for (step, &node) in (0..).zip(graph.nodes()) {
            uses.step[node as usize] = Some(step);
            if plan.is_inactive(node) {
                graph.sources(node).iter().for_each(|&source| uses.read_by_inactive[source as usize] = true);
                continue;
            }
            uses.read(graph, node, step);
            graph.sources(node).iter().for_each(|&source| is_named[source as usize] = true);
        }
        uses.find_kept(graph, plan, &is_named);
        uses
    }

    fn read(&mut self, graph: &Graph, node: TensorId, step: Step) {
        let is_view = graph.tensor(node).view.is_some();
        let only_looks = is_view && matches!(self.effects[node as usize], Effect::View | Effect::Nothing);
        let own_root = Some(graph.root(node)).filter(|_| is_view && !only_looks);
        for root in graph.sources(node).iter().map(|&source| graph.root(source)).chain(own_root) {
            let named = self.named[root as usize].get_or_insert((step, step));
            named.1 = step;
            let touched = &mut self.touched[root as usize];
            if !only_looks && root != node && touched.last() != Some(&step) {
                touched.push(step);
            }
        }
    }

    fn find_kept(&mut self, graph: &Graph, plan: &GraphPlan, is_named: &[bool]) {
        for (id, tensor) in (0..).zip(graph.tensors()).filter(|&(id, _)| !plan.is_inactive(id)) {
            let root = graph.root(id) as usize;
            if root != id as usize {
                self.views[root].push(id);
            }
            let is_made = self.step[id as usize].is_some() || self.from_start[id as usize];
            let is_unread = is_made && !is_named[id as usize] && !(root != id as usize && tensor.is_marker());
            if tensor.flags.has(Flags::OUTPUT) {
                self.kept[root] = Some(Kept::Output);
            } else if is_unread && (root != id as usize || self.named[root].is_none()) {
                self.kept[root] = self.kept[root].or(Some(Kept::Unread));
            }
        }
    }

    /// The step at which a tensor gets its memory: `None` for the start.
    pub fn made(&self, id: TensorId) -> Option<Step> {
        let first = || self.named[id as usize].map(|(first, _)| first);
        if self.from_start[id as usize] { None } else { self.step[id as usize].or_else(first) }
    }

    /// The last step that names it or a view of it.
    pub fn last(&self, id: TensorId) -> Option<Step> {
        self.named[id as usize].map(|(_, last)| last)
    }

    /// Is it there, and somebody to read it, at `step`?
    pub fn is_alive(&self, id: TensorId, step: Step) -> bool {
        let ends = self.kept[id as usize].is_none();
        self.made(id).is_none_or(|made| made <= step) && (!ends || self.last(id).is_none_or(|last| last >= step))
    }

    /// Do backends pass over the node? They do over none of a graph in which no node is flagged to be computed.
    pub fn is_passed_over(graph: &Graph, node: TensorId) -> bool {
        !graph.tensor(node).flags.has(Flags::COMPUTE) && graph.has_flag_compute()
    }

    /// Is the node another look at memory, and nothing else?
    pub fn only_looks(&self, node: TensorId) -> bool {
        self.effects[node as usize] == Effect::View
    }
}
