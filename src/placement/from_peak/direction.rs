//! The two directions of time.

use crate::placement::{Block, Step};

/// A step, counted from the end where time goes backward.
pub type Moment = Step;

/// Where time goes. Lifetimes are half-open both ways: blocks meet in one direction exactly when they do in the other.
pub trait Direction {
    fn birth(block: Block) -> Moment;
    fn death(block: Block) -> Moment;
}

/// As the graph runs.
#[derive(Debug)]
pub struct Forward;

impl Direction for Forward {
    fn birth(block: Block) -> Moment {
        block.birth
    }

    fn death(block: Block) -> Moment {
        block.death
    }
}

/// The other way: blocks are born when they die.
#[derive(Debug)]
pub struct Backward;

impl Direction for Backward {
    fn birth(block: Block) -> Moment {
        !block.death
    }

    fn death(block: Block) -> Moment {
        !block.birth
    }
}
