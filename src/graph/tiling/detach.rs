//! Nodes that a program computes in place of a source get their own memory where that makes no difference: planning
//! puts them in place again, and tiles of them can be tiled.

use crate::graph::{Effect, Flags, Graph, Rules, TensorId, View};

use super::operations::TileKind;

/// Returns the graph in which such nodes own their memory: no node reads the source afterwards, except through them.
/// `None` if there are none.
pub fn detached(graph: &Graph, kinds: &[TileKind]) -> Option<Graph> {
    let mut detached = graph.clone();
    let mut by_root: Vec<Vec<TensorId>> = vec![Vec::new(); graph.tensors().len()];
    let mut steps: Vec<Option<usize>> = vec![None; graph.tensors().len()];
    for (step, &node) in graph.nodes().iter().enumerate() {
        steps[node as usize] = Some(step);
    }
    // In the order of the nodes; those that are not listed come first, and are not known.
    for id in (0..)
        .take(graph.tensors().len())
        .filter(|&id| steps[id as usize].is_none())
        .chain(graph.nodes().iter().copied())
    {
        if let Some(view) = graph.tensor(id).view {
            by_root[view.root as usize].push(id);
        }
    }
    let facts = Detachment { graph, kinds, steps: &steps };
    for (root, members) in (0..).zip(&by_root).filter(|(_, members)| !members.is_empty()) {
        for (id, view) in facts.views(root, members).unwrap_or_default() {
            match view {
                Some(view) => detached.set_view(id, view),
                None => detached.clear_view(id),
            }
        }
    }
    (detached != *graph).then_some(detached)
}

struct Detachment<'a> {
    graph: &'a Graph,
    kinds: &'a [TileKind],
    /// By tensor: its step.
    steps: &'a [Option<usize>],
}

impl Detachment<'_> {
    /// Returns the new views of the tensors in the memory of `root`; `None` if they stay as they are.
    fn views(&self, root: TensorId, members: &[TensorId]) -> Option<Vec<(TensorId, Option<View>)>> {
        let fixed = Flags(Flags::OUTPUT.0 | Flags::INPUT.0 | Flags::PARAM.0 | Flags::LOSS.0);
        let tensor = self.graph.tensor(root);
        let is_computed = self.graph.tensor(root).op.effect() == Effect::Result;
        if !tensor.is_owned() || !is_computed || tensor.flags.has(fixed) || self.graph.retention().of(root).is_some() {
            return None;
        }
        let mut owner = root;
        let mut since = self.steps[root as usize]?;
        // By member and the root: the step from which it represents the memory.
        let mut owners = vec![(root, since)];
        let mut current = vec![root];
        let mut views = Vec::new();
        for &id in members {
            let (step, view) = (self.steps[id as usize]?, self.graph.tensor(id).view?);
            let sources = self.graph.sources(id);
            let others = sources.get(1..)?.iter().any(|&source| self.graph.root(source) == root);
            if others || step <= since || !current.contains(sources.first()?) {
                return None;
            }
            if self.kinds[id as usize].is_view() {
                let new = View { root: owner, ..view };
                views.extend((owner != root).then_some((id, Some(new))));
            } else {
                if !self.is_in_place(id, sources[0], root, view) {
                    return None;
                }
                (owner, since) = (id, step);
                current.clear();
                owners.push((id, step));
                views.push((id, None));
            }
            current.push(id);
        }
        if owner == root {
            return None;
        }
        let is_in_order = self.graph.nodes().iter().enumerate().all(|(step, &node)| {
            self.graph.sources(node).iter().filter(|&&it| self.graph.root(it) == root).all(|&source| {
                let made = self.steps[source as usize].unwrap_or(0);
                let next = owners.iter().map(|&(_, start)| start).find(|&start| start > made);
                next.is_none_or(|next| step <= next)
            })
        });
        is_in_order.then_some(views)
    }

    /// Returns `true` if a node could as well have its own memory, separate from its first source.
    fn is_in_place(&self, node: TensorId, source: TensorId, root: TensorId, view: View) -> bool {
        let layout = self.graph.layout(node);
        let is_same = layout == self.graph.layout(source) && layout == self.graph.layout(root) && view.offset == 0;
        let is_known =
            self.kinds[node as usize] != TileKind::Other && self.graph.tensor(node).op.effect() == Effect::Result;
        is_same && is_known && Rules::GGML.allow(self.graph.tensor(node).in_place, 0)
    }
}
