//! The tops of what has been placed.

use crate::placement::Bytes;
use crate::placement::moments::Moment;

/// A stretch of time at one height.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub start: Moment,
    pub end: Moment,
    pub height: Bytes,
}

/// Segments in the order of time; neighbours have different heights. The current one is the first valley: those before
/// it only descend. Beyond both ends stand walls without end.
#[derive(Debug)]
pub struct Skyline {
    /// The last one is next to the valley.
    before: Vec<Segment>,
    valley: Segment,
    /// The last one is next to the valley.
    after: Vec<Segment>,
}

impl Skyline {
    /// Flat ground until `end`.
    pub fn new(end: Moment) -> Self {
        Self { before: Vec::new(), valley: Segment { start: 0, end, height: 0 }, after: Vec::new() }
    }

    /// A segment that is lower than both neighbours.
    pub fn valley(&self) -> Segment {
        self.valley
    }

    /// Something from `start` to `end`, which lie inside the valley, now stands on its floor and reaches `top`.
    pub fn put(&mut self, start: Moment, end: Moment, top: Bytes) {
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

    /// Raises the valley to its lower wall.
    pub fn raise(&mut self) {
        let walls = [self.before.last(), self.after.last()];
        if let Some(height) = walls.into_iter().flatten().map(|wall| wall.height).min() {
            self.valley.height = height;
            self.find_valley();
        }
    }

    /// Goes to the first valley after the current segment has risen.
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
