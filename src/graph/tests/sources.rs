//! Who reads whom is the same, whichever way it is said.

use crate::graph::{Graph, TensorId};
use crate::testing::Random;

/// Tensors that are there when the first source is said.
const LISTED: u32 = 20;

/// By tensor, whom it reads: mostly tensors before it, now and then itself, one behind it, or one that is not there yet.
fn random_sources(random: &mut Random) -> Vec<Vec<TensorId>> {
    let source = |reader: u32, random: &mut Random| match random.below(12) {
        0 => reader,
        1 => random.below(LISTED + 10),
        _ => random.below(reader.max(1)),
    };
    (0..LISTED).map(|reader| (0..random.below(4)).map(|_| source(reader, random)).collect()).collect()
}

/// Says them a few tensors at a time, as far as that goes, where `id` knows who is below `known`.
fn said_together(sources: &[Vec<TensorId>], known: u32) -> Graph {
    let mut graph = Graph::with_capacity(LISTED as usize);
    for (together, first) in sources.chunks(7).zip((0..).step_by(7)) {
        let (mut all, mut readers, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (sources, reader) in together.iter().zip(first..) {
            all.extend(sources);
            readers.resize(all.len(), reader);
            ends.push(u32::try_from(all.len()).expect("few"));
        }
        let mut next = 0;
        while next < all.len() {
            next += graph.extend_sources(&all[next..], &readers[next..], |source| (source < known).then_some(source));
            if let Some(&source) = all.get(next) {
                graph.push_source(source, readers[next]);
                next += 1;
            }
        }
        graph.end_sources(&ends);
    }
    graph
}

fn last_readers(graph: &Graph) -> Option<Vec<TensorId>> {
    let mut readers = graph.last_readers()?.to_vec();
    readers.resize(LISTED as usize + 10, 0);
    Some(readers)
}

#[test]
fn sources_may_be_said_together_or_one_by_one() {
    let mut in_order = 0;
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let sources = random_sources(&mut random);
        let together = said_together(&sources, random.below(LISTED + 10));
        let mut one_by_one = Graph::with_capacity(LISTED as usize);
        sources.iter().for_each(|sources| one_by_one.push_sources(sources.iter().copied()));
        for (tensor, sources) in (0..).zip(&sources) {
            assert_eq!(together.sources(tensor), sources);
            assert_eq!(one_by_one.sources(tensor), sources);
        }
        assert_eq!(last_readers(&together), last_readers(&one_by_one), "{sources:?}");
        assert_eq!(together.self_readers(), one_by_one.self_readers());
        let comes_back = |(reader, source): (u32, &u32)| *source > reader || *source == reader && reader == 0;
        let mentions = || (0..).zip(&sources).flat_map(|(reader, all)| all.iter().map(move |source| (reader, source)));
        assert_eq!(together.last_readers().is_some(), !mentions().any(comes_back));
        if let Some(readers) = last_readers(&together) {
            in_order += 1;
            for (source, last) in (0..).zip(readers) {
                let expected = mentions().filter(|(_, other)| **other == source).map(|(reader, _)| reader).max();
                assert_eq!(last, expected.unwrap_or(0));
            }
        }
    }
    assert!(in_order > 20, "{in_order}");
}
