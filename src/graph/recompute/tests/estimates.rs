//! Estimated live bytes, compared with the live ranges of rebuilt graphs.

use crate::graph::live_bytes::Model;
use crate::graph::recompute::Recomputation;
use crate::graph::recompute::estimate::Estimator;
use crate::graph::tests::sketch::List;
use crate::graph::{Requests, TensorId, Workspace, live_ranges};
use crate::placement::{Bytes, lower_bound};
use crate::testing::Random;

use super::training::random_training;
use super::{Case, RULES};

/// Returns the live bytes that the search assumed for an order.
fn estimated(case: &Case, found: &Recomputation) -> Bytes {
    let (graph, buffers) = (case.sketch.graph(), case.sketch.buffers_with(RULES));
    let model = Model::new(&graph, &buffers, &case.sketch.live_ranges(RULES));
    Estimator::new(&model, found.boundary).peak(&found.items)
}

/// Returns the lower bounds of the rebuilt graph, summed over all buffers.
fn bound(case: &Case, found: &Recomputation) -> Bytes {
    let edited = &found.edited;
    let requests = Requests { leafs: &case.sketch.requests(List::Leafs), nodes: &found.node_buffers };
    let buffers = case.sketch.buffers_with(RULES);
    let mut size = |id: TensorId, _| case.sketch.drafts[edited.origins[id as usize] as usize].size;
    let problems = live_ranges(&edited.graph, &buffers, requests, &mut size, &[], &mut Workspace::default())
        .take_problems(&buffers);
    problems.iter().map(lower_bound).sum()
}

#[test]
fn estimates_are_mostly_the_lower_bounds_of_rebuilt_graphs() {
    let mut random = Random::new(61);
    let (mut equal, mut other, mut most) = (0, 0, 0);
    for _ in 0..1000 {
        let case = random_training(&mut random);
        let found = case.recomputed(case.given_bytes(RULES) * u64::from(random.below(90)) / 100);
        let (estimated, bound) = (estimated(&case, &found), bound(&case, &found));
        if estimated == bound {
            equal += 1;
        } else {
            other += 1;
            most = most.max(estimated.abs_diff(bound) * 100 / bound);
        }
    }
    assert!(equal > 5 * other && most < 50, "{equal} equal, {other} not, by up to {most}%");
}
