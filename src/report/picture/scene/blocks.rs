//! From blocks to rectangles: a block that several tensors share is divided along time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::graph::{Allocation, BufferIndex, Flags, Graph, TensorId};
use crate::placement::{BlockId, Bytes, Step, padded};

use super::{Sharing, Span, View};

/// All rectangles of a plan, in the order to draw them in.
pub fn spans(view: &View<'_>) -> Vec<Span> {
    let computed = computing_steps(&view.snapshot.graph);
    let mut spans = Vec::new();
    for ((buffer, block), tensors) in tensors_of_blocks(view) {
        spans.extend(Shared { view, buffer, block, tensors }.spans(&computed));
    }
    spans.sort_by_key(|span| (span.sharing != Sharing::Kept, span.start, span.sharing != Sharing::Own, span.tensor));
    spans
}

/// By tensor, the step that computes it.
fn computing_steps(graph: &Graph) -> Vec<Option<Step>> {
    let mut steps = vec![None; graph.tensors().len()];
    for (step, &node) in (0..).zip(graph.nodes()) {
        // What has its value from the start is made by nobody.
        if !graph.tensor(node).flags.has(Flags::INPUT) {
            steps[node as usize].get_or_insert(step);
        }
    }
    steps
}

fn tensors_of_blocks(view: &View<'_>) -> BTreeMap<(BufferIndex, BlockId), Vec<(TensorId, Allocation)>> {
    let mut blocks: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (id, allocation) in (0..).zip(&view.plan.allocations) {
        if let Some(allocation) = allocation {
            blocks.entry((allocation.buffer, allocation.block)).or_default().push((id, *allocation));
        }
    }
    blocks
}

/// A block and who lives in it.
struct Shared<'a> {
    view: &'a View<'a>,
    buffer: BufferIndex,
    block: BlockId,
    tensors: Vec<(TensorId, Allocation)>,
}

impl Shared<'_> {
    fn spans(mut self, computed: &[Option<Step>]) -> Vec<Span> {
        let block = self.view.plan.problems[self.buffer as usize].blocks()[self.block as usize];
        let made = |tensor: TensorId| computed[tensor as usize].unwrap_or(block.first_step).max(block.first_step);
        self.tensors.sort_by_key(|(tensor, allocation)| (made(*tensor), Reverse(allocation.alloc_size), *tensor));
        let mut spans: Vec<Span> = self
            .tensors
            .iter()
            .map(|(tensor, allocation)| self.span(*tensor, allocation, [made(*tensor), block.end_step]))
            .collect();
        if let [only] = spans.as_mut_slice() {
            // It may be named, and have its memory, before it is computed.
            only.start = block.first_step;
        }
        end_where_others_begin(&mut spans);
        let result = spans.iter().max_by_key(|span| (span.size, Reverse(span.start))).copied();
        mark_parts(&mut spans, result);
        let kept = result.filter(|result| result.start > block.first_step && result.sharing == Sharing::Own);
        let until = |result: Span| Span { start: block.first_step, end: result.start, ..result };
        spans.extend(kept.map(until).map(|kept| Span { seen_until: kept.end, sharing: Sharing::Kept, ..kept }));
        spans
    }

    fn span(&self, tensor: TensorId, allocation: &Allocation, [start, end]: [Step; 2]) -> Span {
        let plan = self.view.plan;
        let address = plan.address(*allocation);
        let size: Bytes = padded(allocation.alloc_size, plan.problems[self.buffer as usize].alignment());
        let sharing = if allocation.in_place_of.is_some() { Sharing::TakesOver } else { Sharing::Own };
        let (buffer, chunk, offset, block) = (address.buffer, address.chunk, address.offset, self.block);
        Span { tensor, buffer, chunk, block, offset, size, start, end: end.max(start + 1), seen_until: end, sharing }
    }
}

/// What takes over memory is computed in the last step that reads who was there: in that step both are there.
fn end_where_others_begin(spans: &mut [Span]) {
    for index in 0..spans.len() {
        let (before, after) = spans.split_at_mut(index + 1);
        let span = &mut before[index];
        if let Some(next) = after.iter().find(|next| meet(span, next)) {
            span.end = (next.start + 1).min(span.end);
            span.seen_until = next.start.max(span.start);
        }
    }
}

fn meet(one: &Span, other: &Span) -> bool {
    one.offset < other.offset + other.size && other.offset < one.offset + one.size
}

/// Marks what is inside `result` before that is computed.
fn mark_parts(spans: &mut [Span], result: Option<Span>) {
    let Some(result) = result.filter(|result| result.sharing == Sharing::Own) else { return };
    let parts = spans.iter_mut().filter(|span| span.start < result.start && span.sharing == Sharing::Own);
    parts.for_each(|part| part.sharing = Sharing::Inside);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Rules;
    use crate::graph::snapshot::Snapshot;
    use crate::report::picture::tests::{drawn, joined, scaled_twice, text};

    fn spans_of(lines: &[serde_json::Value]) -> Vec<Span> {
        let snapshot = Snapshot::read(text(lines).as_bytes()).expect("the graph is right");
        let plan = snapshot.plan(Rules::ALL).expect("sizes are small");
        spans(&View { label: "lastuse", snapshot: &snapshot, plan: &plan })
    }

    fn times(spans: &[Span]) -> Vec<(TensorId, [Step; 3], Sharing)> {
        spans.iter().map(|span| (span.tensor, [span.start, span.seen_until, span.end], span.sharing)).collect()
    }

    #[test]
    fn tensor_lives_from_the_step_that_makes_it_to_its_last_reader() {
        let spans = spans_of(&drawn(&[("MUL_MAT", &[0]), ("MUL_MAT", &[1]), ("MUL_MAT", &[2])]));
        let expected = [(0, [0, 1, 1]), (1, [0, 2, 2]), (2, [1, 3, 3]), (3, [2, 3, 3])];
        assert_eq!(times(&spans), expected.map(|(id, times)| (id, times, Sharing::Own)));
    }

    #[test]
    fn memory_that_is_taken_over_is_divided_along_time() {
        let spans = spans_of(&scaled_twice());
        let expected = [
            (0, [0, 1, 1], Sharing::Own),
            (1, [0, 1, 2], Sharing::Own),
            (2, [1, 2, 3], Sharing::TakesOver),
            (3, [2, 3, 3], Sharing::TakesOver),
        ];
        assert_eq!(times(&spans), expected);
        assert!(spans[1..].iter().all(|span| span.block == spans[1].block && span.offset == spans[1].offset));
    }

    #[test]
    fn parts_of_a_result_lie_inside_and_the_rest_is_kept() {
        let spans = spans_of(&joined());
        let [kept, ..] = spans[..] else { panic!("nothing is drawn") };
        let inside: Vec<_> = spans.iter().filter(|span| span.sharing == Sharing::Inside).collect();
        assert!(kept.sharing == Sharing::Kept && !inside.is_empty(), "{spans:?}");
        let result = spans.iter().find(|span| span.tensor == kept.tensor && span.sharing == Sharing::Own);
        let result = result.expect("the result is drawn too");
        assert_eq!((kept.end, kept.size, kept.block), (result.start, result.size, result.block));
        for part in inside {
            assert!(part.offset >= result.offset && part.offset + part.size <= result.offset + result.size);
            assert_eq!((part.block, part.seen_until), (result.block, result.start));
        }
    }
}
