//! The course of a problem: in which order blocks die, and how many bytes are alive when.

mod alive;

use super::{Block, BlockId, Bytes, Problem, Step};
use alive::Alive;

/// The course of a problem.
#[derive(Debug)]
pub struct Timeline {
    /// The blocks in the order of their deaths; of those that die together the earlier comes first.
    pub by_death: Vec<BlockId>,
    /// By block: how many have died once it is born; these are the first in `by_death`.
    pub dead: Vec<u32>,
    /// By block: the bytes alive once it is born. Where several are born at a step, the last of them has the load of
    /// that step.
    pub loads: Vec<Bytes>,
    /// The largest of these loads: the lower bound.
    pub largest_load: Bytes,
}

impl Timeline {
    /// The course of `problem`. Right for problems that [`Problem::check_total`] accepts.
    pub fn of(problem: &Problem) -> Self {
        let blocks = problem.blocks();
        let mut timeline = follow(blocks, Alive::nobody(blocks.len()), Alive::add)
            .or_else(|| follow(blocks, Alive::all(blocks), |_, _, _| Some(())))
            .expect("whoever is sorted needs no moves");
        if !problem.shrinks().is_empty() {
            timeline.give_back_tails(problem);
        }
        timeline
    }

    /// Takes from the loads what blocks give back before they die.
    fn give_back_tails(&mut self, problem: &Problem) {
        let blocks = problem.blocks();
        let first_from = |step: Step| blocks.partition_point(|block| block.first_step < step);
        let mut held: Vec<Bytes> = blocks.iter().map(|block| block.size).collect();
        // By block: what is free by its first_step and was not by the first_step before. Wraps around, and back when summed up.
        let mut changes: Vec<Bytes> = vec![0; blocks.len() + 1];
        for shrink in problem.shrinks() {
            let id = shrink.block as usize;
            let tail = std::mem::replace(&mut held[id], shrink.size) - shrink.size;
            let end = blocks[id].end_step.max(shrink.step);
            for (step, change) in [(shrink.step, tail), (end, tail.wrapping_neg())] {
                let first = &mut changes[first_from(step)];
                *first = first.wrapping_add(change);
            }
        }
        let mut given_back: Bytes = 0;
        for (load, change) in self.loads.iter_mut().zip(changes) {
            given_back = given_back.wrapping_add(change);
            *load -= given_back;
        }
        self.largest_load = self.loads.iter().copied().max().unwrap_or(0);
    }
}

/// The course of `blocks` as far as they keep their sizes. `add` puts a newborn block where it belongs among those
/// `alive`; `None` as soon as that gives up.
fn follow(
    blocks: &[Block],
    mut alive: Alive,
    add: impl Fn(&mut Alive, BlockId, Step) -> Option<()>,
) -> Option<Timeline> {
    let mut by_death = vec![0; blocks.len()];
    let mut dead = vec![0; blocks.len()];
    let mut loads = vec![0; blocks.len()];
    let mut deaths: u32 = 0;
    let (mut load, mut largest_load): (Bytes, Bytes) = (0, 0);
    for ((block, (dead, load_then)), id) in blocks.iter().zip(dead.iter_mut().zip(&mut loads)).zip(0..) {
        let &Block { size, first_step, end_step } = block;
        alive.bury(first_step, |next| {
            load -= blocks[next as usize].size;
            by_death[deaths as usize] = next;
            deaths += 1;
        });
        load += size;
        largest_load = largest_load.max(load);
        (*dead, *load_then) = (deaths, load);
        add(&mut alive, id, end_step)?;
    }
    alive.bury(Step::MAX, |next| {
        by_death[deaths as usize] = next;
        deaths += 1;
    });
    Some(Timeline { by_death, dead, loads, largest_load })
}
