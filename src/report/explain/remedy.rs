//! The largest tensors of a peak, and what can be done about them: the peak without each, what grows with the number of
//! tokens, what passes of lastuse save, and the bytes that are live in every order of the nodes.

use crate::graph::{BufferIndex, Flags, Lists, Op, Requests, TensorId, shared_live_ranges};
use crate::placement::{Bytes, Step, lower_bound};

use super::case::Case;
use super::passes::Passes;
use super::remedies::{Batch, Inherent, Large, Pattern, Remedies};
use super::uses::Kept;

/// How many of the largest blocks are looked at.
const MAX_LARGE: usize = 3;

/// Blocks after the first are looked at if they have this part of the peak, in hundredths.
const MIN_PART: Bytes = 5;

/// A peak is inherent if this part of it is live at a node in every order, in hundredths.
const INHERENT: Bytes = 90;

/// Maximum number of nodes that are considered for a peak.
const MAX_NODES: usize = 16;

impl Case<'_> {
    /// Returns the facts about the peak of a buffer at `step`, which has `bytes` live bytes.
    pub fn remedies(&self, buffer: usize, step: Step, bytes: Bytes, passes: &Passes) -> Remedies {
        let blocks = self.blocks_at(buffer, step);
        let patterns = Patterns::of(self);
        let large = |&(block, held): &(u32, Bytes)| {
            let id = self.tensors_at(buffer, block, step).last().copied()?;
            let (lower_bound_without, peak_without) = self.peak_without(buffer, block);
            Some(Large {
                tensor: self.named(id),
                shape: self.shape(id),
                bytes: held,
                lower_bound_without,
                peak_without,
                pattern: patterns.pattern(id),
            })
        };
        let is_part =
            |part: Bytes, hundredths: Bytes| u128::from(part) * 100 >= u128::from(bytes) * u128::from(hundredths);
        let is_large = |(number, (_, held)): &(usize, &(u32, Bytes))| {
            *number == 0 || (*number < MAX_LARGE && is_part(*held, MIN_PART))
        };
        let is_kept = |&(block, _): &(u32, Bytes)| {
            let id = self.tensors_at(buffer, block, step).last().copied();
            id.is_some_and(|id| matches!(patterns.pattern(id), Some(Pattern::KeptForBackward { .. })))
        };
        let kept_for_backward = blocks.iter().filter(|block| is_kept(block)).map(|&(_, held)| held).sum();
        let lowered = passes.lowering(self, buffer);
        // A pass changes what the nodes need, so what they need in every order is no limit to it.
        let is_limit = passes.all_tried && lowered.is_empty();
        let inherent = is_limit.then(|| self.inherent(buffer, step)).flatten();
        Remedies {
            largest: blocks.iter().enumerate().filter(is_large).filter_map(|(_, block)| large(block)).collect(),
            batch: self.batch(buffer, step),
            kept_for_backward,
            passes: lowered,
            inherent: inherent.filter(|inherent| is_part(inherent.bytes(), INHERENT)),
        }
    }

    /// Returns what grows with the number of tokens in a buffer; `None` if no input holds several tokens, nothing of the peak
    /// grows with them, or no work is left to find out.
    fn batch(&self, buffer: usize, step: Step) -> Option<Batch> {
        let tokens = self.tokens().filter(|&tokens| tokens > 1)?;
        let blocks = self.blocks_at(buffer, step);
        let growing = blocks.iter().filter(|&&(block, _)| {
            self.tensors_at(buffer, block, step).last().is_some_and(|&id| self.grows(id, tokens))
        });
        let grows = growing.map(|&(_, bytes)| bytes).sum();
        if grows == 0 || !self.may_try(1) {
            return None;
        }
        Some(Batch { tokens, grows, lower_bound_of_half: self.bounds_of_half(tokens)?.get(buffer).copied()? })
    }

    /// Returns the number of tokens that an input holds.
    fn tokens(&self) -> Option<i64> {
        let snapshot = self.planned.snapshot;
        let of_input = |&id: &TensorId| {
            let is_input = snapshot.graph.tensor(id).flags.has(Flags::INPUT);
            let is_named = snapshot.tensors[id as usize].name.contains("token");
            match snapshot.graph.layout(id).ne {
                [tokens, 1, 1, 1] if is_input && is_named => Some(tokens),
                _ => None,
            }
        };
        snapshot.graph.leafs().iter().find_map(of_input)
    }

    /// Returns whether a tensor has something for each token.
    fn grows(&self, id: TensorId, tokens: i64) -> bool {
        let ne = self.planned.snapshot.graph.layout(id).ne;
        ne[1..].contains(&tokens) || ne == [tokens, 1, 1, 1]
    }

    /// Returns the lower bounds, by buffer, if everything that grows with the tokens had half the bytes.
    fn bounds_of_half(&self, tokens: i64) -> Option<Vec<Bytes>> {
        let (snapshot, buffers) = (self.planned.snapshot, self.planned.buffers);
        let (leafs, nodes) = snapshot.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, buffer: BufferIndex| {
            let size = snapshot.tensors[id as usize].size_in(buffer);
            if self.grows(id, tokens) { size.div_ceil(2) } else { size }
        };
        let mut found = shared_live_ranges(&snapshot.graph, buffers, requests, &mut sizes).ok()?;
        Some(found.take_problems(buffers).iter().map(lower_bound).collect())
    }

    /// Returns the most that is live in a buffer in every order of the nodes, at the node of the peak or at one that
    /// uses the largest tensor there.
    fn inherent(&self, buffer: usize, peak: Step) -> Option<Inherent> {
        let mut steps = vec![peak];
        for (block, _) in self.blocks_at(buffer, peak) {
            for id in self.tensors_at(buffer, block, peak) {
                steps.extend(&self.uses.accesses[id as usize]);
            }
            if steps.len() >= MAX_NODES {
                break;
            }
        }
        steps.truncate(MAX_NODES);
        let found = steps.into_iter().map(|step| self.inherent_at(buffer, step));
        found.reduce(|most, other| if other.bytes() > most.bytes() { other } else { most })
    }

    /// Returns the bytes that are live in a buffer at the node of a step in every order of the nodes. Blocks count
    /// once, with the bytes of the largest tensor for which that holds.
    fn inherent_at(&self, buffer: usize, step: Step) -> Inherent {
        let mut found = Inherent { node: self.node(step), of_node: 0, across: 0 };
        let graph = &self.planned.snapshot.graph;
        let Some(&node) = graph.nodes().get(step as usize) else { return found };
        let sources: Vec<TensorId> = graph.sources(node).iter().map(|&source| graph.root(source)).collect();
        let before = closure(graph.nodes().len(), step, |step| self.hazards().before(step));
        let after = closure(graph.nodes().len(), step, |step| self.hazards().after(step));
        let is_across = |id: TensorId| {
            let is_accessed = |steps: &[bool]| self.uses.accesses[id as usize].iter().any(|&step| steps[step as usize]);
            let is_before = self.uses.def(id).map_or_else(|| is_accessed(&before), |def| before[def as usize]);
            is_before && (self.uses.kept[id as usize].is_some() || is_accessed(&after))
        };
        // Another order may leave the node as the last one that reads such a source, so its result may be in place of it.
        let is_longer_live = |&id: &TensorId| self.uses.last_use(id).is_some_and(|last| last > step) && !is_across(id);
        let result = Some(graph.root(node)).filter(|_| !sources.iter().any(is_longer_live));
        for (block, held) in self.blocks_at(buffer, step) {
            let size = |&id: &TensorId| self.allocation(id, buffer).map_or(0, |it| self.bytes(it)).min(held);
            let tensors = self.tensors_at(buffer, block, step);
            let is_of_node = |id: &&TensorId| sources.contains(id) || result == Some(**id);
            let of_node = tensors.iter().filter(is_of_node).map(size).max();
            found.of_node += of_node.unwrap_or(0);
            found.across += match of_node {
                Some(_) => 0,
                None => tensors.iter().filter(|&&id| is_across(id)).map(size).max().unwrap_or(0),
            };
        }
        found
    }
}

