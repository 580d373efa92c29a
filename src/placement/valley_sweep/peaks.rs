//! The largest load that a block lives through.

use crate::placement::Problem;
use crate::placement::moments::Moments;

/// By block: the largest number of bytes that are alive at one moment of its life, rounded.
#[allow(clippy::cast_precision_loss, reason = "loads that differ in the last digits are equal enough")]
pub fn largest_loads(problem: &Problem, moments: &Moments) -> impl Iterator<Item = f32> {
    let loads = moments.loads(problem);
    let largest = Largest::of(loads.into_iter().map(|load| load as f32));
    moments
        .births
        .iter()
        .zip(&moments.deaths)
        .map(move |(&first_step, &end_step)| largest.within(first_step as usize, end_step as usize))
}

/// The largest number of any range.
struct Largest {
    /// A binary tree: the children of `node` are `2 * node` and `2 * node + 1`.
    tree: Vec<f32>,
}

impl Largest {
    fn of(numbers: impl ExactSizeIterator<Item = f32>) -> Self {
        let leafs = numbers.len();
        let mut tree = vec![0.0; leafs];
        tree.extend(numbers);
        for node in (1..leafs).rev() {
            tree[node] = tree[2 * node].max(tree[2 * node + 1]);
        }
        Self { tree }
    }

    /// Goes up from both ends, and takes each subtree that hangs inside.
    fn within(&self, start: usize, end: usize) -> f32 {
        let leafs = self.tree.len() / 2;
        let (mut from, mut until) = (start + leafs, end + leafs);
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
