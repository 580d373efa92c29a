//! How much the search for smaller offsets may do.

use crate::graph::{BufferSpec, Flags, GraphPlan, InPlace, Rules, Slots, TensorId};
use crate::placement::{Bytes, Effort};
use crate::testing::Random;

use super::random::random_sketch_of;
use super::sketch::{BUFFER, Draft, Sketch};

/// More than the search needs for the graphs here; a blink.
const AMPLE: Effort = Effort::units(20_000_000);

/// Each node makes a tensor of up to 60 times the alignment, which one of the `longest` next nodes reads. What would be
/// read after the end of the graph is an output.
fn random_live_ranges(random: &mut Random, nodes: TensorId, longest: u32) -> Sketch {
    let mut sketch = Sketch::new();
    let mut readers = Vec::new();
    for node in 0..nodes {
        let size = 16 * Bytes::from(1 + random.below(60));
        readers.push(node + 1 + random.below(longest));
        let is_read = |&source: &TensorId| readers[source as usize] == node;
        let sources: Vec<TensorId> = (0..node).filter(is_read).collect();
        let id = sketch.node(size, &sources);
        if readers[id as usize] >= nodes {
            sketch.flag(id, Flags::OUTPUT);
        }
    }
    sketch
}

/// Random live ranges in two buffers, with nodes that lastuse's rules, but not ggml's, let write over a source.
fn random_rows_in_two_buffers(seed: u64) -> Sketch {
    let mut random = Random::new(seed);
    let mut sketch = random_live_ranges(&mut random, 120, 30);
    sketch.buffers = vec![BUFFER, BUFFER];
    for id in (0..).take(sketch.drafts.len()) {
        let source = sketch.draft(id).sources.first().copied().filter(|_| random.chance(15));
        let Some(source) = source else {
            sketch.draft(id).buffer = u32::from(random.chance(40));
            continue;
        };
        let Draft { layout, size, nbytes, buffer, .. } = *sketch.draft(source);
        let in_place = InPlace::RowByRow(Slots::ALL);
        let draft = sketch.draft(id);
        (draft.layout, draft.size, draft.nbytes, draft.buffer, draft.tensor.in_place) =
            (layout, size, nbytes, buffer, in_place);
    }
    sketch
}

/// Forty tensors with a lower bound of 420 times the alignment, which a placement meets; quick strategies need a tenth
/// more.
fn hard_graph() -> Sketch {
    random_live_ranges(&mut Random::new(525), 40, 18)
}

fn plan_with(sketch: &mut Sketch, effort: Effort) -> GraphPlan {
    sketch.buffers.iter_mut().for_each(|buffer| buffer.effort = effort);
    sketch.plan(Rules::ALL)
}

fn sizes(plan: &GraphPlan) -> Vec<(Bytes, usize)> {
    plan.buffers.iter().map(|buffer| (buffer.placement.size(), buffer.placement.chunks.len())).collect()
}

#[test]
fn more_effort_brings_a_hard_graph_to_its_bound() {
    let mut sketch = hard_graph();
    let quick = plan_with(&mut sketch, Effort::default());
    let ample = plan_with(&mut sketch, AMPLE);
    assert!(quick.buffers[0].placement.size() > 420 * 16 && !quick.buffers[0].is_optimal(), "the graph is easy");
    assert_eq!((ample.buffers[0].placement.size(), ample.buffers[0].lower_bound), (420 * 16, 420 * 16));
}

#[test]
fn each_buffer_has_an_effort_of_its_own() {
    let mut sketch = hard_graph();
    sketch.buffers = vec![BUFFER, BufferSpec { effort: AMPLE, ..BUFFER }];
    let count = TensorId::try_from(sketch.drafts.len()).expect("few tensors");
    for (copy, draft) in (count..).zip(hard_graph().drafts) {
        let sources: Vec<TensorId> = draft.sources.iter().map(|source| source + count).collect();
        assert_eq!(sketch.node(draft.size, &sources), copy);
        sketch.flag(copy, draft.tensor.flags);
        sketch.draft(copy).buffer = 1;
    }
    let plan = sketch.plan(Rules::ALL);
    let at_bound = plan.buffers.iter().map(|buffer| buffer.placement.size() == buffer.lower_bound);
    assert_eq!(at_bound.collect::<Vec<_>>(), [false, true]);
}

/// In some of the graphs with two buffers, the last four among them, more effort lets other rules win one buffer that
/// lose the other.
#[test]
fn more_effort_than_the_default_never_gives_a_larger_plan() {
    let mut random = Random::new(11);
    let mut sketches: Vec<Sketch> = (0..60).map(|_| random_sketch_of(&mut random, 200)).collect();
    sketches.extend((0..60).map(|_| random_live_ranges(&mut random, 50, 18)));
    sketches.extend((0..40).chain([43, 572, 711, 1884]).map(random_rows_in_two_buffers));
    let mut smaller = 0;
    for sketch in &mut sketches {
        let quick = sizes(&plan_with(sketch, Effort::default()));
        for units in [100_001, 200_000, 1_000_000] {
            let more = sizes(&plan_with(sketch, Effort::units(units)));
            let is_larger = |(more, quick): (&(Bytes, usize), &(Bytes, usize))| more.0 > quick.0 || more.1 > quick.1;
            assert!(!more.iter().zip(&quick).any(is_larger), "{units} units: {more:?}, {quick:?} by default");
            smaller += usize::from(more != quick);
        }
    }
    assert!(smaller > 0, "poor graphs: effort brings nothing");
}

#[test]
fn same_effort_gives_the_same_plan() {
    let mut sketch = hard_graph();
    for effort in [Effort::NONE, Effort::units(500_000), AMPLE] {
        let [first, second] = [0, 1].map(|_| plan_with(&mut sketch, effort));
        assert_eq!(first.buffers[0].placement, second.buffers[0].placement);
    }
}
