//! Budgets that are met, and those that are not.

use crate::graph::Rules;
use crate::placement::Bytes;
use crate::testing::Random;

use super::RULES;
use super::training::random_training;

#[test]
fn larger_budgets_are_met_where_smaller_ones_are() {
    let mut random = Random::new(53);
    let (mut between, mut unmet) = (0, 0);
    for round in 0..600 {
        let case = random_training(&mut random);
        let rules = [RULES, Rules::ALL, Rules::GGML, Rules::NONE][random.below(4) as usize];
        let effort = [0, 1, 500, 100_000][random.below(4) as usize];
        let found = |budget: Bytes| {
            let found = case.search(rules, budget, effort, &mut |_| true);
            found.unwrap_or_else(|error| panic!("graph {round}: {error}")).after.bytes
        };
        let (smallest, given) = (found(0), case.given_bytes(rules));
        let mut budgets: Vec<Bytes> = (80..100).step_by(4).map(|percent| smallest * percent / 100).collect();
        budgets.extend([
            smallest,
            smallest + 1,
            smallest.midpoint(given),
            given.saturating_sub(1).max(smallest),
            given,
        ]);
        budgets.extend((0..4).map(|_| smallest + Bytes::from(random.below(1000)) * (given - smallest) / 1000));
        budgets.sort_unstable();
        let is_met: Vec<bool> = budgets.iter().map(|&budget| found(budget) <= budget).collect();
        assert!(is_met.is_sorted(), "graph {round}: smallest {smallest}, given {given}: {budgets:?} {is_met:?}");
        let first = budgets.partition_point(|&budget| budget < smallest);
        assert!(is_met[first], "graph {round}: the smallest, {smallest}, is not met");
        between += usize::from(given > smallest + 1);
        unmet += usize::from(!is_met[0]);
    }
    assert!(
        between > 300 && unmet > 300,
        "poor graphs: {between} with budgets between, {unmet} with one that is not met"
    );
}
