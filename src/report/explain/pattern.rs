//! The kind of a tensor by the nodes around it: scores of attention, logits, and others.

use crate::graph::{Flags, Lists, Op, TensorId};
use crate::placement::Step;

use super::case::Case;
use super::explanation::Pattern;
use super::uses::Kept;

/// Maximum number of nodes between a tensor and the node that tells its kind.
const MAX_HOPS: usize = 8;

/// Finds patterns in a graph.
pub struct Patterns<'c, 'a> {
    case: &'c Case<'a>,
    /// By tensor: the nodes that have it as a source.
    consumers: Lists<TensorId>,
    /// The first step of the backward pass, in a graph for training.
    backward: Option<Step>,
    /// Whether backends skip nodes without [`Flags::COMPUTE`].
    has_flag_compute: bool,
}

impl<'c, 'a> Patterns<'c, 'a> {
    /// Visits each node once.
    pub fn of(case: &'c Case<'a>) -> Self {
        let snapshot = case.planned.snapshot;
        let consumers = snapshot.graph.users();
        let nodes = (0..).zip(snapshot.graph.nodes());
        let first_back =
            |(step, &node): (Step, &TensorId)| snapshot.graph.tensor(node).op.name().ends_with("_BACK").then_some(step);
        let backward = nodes.clone().find_map(first_back);
        Self { case, consumers, backward, has_flag_compute: snapshot.graph.has_flag_compute() }
    }

    /// Returns the kind of a tensor, if a pattern is recognized.
    pub fn pattern(&self, id: TensorId) -> Option<Pattern> {
        let (graph, uses) = (&self.case.planned.snapshot.graph, &self.case.uses);
        let is_skipped = self.has_flag_compute && !graph.tensor(id).flags.has(Flags::COMPUTE);
        if uses.step[id as usize].is_some() && is_skipped {
            return Some(Pattern::NotComputed);
        }
        if let (Some(backward), Some(def), Some(last)) = (self.backward, uses.def(id), uses.last_use(id))
            && def < backward
            && last > backward
        {
            return Some(Pattern::KeptForBackward { backward: self.case.node(backward) });
        }
        match self.op(id) {
            Op::Im2col | Op::Im2col3d | Op::Im2colBack => Some(Pattern::Columns),
            _ if self.is_attention_score(id) => Some(Pattern::AttentionScores),
            // A loss needs the logits of all tokens.
            Op::MulMat if self.backward.is_none() => self.logits(id),
            _ => None,
        }
    }

    fn op(&self, id: TensorId) -> Op {
        self.case.planned.snapshot.graph.tensor(id).op
    }

    /// Returns whether a tensor is a product that becomes the operand of a softmax, such an operand, or the result, and the
    /// result is multiplied with the values. A softmax that selects experts is not.
    fn is_attention_score(&self, id: TensorId) -> bool {
        let is_softmax = |id: TensorId| self.op(id) == Op::SoftMax;
        let softmax = if is_softmax(id) {
            Some(id)
        } else {
            let is_scored = [Op::MulMat, Op::Scale, Op::Add, Op::Unary, Op::DiagMaskInf].contains(&self.op(id));
            let between =
                |op: Op| [Op::Scale, Op::Add, Op::Unary, Op::DiagMaskInf, Op::Cont].contains(&op) || op.is_view();
            is_scored.then(|| self.reached(id, &is_softmax, &between)).flatten()
        };
        let is_product = |id: TensorId| [Op::MulMat, Op::OutProd].contains(&self.op(id));
        let between = |op: Op| [Op::Cont, Op::Cpy].contains(&op) || op.is_view();
        softmax.is_some_and(|softmax| self.reached(softmax, &is_product, &between).is_some())
    }

    /// Returns the logits of several tokens: a product that turns a vector for each token into one of at least four
    /// times the elements, and becomes an output, directly or through operations by element.
    fn logits(&self, id: TensorId) -> Option<Pattern> {
        let graph = &self.case.planned.snapshot.graph;
        let ([vocabulary, tokens, 1, 1], [_, operand]) = (graph.layout(id).ne, *graph.sources(id).first_chunk()?)
        else {
            return None;
        };
        let width = graph.layout(operand).ne[0];
        let is_output = |id: TensorId| {
            graph.tensor(id).flags.has(Flags::OUTPUT)
                || (self.consumers.of(id).is_empty() && self.case.uses.kept[id as usize] == Some(Kept::Unused))
        };
        let between = |op: Op| [Op::Scale, Op::Unary, Op::Mul, Op::Add].contains(&op) || op.is_view();
        let ends = is_output(id) || self.reached(id, &is_output, &between).is_some();
        (tokens > 1 && vocabulary >= 4 * width && ends).then_some(Pattern::Logits { tokens })
    }

    /// Returns the nearest node that `is_end` holds for, among those that read a tensor directly or through nodes `between`.
    fn reached(
        &self,
        from: TensorId,
        is_end: &dyn Fn(TensorId) -> bool,
        between: &dyn Fn(Op) -> bool,
    ) -> Option<TensorId> {
        let mut at = vec![from];
        for _ in 0..MAX_HOPS {
            let next: Vec<TensorId> = at.iter().flat_map(|&id| self.consumers.of(id)).copied().collect();
            if let Some(&end) = next.iter().find(|&&id| is_end(id)) {
                return Some(end);
            }
            at = next.into_iter().filter(|&id| between(self.op(id))).collect();
        }
        None
    }
}
