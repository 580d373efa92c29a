//! The peak of the memory profile within each live range.

use crate::placement::Timeline;
use crate::placement::compressed::CompressedRanges;

/// Returns, by block, the largest live bytes at a step of its live range, rounded.
#[allow(clippy::cast_precision_loss, reason = "live bytes that differ in the last digits are equal enough")]
pub fn local_peaks(timeline: &Timeline, ranges: &CompressedRanges) -> Vec<f32> {
    let live_bytes = RangeMaximum::of(timeline.live_bytes.iter().map(|&live| live as f32));
    let ranges = ranges.starts.iter().zip(&ranges.ends);
    ranges.map(|(&start, &end)| live_bytes.within(start as usize, end as usize)).collect()
}

/// Range maximum queries over a list of numbers.
struct RangeMaximum {
    /// A binary tree: the children of `node` are `2 * node` and `2 * node + 1`.
    tree: Vec<f32>,
}

impl RangeMaximum {
    fn of(numbers: impl ExactSizeIterator<Item = f32>) -> Self {
        let leaves = numbers.len();
        let mut tree = vec![0.0; leaves];
        tree.extend(numbers);
        for node in (1..leaves).rev() {
            tree[node] = tree[2 * node].max(tree[2 * node + 1]);
        }
        Self { tree }
    }

    /// Returns the largest number of `start..end`. Goes up from both ends, and compares each subtree that lies inside.
    fn within(&self, start: usize, end: usize) -> f32 {
        let leaves = self.tree.len() / 2;
        let (mut from, mut until) = (start + leaves, end + leaves);
        let mut largest: f32 = 0.0;
        while from < until {
            if from % 2 == 1 {
                largest = largest.max(self.tree[from]);
                from += 1;
            }
            if until % 2 == 1 {
                until -= 1;
                largest = largest.max(self.tree[until]);
            }
            from /= 2;
            until /= 2;
        }
        largest
    }
}
