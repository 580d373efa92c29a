//! The live blocks, in the order of their ends.

use crate::placement::{Block, BlockId, Step, filled};

/// With more live blocks at once, insertion is no quick way to sort by end. With fewer it is: most live blocks of a
/// graph end late, and a block that starts passes only the one or two that end sooner.
const MOST_LIVE: usize = 256;

/// The end of a block in the upper half, and the block in the lower: sorted by end, then by block.
type Key = u64;

fn key(end_step: Step, id: BlockId) -> Key {
    Key::from(end_step) << BlockId::BITS | Key::from(id)
}

fn id(key: Key) -> BlockId {
    (key & 0xffff_ffff) as BlockId
}

/// A key after those of all blocks, which ends every scan.
const SENTINEL: Key = Key::MAX;

/// Blocks that have not ended.
pub struct LiveBlocks {
    /// The sentinel, the keys of the live blocks in descending order, then unused entries.
    keys: Vec<Key>,
    /// How many blocks are live.
    count: usize,
}

impl LiveBlocks {
    /// Creates an empty list for a problem of `blocks` blocks.
    pub fn none(blocks: usize) -> Self {
        let mut keys = filled(0, blocks.min(MOST_LIVE) + 1);
        keys[0] = SENTINEL;
        Self { keys, count: 0 }
    }

    /// Creates a list of all blocks, sorted at once. It holds blocks that have not started too: they do no harm, since
    /// every block starts before it ends.
    pub fn all(blocks: &[Block]) -> Self {
        let ends = (0..).zip(blocks).map(|(id, block)| key(block.end_step, id));
        let mut keys: Vec<Key> = ends.chain([SENTINEL]).collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        Self { count: blocks.len(), keys }
    }

    /// Removes all blocks that are dead at `step`, and calls `ended` with each in the order of their ends.
    pub fn remove_ended(&mut self, step: Step, mut ended: impl FnMut(BlockId)) {
        let now = key(step, BlockId::MAX);
        let mut live = &self.keys[..=self.count];
        while let [others @ .., next] = live
            && *next < now
        {
            ended(id(*next));
            live = others;
        }
        self.count = live.len() - 1;
    }

    /// Inserts a block with a higher id than all before. Returns `None` if too many are live.
    pub fn add(&mut self, id: BlockId, end_step: Step) -> Option<()> {
        let new = key(end_step, id);
        self.count += 1;
        let (mut slot, others) = self.keys.get_mut(..=self.count)?.split_last_mut()?;
        for next in others.iter_mut().rev() {
            if *next > new {
                break;
            }
            *slot = *next;
            slot = next;
        }
        *slot = new;
        Some(())
    }
}
