//! Strides for other shapes.

use super::plain;
use crate::graph::Layout;
use crate::graph::copies::element_order::{ElementOrder, is_plain, reach, strides_by_address, strides_of_view};
use crate::testing::Random;

/// The bytes at which the elements of a layout start, in the order of enumeration.
fn addresses(ne: [i64; 4], nb: [u64; 4]) -> Vec<u64> {
    let mut addresses = Vec::new();
    for d in 0..ne[3].unsigned_abs() {
        for c in 0..ne[2].unsigned_abs() {
            for b in 0..ne[1].unsigned_abs() {
                addresses.extend((0..ne[0].unsigned_abs()).map(|a| a * nb[0] + b * nb[1] + c * nb[2] + d * nb[3]));
            }
        }
    }
    addresses
}

fn shapes() -> Vec<[i64; 4]> {
    let mut shapes = Vec::new();
    for a in [1, 2, 3, 4, 6, 12, 24] {
        for b in [1, 2, 3, 4, 6, 12, 24] {
            for c in [1, 2, 3, 4, 6] {
                if 24 % (a * b * c) == 0 {
                    shapes.push([a, b, c, 24 / (a * b * c)]);
                }
            }
        }
    }
    shapes
}

/// Strides with gaps and in another order of dimensions.
fn random_strides(random: &mut Random, ne: [i64; 4]) -> [u64; 4] {
    let mut order = [0, 1, 2, 3];
    for last in (1..4u32).rev() {
        if random.chance(40) {
            order.swap(last as usize, random.below(last + 1) as usize);
        }
    }
    let mut next = 4;
    let mut nb = [0; 4];
    for d in order {
        nb[d] = next;
        next *= ne[d].unsigned_abs();
        next += if random.chance(30) { 8 } else { 0 };
    }
    nb
}

#[test]
fn strides_of_another_shape_address_the_same_elements() {
    let mut random = Random::new(1);
    let shapes = shapes();
    let (mut known, mut not) = (0, 0);
    for _ in 0..4000 {
        let pick = |random: &mut Random| shapes[random.below(u32::try_from(shapes.len()).expect("few")) as usize];
        let (ne, other) = (pick(&mut random), pick(&mut random));
        let layout = Layout { element: 0, ne, nb: random_strides(&mut random, ne) };
        let expected = addresses(ne, layout.nb);
        match ElementOrder::of(&layout).strides(other, 4) {
            Some(nb) => {
                assert_eq!(addresses(other, nb), expected, "{layout:?} as {other:?}");
                known += 1;
            }
            None => not += 1,
        }
    }
    assert!(known > 1000 && not > 500, "{known} and {not}");
}

#[test]
fn same_shape_keeps_its_strides() {
    let mut random = Random::new(2);
    for ne in shapes() {
        let layout = Layout { element: 0, ne, nb: random_strides(&mut random, ne) };
        let strides = ElementOrder::of(&layout).strides(ne, 4);
        assert_eq!(strides.map(|nb| addresses(ne, nb)), Some(addresses(ne, layout.nb)));
    }
}

#[test]
fn other_numbers_of_elements_have_no_strides() {
    let counting = ElementOrder::of(&plain([4, 3, 1, 1]));
    assert_eq!(counting.strides([4, 2, 1, 1], 4), None);
    assert_eq!(counting.strides([4, 3, 2, 1], 4), None);
    assert_eq!(counting.strides([5, 1, 1, 1], 4), None);
    assert_eq!(counting.strides([12, 1, 1, 1], 4), Some([4, 48, 48, 48]));
}

/// A permuted view of a result, copied with random strides: the result and the view both address each element there.
#[test]
fn elements_go_where_the_copy_of_a_view_puts_them() {
    let mut random = Random::new(3);
    for ne in shapes() {
        let own = plain(ne);
        let order = [[0, 1, 2, 3], [0, 2, 1, 3], [1, 0, 2, 3], [3, 1, 0, 2], [2, 0, 3, 1]][random.below(5) as usize];
        let view = Layout { ne: order.map(|d| ne[d]), nb: order.map(|d| own.nb[d]), ..own };
        let expected = random_strides(&mut random, view.ne);
        let elements = strides_by_address(&view, expected, 4).expect("the view holds each element once");
        let nb = elements.strides(ne, 4).expect("the dimensions are the same");
        let turned = order.map(|d| nb[d]);
        assert_eq!(addresses(view.ne, turned), addresses(view.ne, expected));
        let of_view = strides_of_view(&view, &elements, 4).expect("the dimensions are the same");
        assert_eq!(addresses(view.ne, of_view), addresses(view.ne, expected));
    }
}

#[test]
fn parts_and_repetitions_are_refused() {
    let half = Layout { nb: [4, 64, 128, 128], ..plain([8, 2, 1, 1]) };
    assert_eq!(strides_by_address(&half, [4, 32, 64, 64], 4), None);
    let repeated = Layout { nb: [4, 0, 64, 64], ..plain([8, 2, 1, 1]) };
    assert_eq!(strides_by_address(&repeated, [4, 32, 64, 64], 4), None);
}

#[test]
fn only_layouts_of_new_tensors_are_plain() {
    assert!(is_plain(&plain([8, 2, 3, 1]), 4));
    assert!(is_plain(&Layout { nb: [4, 32, 999, 64], ..plain([8, 2, 1, 1]) }, 4));
    assert!(!is_plain(&Layout { nb: [4, 64, 128, 128], ..plain([8, 2, 1, 1]) }, 4));
    assert!(!is_plain(&Layout { nb: [8, 4, 64, 64], ..plain([2, 8, 1, 1]) }, 4));
    // 32 values in a block of 34 bytes.
    assert!(!is_plain(&Layout { element: 8, ne: [64, 2, 1, 1], nb: [34, 68, 136, 136] }, 34));
}

#[test]
fn reach_ends_with_the_last_element() {
    assert_eq!(reach(&plain([8, 2, 1, 1])), 64);
    assert_eq!(reach(&Layout { nb: [4, 64, 128, 128], ..plain([8, 2, 1, 1]) }), 96);
    assert_eq!(reach(&Layout { nb: [64, 4, 128, 128], ..plain([2, 8, 1, 1]) }), 96);
    assert_eq!(reach(&plain([8, 0, 1, 1])), 0);
}
