//! How far two orders are apart.

use crate::placement::Step;

/// The least number of nodes that must be taken out and put in elsewhere to make `order` of the given order: all but
/// those of its longest rising part.
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
    fn nodes_that_keep_their_order_have_not_moved() {
        let orders: [&[Step]; 5] = [&[], &[0, 1, 2], &[3, 0, 1, 2], &[1, 2, 3, 0], &[2, 1, 0]];
        assert_eq!(orders.map(moved), [0, 0, 1, 1, 2]);
    }
}