/// Returns, by step, whether it follows from a step; the step itself does not.
fn closure<'a>(count: usize, step: Step, next: impl Fn(Step) -> &'a [Step]) -> Vec<bool> {
    let mut follows = vec![false; count];
    let mut waiting = next(step).to_vec();
    while let Some(step) = waiting.pop() {
        if !std::mem::replace(&mut follows[step as usize], true) {
            waiting.extend_from_slice(next(step));
        }
    }
    follows
}

/// Maximum number of nodes between a tensor and the node that tells its kind.
const MAX_HOPS: usize = 8;

/// Finds patterns in a graph.
struct Patterns<'c, 'a> {
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
    fn of(case: &'c Case<'a>) -> Self {
        let snapshot = case.planned.snapshot;
        let consumers = snapshot.graph.users();
        let nodes = (0..).zip(snapshot.graph.nodes());
        let first_back =
            |(step, &node): (Step, &TensorId)| snapshot.graph.tensor(node).op.name().ends_with("_BACK").then_some(step);
        let backward = nodes.clone().find_map(first_back);
        Self { case, consumers, backward, has_flag_compute: snapshot.graph.has_flag_compute() }
    }

    /// Returns the kind of a tensor, if a pattern is recognized.
    fn pattern(&self, id: TensorId) -> Option<Pattern> {
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
