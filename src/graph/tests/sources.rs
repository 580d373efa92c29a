//! Def-use facts are the same, whichever way sources are recorded.

use crate::graph::{Graph, TensorId};
use crate::testing::Random;

/// The number of tensors with sources.
const LISTED: u32 = 20;

/// Returns the sources of each tensor: usually earlier tensors, now and then itself, a later one, or one without an
/// entry.
fn random_sources(random: &mut Random) -> Vec<Vec<TensorId>> {
    let source = |user: u32, random: &mut Random| match random.below(12) {
        0 => user,
        1 => random.below(LISTED + 10),
        _ => random.below(user.max(1)),
    };
    (0..LISTED).map(|user| (0..random.below(4)).map(|_| source(user, random)).collect()).collect()
}

/// Records them in the memory of `graph`, a few tensors at a time where possible, with an `id` that knows the tensors
/// below `known`.
fn record_together(graph: &mut Graph, sources: &[Vec<TensorId>], known: u32) {
    graph.reset(LISTED as usize);
    for (together, first) in sources.chunks(7).zip((0..).step_by(7)) {
        let (mut all, mut users, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (sources, user) in together.iter().zip(first..) {
            all.extend(sources);
            users.resize(all.len(), user);
            ends.push(u32::try_from(all.len()).expect("few"));
        }
        let mut next = 0;
        while next < all.len() {
            next += graph.extend_sources(&all[next..], &users[next..], |source| (source < known).then_some(source));
            if let Some(&source) = all.get(next) {
                graph.push_source(source, users[next]);
                next += 1;
            }
        }
        graph.end_sources(&ends);
    }
}

fn last_users_of(graph: &Graph) -> Option<Vec<TensorId>> {
    let mut users = graph.last_users()?.to_vec();
    users.resize(LISTED as usize + 10, 0);
    Some(users)
}

#[test]
fn sources_may_be_recorded_together_or_one_by_one() {
    let mut in_order = 0;
    let mut together = Graph::with_capacity(0);
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let sources = random_sources(&mut random);
        record_together(&mut together, &sources, random.below(LISTED + 10));
        let mut one_by_one = Graph::with_capacity(LISTED as usize);
        sources.iter().for_each(|sources| one_by_one.push_sources(sources.iter().copied()));
        for (tensor, sources) in (0..).zip(&sources) {
            assert_eq!(together.sources(tensor), sources);
            assert_eq!(one_by_one.sources(tensor), sources);
        }
        assert_eq!(last_users_of(&together), last_users_of(&one_by_one), "{sources:?}");
        assert_eq!(together.self_users(), one_by_one.self_users());
        let comes_back = |(user, source): (u32, &u32)| *source > user || *source == user && user == 0;
        let mentions = || (0..).zip(&sources).flat_map(|(user, all)| all.iter().map(move |source| (user, source)));
        assert_eq!(together.last_users().is_some(), !mentions().any(comes_back));
        if let Some(users) = last_users_of(&together) {
            in_order += 1;
            for (source, last) in (0..).zip(users) {
                let expected = mentions().filter(|(_, other)| **other == source).map(|(user, _)| user).max();
                assert_eq!(last, expected.unwrap_or(0));
            }
        }
    }
    assert!(in_order > 20, "{in_order}");
}
