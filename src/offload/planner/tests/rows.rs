//! Rows of items that are on a device one by one.

use crate::offload::device::Device;
use crate::offload::item::{Item, Rows};
use crate::offload::planner::Place;

use super::{Machine, limited, weight};

fn split(name: &str, benefits: &[f64]) -> Item {
    let rows = Rows { count: 100, granule: 32, bytes: 3, benefits: benefits.to_vec() };
    Item { rows: Some(rows), ..weight(name, 1000, 0.0) }
}

#[test]
fn groups_that_gain_most_are_placed_until_the_budget_is_spent() {
    let items = vec![split("a", &[9.0, 8.0, 2.0, 0.0]), split("b", &[7.0, 6.0, 5.0, 4.0]), weight("w", 50, 1000.0)];
    let devices = vec![limited("gpu", 50 + 10 + 4 * 96 + 95), Device::new("cpu")];
    let machine = Machine { devices, items, fixed: vec![10, 0], copied: vec![0; 2] };
    let placed = machine.place(&machine.request()).expect("feasible");
    let on_host = |rows: u64| Place { device: 1, rows: Some((0, rows)) };
    // The last group of b has 4 rows, and gains most for its bytes after those that come before it.
    assert_eq!(placed.assignment.0[..2], [on_host(64), on_host(64)]);
    assert_eq!(placed.usage[0].weights, 50 + 4 * 96);
    assert!((placed.benefit - 1030.0).abs() < 1e-9);
    assert_eq!(placed.usage[1].weights, 2048); // padded
}

#[test]
fn groups_that_gain_nothing_are_not_placed() {
    let machine = Machine {
        devices: vec![limited("gpu", 10_000), Device::new("cpu")],
        items: vec![split("a", &[1.0, 0.0, 0.0, 0.0])],
        fixed: vec![0; 2],
        copied: vec![0; 2],
    };
    let placed = machine.place(&machine.request()).expect("feasible");
    assert_eq!(placed.assignment.0, [Place { device: 1, rows: Some((0, 32)) }]);
}
