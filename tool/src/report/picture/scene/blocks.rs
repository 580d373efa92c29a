//! Divides blocks into rectangles, one for each tensor in them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use lastuse::graph::{Allocation, BufferIndex, Flags, Graph, TensorId};
use lastuse::placement::{BlockId, Bytes, Step, padded};

use super::{PlanView, Sharing, Span};

/// Returns all rectangles of a plan, in drawing order.
pub fn spans(view: &PlanView<'_>) -> Vec<Span> {
    let computed = computing_steps(&view.snapshot.graph);
    let mut spans = Vec::new();
    for ((buffer, block), tensors) in tensors_of_blocks(view) {
        spans.extend(SharedBlock { view, buffer, block, tensors }.spans(&computed));
    }
    mark_retained(&mut spans, &view.snapshot.graph);
    spans
        .sort_by_key(|span| (span.sharing != Sharing::Reserved, span.start, span.sharing != Sharing::Own, span.tensor));
    spans
}

/// Marks the retained tensors. A plan that was made without regard to it may keep a tensor for a shorter time.
fn mark_retained(spans: &mut [Span], graph: &Graph) {
    let mut ends: HashMap<TensorId, Step> = HashMap::new();
    for (tensor, until) in graph.retained() {
        let end = ends.entry(graph.root(tensor)).or_default();
        *end = until.map_or(graph.steps(), |step| step + 1).max(*end);
    }
    for span in spans.iter_mut().filter(|span| span.sharing != Sharing::Reserved) {
        span.is_retained = ends.get(&span.tensor).is_some_and(|end| span.visible_until >= *end);
    }
}

/// Returns the step that computes each tensor.
fn computing_steps(graph: &Graph) -> Vec<Option<Step>> {
    let mut steps = vec![None; graph.tensors().len()];
    for (step, &node) in (0..).zip(graph.nodes()) {
        // An input has its value from the start.
        if !graph.tensor(node).flags.has(Flags::INPUT) {
            steps[node as usize].get_or_insert(step);
        }
    }
    steps
}

fn tensors_of_blocks(view: &PlanView<'_>) -> BTreeMap<(BufferIndex, BlockId), Vec<(TensorId, Allocation)>> {
    let mut blocks: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (id, allocation) in (0..).zip(&view.plan.allocations) {
        if let Some(allocation) = allocation {
            blocks.entry((allocation.buffer, allocation.block)).or_default().push((id, *allocation));
        }
    }
    blocks
}

/// A block with the tensors in it.
struct SharedBlock<'a> {
    view: &'a PlanView<'a>,
    buffer: BufferIndex,
    block: BlockId,
    tensors: Vec<(TensorId, Allocation)>,
}

impl SharedBlock<'_> {
    fn spans(mut self, computed: &[Option<Step>]) -> Vec<Span> {
        let block = self.view.plan.problems[self.buffer as usize].blocks()[self.block as usize];
        let def = |tensor: TensorId| computed[tensor as usize].unwrap_or(block.first_step).max(block.first_step);
        self.tensors.sort_by_key(|(tensor, allocation)| (def(*tensor), Reverse(allocation.alloc_size), *tensor));
        let mut spans: Vec<Span> = self
            .tensors
            .iter()
            .map(|(tensor, allocation)| self.span(*tensor, allocation, [def(*tensor), block.end_step]))
            .collect();
        if let [only] = spans.as_mut_slice() {
            // A use before def allocates it before it is computed.
            only.start = block.first_step;
        }
        divide_along_time(&mut spans);
        let result = spans.iter().max_by_key(|span| (span.size, Reverse(span.start))).copied();
        mark_operands(&mut spans, result);
        let reserved = result.filter(|result| result.start > block.first_step && result.sharing == Sharing::Own);
        let until = |result: Span| Span { start: block.first_step, end: result.start, ..result };
        spans.extend(reserved.map(until).map(|span| Span {
            visible_until: span.end,
            sharing: Sharing::Reserved,
            ..span
        }));
        spans
    }

    fn span(&self, tensor: TensorId, allocation: &Allocation, [start, end]: [Step; 2]) -> Span {
        let plan = self.view.plan;
        let address = plan.address(*allocation);
        let size: Bytes = padded(allocation.alloc_size, plan.problems[self.buffer as usize].alignment());
        let sharing = if allocation.in_place_of.is_some() { Sharing::InPlace } else { Sharing::Own };
        let (buffer, chunk, offset, block) = (address.buffer, address.chunk, address.offset, self.block);
        Span {
            tensor,
            buffer,
            chunk,
            block,
            offset,
            size,
            start,
            end: end.max(start + 1),
            visible_until: end,
            sharing,
            is_retained: false,
        }
    }
}

