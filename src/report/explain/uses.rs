//! Where tensors are defined and used.

use crate::graph::Effect;
use crate::graph::snapshot::Snapshot;
use crate::graph::{Flags, Graph, GraphPlan, TensorId};
use crate::placement::Step;

/// Why memory stays live to the end of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Kept {
    /// It, or a view of it, is an output.
    Output,
    /// It, or a view of it, is retained to the end.
    Retained,
    /// It, or a view of it, has no use.
    #[cfg_attr(feature = "serde", serde(rename = "unread"))]
    Unused,
}

/// Where each tensor is defined and used. An owner is a tensor that is not a view; its views share its memory.
#[derive(Debug)]
pub struct NodeUses {
    /// By tensor: the memory that its operation can change.
    pub effects: Vec<Effect>,
    /// By tensor: the step that computes it.
    pub step: Vec<Option<Step>>,
    /// By tensor: true if it is live from the start.
    pub from_start: Vec<bool>,
    /// By owner: the steps that read or write it or a view of it, sorted. Nodes that only make a view do neither.
    pub accesses: Vec<Vec<Step>>,
    /// By owner: the first and the last step that has it or a view of it as a source, including nodes that only make a view.
    pub references: Vec<Option<(Step, Step)>>,
    /// By owner: why it stays live to the end.
    pub kept: Vec<Option<Kept>>,
    /// By owner: the last step in which it, or a view of it, is retained, if not to the end.
    pub retained_until: Vec<Option<Step>>,
    /// By tensor: true if it is a source of an inactive node.
    pub read_by_inactive: Vec<bool>,
    /// By owner: its views.
    pub views: Vec<Vec<TensorId>>,
}

impl NodeUses {
    /// Visits each node once. The inactive nodes of `plan` read nothing.
    pub fn of(snapshot: &Snapshot, plan: &GraphPlan) -> Self {
        let graph = &snapshot.graph;
        let count = graph.tensors().len();
        let mut uses = Self {
            effects: graph.tensors().iter().map(|tensor| tensor.op.effect()).collect(),
            step: vec![None; count],
            from_start: graph.tensors().iter().map(|tensor| tensor.flags.has(Flags::INPUT)).collect(),
            accesses: vec![Vec::new(); count],
            references: vec![None; count],
            kept: vec![None; count],
            retained_until: vec![None; count],
            read_by_inactive: vec![false; count],
            views: vec![Vec::new(); count],
        };
        graph.leafs().iter().for_each(|&leaf| uses.from_start[leaf as usize] = true);
        let mut is_source = vec![false; count];
        for (step, &node) in (0..).zip(graph.nodes()) {
            uses.step[node as usize] = Some(step);
            if plan.is_inactive(node) {
                graph.sources(node).iter().for_each(|&source| uses.read_by_inactive[source as usize] = true);
                continue;
            }
            uses.add_node(graph, node, step);
            graph.sources(node).iter().for_each(|&source| is_source[source as usize] = true);
        }
        uses.find_kept(graph, plan, &is_source);
        uses.find_retained(graph, plan);
        uses
    }

    fn add_node(&mut self, graph: &Graph, node: TensorId, step: Step) {
        let is_view = graph.tensor(node).view.is_some();
        let only_makes_view = is_view && matches!(self.effects[node as usize], Effect::View | Effect::Nothing);
        let own_root = Some(graph.root(node)).filter(|_| is_view && !only_makes_view);
        for root in graph.sources(node).iter().map(|&source| graph.root(source)).chain(own_root) {
            let references = self.references[root as usize].get_or_insert((step, step));
            references.1 = step;
            let accesses = &mut self.accesses[root as usize];
            if !only_makes_view && root != node && accesses.last() != Some(&step) {
                accesses.push(step);
            }
        }
    }

    fn find_kept(&mut self, graph: &Graph, plan: &GraphPlan, is_source: &[bool]) {
        for (id, tensor) in (0..).zip(graph.tensors()).filter(|&(id, _)| !plan.is_inactive(id)) {
            let root = graph.root(id) as usize;
            if root != id as usize {
                self.views[root].push(id);
            }
            let is_defined = self.step[id as usize].is_some() || self.from_start[id as usize];
            let is_unused = is_defined && !is_source[id as usize] && !(root != id as usize && tensor.is_marker());
            if tensor.flags.has(Flags::OUTPUT) {
                self.kept[root] = Some(Kept::Output);
            } else if is_unused && (root != id as usize || self.references[root].is_none()) {
                self.kept[root] = self.kept[root].or(Some(Kept::Unused));
            }
        }
    }

    /// Finds the retained tensors. Outputs are kept anyway.
    fn find_retained(&mut self, graph: &Graph, plan: &GraphPlan) {
        for (id, until) in graph.retained().into_iter().filter(|&(id, _)| !plan.is_inactive(id)) {
            let root = graph.root(id) as usize;
            match until {
                Some(_) => self.retained_until[root] = self.retained_until[root].max(until),
                None if self.kept[root] != Some(Kept::Output) => self.kept[root] = Some(Kept::Retained),
                None => {}
            }
        }
    }

    /// Returns the step that defines a tensor, or `None` if it is live from the start. A use before def defines it.
    pub fn def(&self, id: TensorId) -> Option<Step> {
        let first = || self.references[id as usize].map(|(first, _)| first);
        if self.from_start[id as usize] { None } else { self.step[id as usize].or_else(first) }
    }

    /// Returns the last step that uses a tensor or a view of it.
    pub fn last_use(&self, id: TensorId) -> Option<Step> {
        self.references[id as usize].map(|(_, last)| last)
    }

    /// Returns the step after which a tensor is no longer needed in the graph: its last use, or its def.
    pub fn needed_until(&self, id: TensorId) -> Step {
        let def = self.def(id).unwrap_or(0);
        self.last_use(id).map_or(def, |last| last.max(def))
    }

    /// Returns whether a tensor is live at `step`.
    pub fn is_live(&self, id: TensorId, step: Step) -> bool {
        let ends = self.kept[id as usize].is_none();
        let last = self.last_use(id).map(|last| self.retained_until[id as usize].map_or(last, |until| until.max(last)));
        self.def(id).is_none_or(|def| def <= step) && (!ends || last.is_none_or(|last| last >= step))
    }

    /// Returns whether backends skip the node. They skip none of a graph in which no node is flagged to be computed.
    pub fn is_skipped(graph: &Graph, node: TensorId) -> bool {
        !graph.tensor(node).flags.has(Flags::COMPUTE) && graph.has_flag_compute()
    }

    /// Returns whether the node makes a view and computes nothing.
    pub fn only_makes_view(&self, node: TensorId) -> bool {
        self.effects[node as usize] == Effect::View
    }
}
