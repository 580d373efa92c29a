//! The skyline: the top of the placed blocks at each step.

use crate::placement::Bytes;
use crate::placement::compressed::CompressedStep;

/// A range of steps at which the skyline has one height.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub start: CompressedStep,
    pub end: CompressedStep,
    pub height: Bytes,
}

/// Segments in the order of time; neighbours have different heights. The segments before the current valley descend
/// towards it. Both ends of time are walls of infinite height.
#[derive(Debug)]
pub struct Skyline {
    /// The last one is adjacent to the valley.
    before: Vec<Segment>,
    valley: Segment,
    /// The last one is adjacent to the valley.
    after: Vec<Segment>,
}

impl Skyline {
    /// Creates a skyline of height 0 until `end`.
    pub fn new(end: CompressedStep) -> Self {
        Self { before: Vec::new(), valley: Segment { start: 0, end, height: 0 }, after: Vec::new() }
    }

    /// Returns the current valley, a segment that is lower than both neighbours.
    pub fn valley(&self) -> Segment {
        self.valley
    }

    /// Puts a block on the floor of the valley, from `start` to `end`, up to `top`.
    pub fn put(&mut self, start: CompressedStep, end: CompressedStep, top: Bytes) {
        let floor = self.valley;
        if top == floor.height {
            return;
        }
        if end < floor.end {
            self.after.push(Segment { start: end, ..floor });
        }
        self.valley = Segment { start, end, height: top };
        if start > floor.start {
            self.join_after();
            self.after.push(self.valley);
            self.valley = Segment { end: start, ..floor };
        } else {
            self.find_valley();
        }
    }

    /// Raises the valley to its lower neighbour.
    pub fn raise(&mut self) {
        let neighbours = [self.before.last(), self.after.last()];
        if let Some(height) = neighbours.into_iter().flatten().map(|neighbour| neighbour.height).min() {
            self.valley.height = height;
            self.find_valley();
        }
    }

    /// Makes the first valley the current one, after the current segment has risen.
    fn find_valley(&mut self) {
        self.join_before();
        if let Some(lower) = self.before.pop_if(|before| before.height < self.valley.height) {
            self.join_after();
            self.after.push(self.valley);
            self.valley = lower;
            return;
        }
        self.join_after();
        while let Some(lower) = self.after.pop_if(|after| after.height < self.valley.height) {
            self.before.push(self.valley);
            self.valley = lower;
        }
    }

    fn join_before(&mut self) {
        if let Some(equal) = self.before.pop_if(|before| before.height == self.valley.height) {
            self.valley.start = equal.start;
        }
    }

    fn join_after(&mut self) {
        if let Some(equal) = self.after.pop_if(|after| after.height == self.valley.height) {
            self.valley.end = equal.end;
        }
    }
}