/// Ends each tensor where another is computed in place of it. In that step, its last use, both are live.
fn divide_along_time(spans: &mut [Span]) {
    for index in 0..spans.len() {
        let (before, after) = spans.split_at_mut(index + 1);
        let span = &mut before[index];
        if let Some(next) = after.iter().find(|next| share_bytes(span, next)) {
            span.end = (next.start + 1).min(span.end);
            span.visible_until = next.start.max(span.start);
        }
    }
}

fn share_bytes(one: &Span, other: &Span) -> bool {
    one.offset < other.offset + other.size && other.offset < one.offset + one.size
}

/// Marks the operands that are computed inside `result`.
fn mark_operands(spans: &mut [Span], result: Option<Span>) {
    let Some(result) = result.filter(|result| result.sharing == Sharing::Own) else { return };
    let operands = spans.iter_mut().filter(|span| span.start < result.start && span.sharing == Sharing::Own);
    operands.for_each(|operand| operand.sharing = Sharing::Inside);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::read_graph;
    use crate::report::picture::tests::{drawn, joined, scaled_twice, text};
    use lastuse::graph::Rules;

    fn spans_of(lines: &[serde_json::Value]) -> Vec<Span> {
        let snapshot = read_graph(text(lines).as_bytes()).expect("the graph is right");
        let plan = snapshot.plan(Rules::ALL).expect("sizes are small");
        spans(&PlanView { label: "lastuse", snapshot: &snapshot, plan: &plan })
    }

    fn times(spans: &[Span]) -> Vec<(TensorId, [Step; 3], Sharing)> {
        spans.iter().map(|span| (span.tensor, [span.start, span.visible_until, span.end], span.sharing)).collect()
    }

    #[test]
    fn tensor_is_drawn_from_its_def_to_its_last_use() {
        let spans = spans_of(&drawn(&[("MUL_MAT", &[0]), ("MUL_MAT", &[1]), ("MUL_MAT", &[2])]));
        let expected = [(0, [0, 1, 1]), (1, [0, 2, 2]), (2, [1, 3, 3]), (3, [2, 3, 3])];
        assert_eq!(times(&spans), expected.map(|(id, times)| (id, times, Sharing::Own)));
    }

    #[test]
    fn block_with_results_in_place_is_divided_along_time() {
        let spans = spans_of(&scaled_twice());
        let expected = [
            (0, [0, 1, 1], Sharing::Own),
            (1, [0, 1, 2], Sharing::Own),
            (2, [1, 2, 3], Sharing::InPlace),
            (3, [2, 3, 3], Sharing::InPlace),
        ];
        assert_eq!(times(&spans), expected);
        assert!(spans[1..].iter().all(|span| span.block == spans[1].block && span.offset == spans[1].offset));
    }

    #[test]
    fn operands_lie_inside_a_result_and_the_rest_is_reserved() {
        let spans = spans_of(&joined());
        let [reserved, ..] = spans[..] else { panic!("nothing is drawn") };
        let inside: Vec<_> = spans.iter().filter(|span| span.sharing == Sharing::Inside).collect();
        assert!(reserved.sharing == Sharing::Reserved && !inside.is_empty(), "{spans:?}");
        let result = spans.iter().find(|span| span.tensor == reserved.tensor && span.sharing == Sharing::Own);
        let result = result.expect("the result is drawn too");
        assert_eq!((reserved.end, reserved.size, reserved.block), (result.start, result.size, result.block));
        for operand in inside {
            assert!(operand.offset >= result.offset && operand.offset + operand.size <= result.offset + result.size);
            assert_eq!((operand.block, operand.visible_until), (result.block, result.start));
        }
    }
}
