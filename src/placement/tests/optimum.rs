//! Choices against exhaustive search on tiny problems.

use super::*;

#[test]
fn choice_is_between_the_optimum_and_best_fit_on_tiny_problems() {
    let mut random = Random::new(6);
    let (mut problems, mut optimal) = (0, 0);
    for _ in 0..100 {
        let problem = random_problem(&mut random, &TINY);
        let optimum = optimum(&problem);
        let choice = choose(&problem, None, Effort::default(), &mut Workspace::default());
        assert_valid(&problem, &optimum, "exhaustive search");
        assert!(choice.placement.size() >= optimum.size(), "{problem:?}");
        assert!(!choice.is_optimal() || choice.placement.size() == optimum.size(), "{problem:?}");
        problems += 1;
        optimal += u32::from(choice.placement.size() == optimum.size());
    }
    println!("{optimal} of {problems} choices are optimal");
    assert!(optimal * 5 >= problems * 4, "only {optimal} of {problems} choices are optimal");
}

/// Returns the smallest placement, by exhaustive search. The blocks of any placement can be dropped in the order of
/// their offsets, each to the lowest free offset, without raising any. So one of all orders gives the optimum.
fn optimum(problem: &Problem) -> Placement {
    let mut best: Option<Placement> = None;
    let mut order: Vec<usize> = (0..problem.blocks().len()).collect();
    for_each_order(&mut order, 0, &mut |order| {
        let candidate = drop_in_order(problem, order);
        if best.as_ref().is_none_or(|best| candidate.size() < best.size()) {
            best = Some(candidate);
        }
    });
    best.unwrap_or_default()
}

fn for_each_order(order: &mut [usize], fixed: usize, visit: &mut dyn FnMut(&[usize])) {
    if fixed == order.len() {
        return visit(order);
    }
    for next in fixed..order.len() {
        order.swap(fixed, next);
        for_each_order(order, fixed + 1, visit);
        order.swap(fixed, next);
    }
}

/// Places each block in turn at the lowest offset where it overlaps none of those before it.
fn drop_in_order(problem: &Problem, order: &[usize]) -> Placement {
    let mut offsets = vec![0; order.len()];
    for (count, &id) in order.iter().enumerate() {
        let overlaps =
            |offset: Bytes| order[..count].iter().any(|&other| overlap(problem, (id, offset), (other, offsets[other])));
        let lowest = (0..).map(|unit| unit * ALIGNMENT).find(|&offset| !overlaps(offset));
        offsets[id] = lowest.expect("above all other blocks it fits");
    }
    let peak = problem.blocks().iter().zip(&offsets).map(|(block, offset)| offset + block.size).max();
    placement(&offsets, peak.unwrap_or(0))
}

/// Returns `true` if two blocks at these offsets share a byte at some step.
fn overlap(problem: &Problem, (a, at_a): (usize, Bytes), (b, at_b): (usize, Bytes)) -> bool {
    (0..2 * TINY.steps).any(|step| {
        let (size_a, size_b) = (held(problem, a, step), held(problem, b, step));
        at_a.max(at_b) < (at_a + size_a).min(at_b + size_b)
    })
}
