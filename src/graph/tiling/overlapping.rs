//! The bytes of all blocks that are live somewhere in a range of steps.

use std::ops::Range;

use crate::placement::{Bytes, Problem, Step};

/// The blocks of a buffer, by when they start and end.
#[derive(Debug)]
pub struct Overlapping {
    /// By step: bytes of the blocks that start before it.
    started: Vec<Bytes>,
    /// By step: bytes of the blocks that end by it.
    ended: Vec<Bytes>,
}

impl Overlapping {
    /// Adds up the blocks of a graph of `nodes` nodes; `None` when their sizes overflow.
    pub fn of(problem: &Problem, nodes: usize) -> Option<Self> {
        let mut started = vec![0; nodes + 1];
        let mut ended = vec![0; nodes + 1];
        for block in problem.blocks() {
            for (bytes, step) in [(&mut started, block.first_step + 1), (&mut ended, block.end_step)] {
                if let Some(bytes) = bytes.get_mut(step as usize) {
                    *bytes = Bytes::checked_add(*bytes, block.size)?;
                }
            }
        }
        for bytes in [&mut started, &mut ended] {
            for step in 1..bytes.len() {
                bytes[step] = bytes[step].checked_add(bytes[step - 1])?;
            }
        }
        Some(Self { started, ended })
    }

    /// Returns the bytes of the blocks that are live at some of these steps.
    pub fn bytes(&self, steps: Range<Step>) -> Bytes {
        self.started[steps.end as usize] - self.ended[steps.start as usize]
    }
}

#[cfg(test)]
mod tests {
    use crate::placement::Block;

    use super::*;

    fn problem(blocks: &[(Step, Step, Bytes)]) -> Problem {
        let mut problem = Problem::new(1, None);
        for &(first_step, end_step, size) in blocks {
            problem.add(Block { size, first_step, end_step });
        }
        problem
    }

    #[test]
    fn bytes_are_those_of_blocks_that_are_live_at_some_of_the_steps() {
        let blocks = [(0, 3, 1), (0, 6, 10), (1, 2, 100), (2, 6, 1000), (5, 6, 10_000)];
        let overlapping = Overlapping::of(&problem(&blocks), 6).expect("small sizes");
        for start in 0..6 {
            for end in start + 1..=6 {
                let live = blocks.iter().filter(|(first, last, _)| *first < end && *last > start);
                let bytes: Bytes = live.map(|(.., size)| size).sum();
                assert_eq!(overlapping.bytes(start..end), bytes, "{start}..{end}");
            }
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        assert!(Overlapping::of(&problem(&[(0, 1, Bytes::MAX); 2]), 1).is_none());
    }
}
