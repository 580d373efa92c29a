//! The order in which ggml's Vulkan backend runs the nodes of a split (`graph_optimize`), as of ggml 0.26.
//!
//! It brings nodes forward that depend on nothing that is still to run, so that they run side by side, and keeps those
//! together that it runs as one kernel. How long values are live changes with it, and so does the compute buffer.
//!
//! ```text
//!  first node that is left -> it begins one of the patterns: the pattern, as it is
//!                          -> otherwise: it, then of the next 19 those that depend on nothing that is left,
//!                             with the partners of their kernels; then the views that depend on these
//! ```

mod nodes;

use std::collections::HashSet;

use crate::graph::kernels::fusions::{EXPERTS, Ops, SCALED_NORM, SELECTION, SNAKE, STREAM_GATE, WRITTEN_ROWS};
use crate::graph::{Op, TensorId};

use super::backends::KeptUntil;
use super::placed_graph::PlacedGraph;
use nodes::Nodes;

/// How many nodes are looked at together.
const WINDOW: usize = 20;

/// How many positions behind a node its partners are searched for.
const REACH: usize = 15;

/// Sequences whose order is kept. Of [`EXPERTS`] and [`STREAM_GATE`], the inputs stay live until the last operation too, and
/// none of [`SELECTION`] is moved.
const KEPT: [Ops; 7] =
    [SNAKE, SELECTION, SCALED_NORM[2], SCALED_NORM[1], WRITTEN_ROWS[0], WRITTEN_ROWS[1], WRITTEN_ROWS[2]];

/// Pairs that are fused only if the second is the next node.
const ADJACENT: [(Op, Op); 6] = [
    (Op::MulMat, Op::Add),
    (Op::MulMatId, Op::AddId),
    (Op::MulMatId, Op::Mul),
    (Op::Add, Op::Add),
    (Op::SsmConv, Op::Add),
    (Op::SsmConv, Op::Unary),
];

/// Pairs that are fused even if views are between them.
const APART: [(Op, Op); 2] = [(Op::RmsNorm, Op::Mul), (Op::Unary, Op::Mul)];

/// Puts the nodes of a split into the order in which the Vulkan backend runs them, and returns the tensors that it
/// keeps live longer. `uses` are those of the graph; `is_copied` returns `true` for tensors that the split has copies
/// of.
pub fn vulkan_order(
    placed: PlacedGraph<'_>,
    uses: &[u32],
    nodes: &mut [TensorId],
    is_copied: &dyn Fn(TensorId) -> bool,
) -> Vec<KeptUntil> {
    let before = nodes.to_vec();
    let of_split = Nodes::new(placed, &before, is_copied, uses);
    let is_taken = vec![false; before.len()];
    let mut order =
        Order { nodes: &of_split, is_taken, finished: HashSet::new(), first: 0, list: Vec::new(), kept: Vec::new() };
    while order.first < before.len() {
        if !order.keep_pattern() {
            order.take_window();
        }
        order.skip_taken();
    }
    nodes.copy_from_slice(&order.list);
    order.kept
}

struct Order<'a> {
    nodes: &'a Nodes<'a>,
    /// By position: in the list, or on its way into it.
    is_taken: Vec<bool>,
    /// The content of the list.
    finished: HashSet<TensorId>,
    /// The first position that is not taken.
    first: usize,
    list: Vec<TensorId>,
    kept: Vec<KeptUntil>,
}

