//! Synthetic problems of any size, always equal for equal sizes.

use lastuse::placement::{Block, Bytes, Problem, Step};

const ALIGNMENT: Bytes = 64;

/// A kind of problem.
pub struct Family {
    pub name: &'static str,
    /// Creates a problem of about this many blocks.
    pub make: fn(u32) -> Problem,
}

pub const FAMILIES: [Family; 4] = [
    Family { name: "layers", make: layers },
    Family { name: "training", make: training },
    Family { name: "log-uniform", make: log_uniform },
    Family { name: "window", make: window },
];

/// Inference of a deep network. Every layer has a residual stream that is live until the layer's end, and the tensors
/// of attention and feed-forward, some live for one step only. The numbers of heads and hidden channels vary by layer;
/// every eighth layer leaves a tensor whose last use is sixteen layers later.
fn layers(blocks: u32) -> Problem {
    const STEPS: Step = 12;
    const WIDTH: Bytes = 1 << 17;
    let mut random = Random(1);
    let mut all = Vec::new();
    for layer in 0..blocks / 12 {
        let heads = 4096 * (8 + random.below(25));
        let hidden = 4096 * (64 + random.below(65));
        // First step and end within the layer, and the size.
        let tensors = [
            (0, 2, WIDTH),
            (1, 5, heads),
            (2, 6, heads / 4),
            (3, 7, heads / 4),
            (4, 6, 3 * heads),
            (5, 7, 3 * heads),
            (6, 8, heads),
            (7, 14, WIDTH),
            (8, 10, WIDTH),
            (9, 11, hidden),
            (9, 11, hidden),
            (10, 13, hidden),
        ];
        let start = layer * STEPS;
        all.extend(tensors.map(|(first_step, end_step, size)| block(size, start + first_step, start + end_step)));
        if layer % 8 == 0 {
            all.push(block(WIDTH, start + 7, start + 16 * STEPS));
        }
    }
    problem(all)
}

/// Forward and backward pass. The results of the forward pass are live until the backward pass uses them, so live
/// ranges are nested. Each step also needs its own memory, and gradients are live from one step to the next.
fn training(blocks: u32) -> Problem {
    let layers = blocks / 4;
    let turn = 2 * layers;
    let mut random = Random(2);
    let mut all = Vec::new();
    for layer in 0..layers {
        let size = 1024 * (1 + random.below(256));
        let (forward, backward) = (2 * layer, 2 * turn - 2 * layer);
        all.push(block(size, forward, backward));
        all.push(block(size * (1 + random.below(4)), forward + 1, forward + 2));
        all.push(block(size, backward - 1, backward + 2));
        all.push(block(size * (1 + random.below(4)), backward, backward + 1));
    }
    problem(all)
}

/// No structure: starts anywhere, live ranges from 1 to 1,024 steps and sizes from 64 bytes to 64 MiB, each
/// magnitude as likely as the others.
fn log_uniform(blocks: u32) -> Problem {
    let mut random = Random(3);
    let all = (0..blocks).map(|_| {
        let first_step = u32::try_from(random.below(u64::from(blocks))).expect("below a number of 32 bits");
        let length = u32::try_from(random.magnitude(10)).expect("at most 1,024");
        block(ALIGNMENT * random.magnitude(20), first_step, first_step + length)
    });
    problem(all.collect())
}

/// A stream: each block is live for 16 to 80 steps, so no block is much longer than the others.
fn window(blocks: u32) -> Problem {
    let mut random = Random(4);
    let all = (0..blocks).map(|first_step| {
        let length = 16 + u32::try_from(random.below(65)).expect("at most 64");
        block(ALIGNMENT * (1 + random.below(4096)), first_step, first_step + length)
    });
    problem(all.collect())
}

fn block(size: Bytes, first_step: Step, end_step: Step) -> Block {
    Block { size: size.next_multiple_of(ALIGNMENT), first_step, end_step }
}

fn problem(mut blocks: Vec<Block>) -> Problem {
    blocks.sort_by_key(|block| block.first_step);
    let mut problem = Problem::new(ALIGNMENT, None);
    for block in blocks {
        problem.add(block);
    }
    problem
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a number from 1 to 2 to the power of `bits`, each power of two as likely as the others.
    fn magnitude(&mut self, bits: u64) -> u64 {
        let floor = 1 << self.below(bits);
        floor + self.below(floor) + 1
    }
}
