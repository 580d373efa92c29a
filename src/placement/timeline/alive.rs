//! Who is alive, in the order of deaths.

use crate::placement::{Block, BlockId, Step};

/// With more alive at once, putting each newborn block where it belongs is no quick way to sort deaths. With fewer it is:
/// most of what is alive in a graph lives on for long, and one or two die sooner.
const MOST_ALIVE: usize = 256;

/// A end_step and then who dies, in the digits of one number.
type Key = u64;

fn key(end_step: Step, id: BlockId) -> Key {
    Key::from(end_step) << BlockId::BITS | Key::from(id)
}

fn id(key: Key) -> BlockId {
    (key & 0xffff_ffff) as BlockId
}

/// Later than all deaths.
const NEVER: Key = Key::MAX;

/// Blocks that have yet to die.
pub struct Alive {
    /// First one that never dies, then those alive, the next to die last, then room.
    keys: Vec<Key>,
    /// How many are alive.
    count: usize,
}

impl Alive {
    /// None of so many blocks.
    pub fn nobody(blocks: usize) -> Self {
        let mut keys = vec![0; blocks.min(MOST_ALIVE) + 1];
        keys[0] = NEVER;
        Self { keys, count: 0 }
    }

    /// All of them. The born and the unborn need no telling apart, since who dies has been born.
    pub fn all(blocks: &[Block]) -> Self {
        let deaths = (0..).zip(blocks).map(|(id, block)| key(block.end_step, id));
        let mut keys: Vec<Key> = deaths.chain([NEVER]).collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        Self { count: blocks.len(), keys }
    }

    /// Takes out all that are dead at `step`, in the order of their deaths.
    pub fn bury(&mut self, step: Step, mut dead: impl FnMut(BlockId)) {
        let now = key(step, BlockId::MAX);
        let mut alive = &self.keys[..=self.count];
        while let [others @ .., next] = alive
            && *next < now
        {
            dead(id(*next));
            alive = others;
        }
        self.count = alive.len() - 1;
    }

    /// Puts a block, later than all so far, in front of all that do not outlive it. `None` when too many are alive.
    pub fn add(&mut self, id: BlockId, end_step: Step) -> Option<()> {
        let newborn = key(end_step, id);
        self.count += 1;
        let (mut place, others) = self.keys.get_mut(..=self.count)?.split_last_mut()?;
        for next in others.iter_mut().rev() {
            if *next > newborn {
                break;
            }
            *place = *next;
            place = next;
        }
        *place = newborn;
        Some(())
    }
}
