//! Who touches memory when, against a list that is looked through.

use std::ops::Range;

use crate::graph::copies::touches::{Region, Touches};
use crate::placement::{Bytes, Step};
use crate::testing::Random;

fn region(random: &mut Random) -> Region {
    let start = Bytes::from(random.below(20));
    Region { memory: random.below(2), bytes: start..start + Bytes::from(random.below(6)) }
}

fn is_touched(known: &[(Step, Region)], region: &Region, steps: &Range<Step>, own: Step) -> bool {
    known.iter().any(|(step, other)| steps.contains(step) && *step != own && other.meets(region))
}

#[test]
fn touches_are_those_of_a_list() {
    let mut random = Random::new(5);
    let mut answers = [0, 0];
    for _ in 0..300 {
        let mut touches = Touches::new(2);
        touches.ask_about(0);
        touches.ask_about(1);
        let mut known = Vec::new();
        for step in 0..60 {
            for _ in 0..random.below(3) {
                let region = region(&mut random);
                touches.push(step, region.clone());
                known.push((step, region));
            }
        }
        for end in (1..60).rev() {
            let start = end - 1 - random.below(end.min(8));
            let (asked, own) = (region(&mut random), start + random.below(3));
            let answer = touches.any(&asked, start..end, own);
            assert_eq!(answer, is_touched(&known, &asked, &(start..end), own));
            answers[usize::from(answer)] += 1;
        }
    }
    assert!(answers.iter().all(|&count| count > 1000), "{answers:?}");
}

#[test]
fn memory_that_nobody_asks_about_is_not_kept() {
    let mut touches = Touches::new(2);
    touches.ask_about(0);
    let there = |memory| Region { memory, bytes: 0..8 };
    touches.push(3, there(0));
    touches.push(4, there(1));
    assert!(touches.any(&there(0), 0..9, 0) && !touches.any(&there(1), 0..9, 0));
}