impl Order<'_> {
    fn skip_taken(&mut self) {
        while self.is_taken.get(self.first) == Some(&true) {
            self.first += 1;
        }
    }

    fn finish(&mut self, at: usize) {
        let id = self.nodes.id(at);
        self.list.push(id);
        self.finished.insert(id);
        self.is_taken[at] = true;
    }

    /// Returns `true` if a pattern begins at a position and none of its nodes is taken.
    fn begins(&self, pattern: Ops, at: usize) -> bool {
        at + pattern.len() <= self.nodes.len()
            && (at..).zip(pattern).all(|(at, &op)| self.nodes.op(at) == op && !self.is_taken[at])
    }

    /// Takes the pattern that begins at the first position, if any does.
    fn keep_pattern(&mut self) -> bool {
        let at_first = |pattern: &&Ops| self.begins(pattern, self.first);
        let (pattern, last) = if let Some(&experts) = EXPERTS.iter().find(at_first) {
            let end = self.first + experts.len();
            let is_scaled = end < self.nodes.len() && self.nodes.op(end) == Op::Scale;
            (experts, Some(if is_scaled { end } else { end - 1 }))
        } else if let Some(&kept) = KEPT.iter().find(at_first) {
            (kept, None)
        } else if self.begins(STREAM_GATE, self.first) {
            (STREAM_GATE, Some(self.first + STREAM_GATE.len() - 1))
        } else {
            return false;
        };
        let range = self.first..self.first + pattern.len();
        if let Some(last) = last {
            self.keep_inputs(range.clone(), last);
        }
        range.for_each(|at| self.finish(at));
        true
    }

    /// Keeps what nodes read, but for results of each other, until the node at `last`.
    fn keep_inputs(&mut self, range: std::ops::Range<usize>, last: usize) {
        let mut seen = HashSet::new();
        let until = self.nodes.id(last);
        for at in range {
            for &source in self.nodes.sources(at) {
                if seen.insert(source) {
                    self.kept.push(KeptUntil { tensor: source, until });
                }
            }
            seen.insert(self.nodes.id(at));
        }
    }

    /// Takes the first node, nodes behind it that need not wait, and views.
    fn take_window(&mut self) {
        let mut set = vec![self.first];
        let end = self.nodes.len().min(self.first + WINDOW);
        for at in self.first + 1..end {
            let is_free = !self.is_taken[at] && !self.nodes.is_empty(at) && !self.is_of_pattern(at);
            if is_free && (self.first..at).all(|before| !self.waits_for(at, before, &set)) {
                set.push(at);
                self.take_partners(at, &mut set);
            }
        }
        if set.last().is_some_and(|&last| self.nodes.op(last) != Op::Add) {
            self.take_views(end, &mut set);
        }
        set.into_iter().for_each(|at| self.finish(at));
    }

    fn is_of_pattern(&self, at: usize) -> bool {
        let begins = |pattern: &Ops| self.begins(pattern, at);
        let is_inside = |offset: usize| at.checked_sub(offset).is_some_and(|start| self.begins(SELECTION, start));
        EXPERTS.iter().chain(&KEPT).any(begins) || self.begins(STREAM_GATE, at) || (0..SELECTION.len()).any(is_inside)
    }

    /// Returns `true` if a node that is not taken must run before another one, and both are not one kernel.
    fn waits_for(&self, at: usize, before: usize, set: &[usize]) -> bool {
        !self.is_taken[before] && self.nodes.depends_on(at, before) && !self.is_fused(before, at, set)
    }

    /// Returns `true` if the last node of the set and a later one are one kernel.
    fn is_fused(&self, before: usize, at: usize, set: &[usize]) -> bool {
        let pair = (self.nodes.op(before), self.nodes.op(at));
        let is_passed = |between: usize| self.is_taken[between] || self.nodes.is_empty(between);
        set.last() == Some(&before)
            && ((APART.contains(&pair) && (before + 1..at).all(is_passed))
                || (ADJACENT.contains(&pair) && at == before + 1))
    }

    /// Takes the nodes that are one kernel with the node at `at`, which was just taken.
    fn take_partners(&mut self, at: usize, set: &mut Vec<usize>) {
        let (op, before) = (self.nodes.op(at), self.nodes.op(at - 1));
        let mut rotated = at;
        if (before, op) == (Op::RmsNorm, Op::Mul)
            && let Some(rope) = self.partner(at, Op::Rope, |found| {
                self.nodes.sources(found).iter().skip(1).all(|&source| self.nodes.is_given(source))
            })
        {
            self.pull(&[rope], set);
            rotated = rope;
        }
        self.take_written_rows(rotated, set);
        let second_is_ready =
            |found: usize| self.nodes.sources(found).get(1).is_some_and(|&other| self.is_ready(other));
        let partner = match (before, op) {
            (Op::MulMatId, Op::AddId) => self.partner(at, Op::Mul, second_is_ready),
            (Op::MulMat, Op::Add) => self.partner(at, Op::Add, second_is_ready),
            (Op::SsmConv, Op::Add) => self.partner(at, Op::Unary, |_| true),
            (_, Op::Unary) => self.product_with(at),
            _ => None,
        };
        if let Some(partner) = partner {
            self.pull(&[partner], set);
        }
    }

    fn pull(&mut self, positions: &[usize], set: &mut Vec<usize>) {
        for &at in positions {
            set.push(at);
            self.is_taken[at] = true;
        }
    }

    /// Returns `true` if a source needs no node that is left.
    fn is_ready(&self, source: TensorId) -> bool {
        self.nodes.is_given(source) || self.finished.contains(&source)
    }

    fn reach(&self, at: usize) -> std::ops::Range<usize> {
        at + 1..self.nodes.len().min(at + REACH)
    }

    /// Returns the next node with this operation whose first source is the node at `at`.
    fn partner(&self, at: usize, op: Op, suits: impl Fn(usize) -> bool) -> Option<usize> {
        let is_partner =
            |&found: &usize| self.nodes.op(found) == op && self.nodes.is_first_source(found, at) && suits(found);
        self.reach(at).filter(|&found| !self.is_taken[found]).find(is_partner)
    }

    /// Returns the next product with the unary operation at `at` that is one kernel with it.
    fn product_with(&self, at: usize) -> Option<usize> {
        let unary = self.nodes.id(at);
        let is_product = |&found: &usize| {
            let is_other_ready = match self.nodes.sources(found) {
                [first, second] if *first == unary => self.is_ready(*second),
                [first, second] if *second == unary => self.is_ready(*first),
                _ => false,
            };
            self.nodes.op(found) == Op::Mul && is_other_ready && self.nodes.can_gate(at, found)
        };
        self.reach(at).filter(|&found| !self.is_taken[found]).find(is_product)
    }

    /// Takes the view and the SET_ROWS by which the result of ROPE or RMS_NORM is written, if nothing is in their way.
    fn take_written_rows(&mut self, at: usize, set: &mut Vec<usize>) {
        if !matches!(self.nodes.op(at), Op::Rope | Op::RmsNorm) {
            return;
        }
        let left = |found: &usize| !self.is_taken[*found];
        let is_view = |&found: &usize| self.nodes.op(found) == Op::View && self.nodes.is_first_source(found, at);
        let Some(view) = self.reach(at).filter(left).find(is_view) else { return };
        let writes = |&found: &usize| self.nodes.op(found) == Op::SetRows && self.nodes.is_first_source(found, view);
        let Some(rows) = self.reach(at).filter(|&found| found > view).filter(left).find(writes) else { return };
        let is_in_the_way = |between: usize| {
            !self.is_taken[between]
                && between != view
                && !self.nodes.is_empty(between)
                && self.nodes.depends_on(rows, between)
        };
        if self.nodes.can_write_rows([at, view, rows]) && !(at + 1..rows).any(is_in_the_way) {
            self.pull(&[view, rows], set);
        }
    }

    /// Takes the views of the window whose sources are taken.
    fn take_views(&self, end: usize, set: &mut Vec<usize>) {
        for at in self.first + 1..end {
            let waits =
                |before: usize| !self.is_taken[before] && !set.contains(&before) && self.nodes.depends_on(at, before);
            if !self.is_taken[at] && self.nodes.is_empty(at) && !(self.first..at).any(waits) {
                set.push(at);
            }
        }
    }
}
