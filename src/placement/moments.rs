//! LiveRanges counted in births, which is all that matters for who meets whom.

use super::{Block, Problem, Step};

/// A moment, as the number of blocks that are born before it.
pub type Moment = u32;

/// The live ranges of all blocks. Two blocks meet in these exactly when they meet in steps, and the most bytes are alive
/// at one of these moments.
#[derive(Debug)]
pub struct Moments {
    /// By block.
    pub births: Vec<Moment>,
    /// By block; half-open, and after its first_step.
    pub deaths: Vec<Moment>,
}

impl Moments {
    /// The live ranges of the blocks of `problem`.
    pub fn of(problem: &Problem) -> Self {
        let blocks = problem.blocks();
        let mut births: Vec<Moment> = Vec::with_capacity(blocks.len());
        for (id, block) in (0..).zip(blocks) {
            let twin = births.last().copied().filter(|&last| blocks[last as usize].first_step == block.first_step);
            births.push(twin.unwrap_or(id));
        }
        let deaths = (0..).zip(blocks).map(|(id, block)| births_before(blocks, id, block.end_step)).collect();
        Self { births, deaths }
    }

    /// After all deaths.
    pub fn end(&self) -> Moment {
        self.deaths.iter().copied().max().unwrap_or(0)
    }

    /// By moment: the bytes alive.
    pub fn loads(&self, problem: &Problem) -> Vec<i128> {
        let blocks = problem.blocks();
        let mut loads = vec![0i128; blocks.len()];
        let mut change = |moment: Moment, by: i128| {
            if let Some(load) = loads.get_mut(moment as usize) {
                *load += by;
            }
        };
        let mut held: Vec<i128> = blocks.iter().map(|block| i128::from(block.size)).collect();
        self.births.iter().zip(&held).for_each(|(&first_step, &size)| change(first_step, size));
        for shrink in problem.shrinks() {
            let left =
                std::mem::replace(&mut held[shrink.block as usize], i128::from(shrink.size)) - i128::from(shrink.size);
            change(births_before(blocks, shrink.block, shrink.step), -left);
        }
        self.deaths.iter().zip(&held).for_each(|(&end_step, &size)| change(end_step, -size));
        let mut load = 0;
        for change in &mut loads {
            load += *change;
            *change = load;
        }
        loads
    }
}

/// How many blocks are born before `step`, which is after the first_step of the block `from`. Most die soon after: so the
/// search goes out from there.
fn births_before(blocks: &[Block], from: Moment, step: Step) -> Moment {
    let rest = &blocks[from as usize..];
    let mut reach = 1;
    while rest.get(reach).is_some_and(|block| block.first_step < step) {
        reach *= 2;
    }
    let known = reach / 2;
    let unknown = &rest[known..reach.min(rest.len())];
    from + moment(known + unknown.partition_point(|block| block.first_step < step))
}

fn moment(count: usize) -> Moment {
    Moment::try_from(count).unwrap_or(Moment::MAX)
}
