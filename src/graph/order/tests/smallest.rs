//! Small graphs, compared with all their orders.

use crate::graph::order::ReorderEffort;
use crate::placement::{Bytes, Step};
use crate::testing::Random;

use super::{RULES, bounds, pairs, random_graph, reordered};

/// Returns the least bound of the first buffer, over all orders.
fn least(sketch: &crate::graph::tests::sketch::Sketch, before: &[Vec<Step>], order: &mut Vec<Step>) -> Bytes {
    if order.len() == before.len() {
        return bounds(sketch, order, RULES)[0];
    }
    let mut best = Bytes::MAX;
    for step in (0..).take(before.len()) {
        let ready = before[step as usize].iter().all(|earlier| order.contains(earlier));
        if ready && !order.contains(&step) {
            order.push(step);
            best = best.min(least(sketch, before, order));
            order.pop();
        }
    }
    best
}

#[test]
fn small_graphs_get_the_least_bound_of_all_orders() {
    let mut random = Random::new(26);
    let (mut compared, mut improvable, mut optimal) = (0, 0, 0);
    while compared < 1500 {
        let sketch = random_graph(&mut random, 14);
        let pairs = pairs(&sketch);
        if sketch.buffers.len() > 1 || !(2..=8).contains(&pairs.len()) {
            continue;
        }
        compared += 1;
        let found = reordered(&sketch, ReorderEffort::default());
        let least = least(&sketch, &pairs, &mut Vec::new());
        assert!(found.after[0].lower_bound >= least, "{found:?} is below {least}");
        improvable += u32::from(found.before[0].lower_bound > least);
        optimal += u32::from(found.after[0].lower_bound == least);
    }
    println!("{compared} graphs, {improvable} with a better order, {optimal} in one of the best");
    assert!(improvable > 200 && optimal * 100 >= compared * 99, "{improvable} improvable, {optimal} optimal");
}
