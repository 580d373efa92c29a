//! How many nodes an order moves.

use crate::placement::Step;

/// Returns the least number of nodes to take out and insert elsewhere to get `order` from the given order: all but
/// those of its longest increasing subsequence.
pub fn moved(order: &[Step]) -> usize {
    let mut ends: Vec<Step> = Vec::new();
    for &step in order {
        let at = ends.partition_point(|&end| end < step);
        match ends.get_mut(at) {
            Some(end) => *end = step,
            None => ends.push(step),
        }
    }
    order.len() - ends.len()
}

#[cfg(test)]
mod tests {
    use super::{Step, moved};

    #[test]
    fn only_nodes_outside_the_longest_increasing_subsequence_have_moved() {
        let orders: [&[Step]; 5] = [&[], &[0, 1, 2], &[3, 0, 1, 2], &[1, 2, 3, 0], &[2, 1, 0]];
        assert_eq!(orders.map(moved), [0, 0, 1, 1, 2]);
    }
}
