//! How far offload plans are from the best there is.

use crate::offload::device::Device;
use crate::offload::planner::{Assignment, NotPlaced, Usage};
use crate::placement::Bytes;
use crate::testing::Random;

use super::{Machine, limited, weight};

/// Returns the gain of the best of all offload plans that are within all budgets.
fn best_of_all(machine: &Machine) -> Option<f64> {
    let request = machine.request();
    let devices = machine.devices.len();
    let count = devices.pow(u32::try_from(machine.items.len()).expect("few"));
    let benefit = |mut code: usize| {
        let mut assignment = Assignment::on_host(&request);
        for place in &mut assignment.0 {
            place.device = code % devices;
            code /= devices;
        }
        let compute = machine.compute(&assignment);
        let fits = (0..devices).all(|at| {
            let usage = Usage::of_items(&request, &assignment, at);
            let granularity = machine.devices[at].granularity;
            let compute = compute[at].div_ceil(granularity) * granularity;
            usage.is_some_and(|usage| Usage { compute, ..usage }.fits(&machine.devices[at]))
        });
        fits.then(|| assignment.benefit(&request))
    };
    (0..count).filter_map(benefit).max_by(f64::total_cmp)
}

#[test]
fn few_items_are_placed_within_one_percent_of_the_optimum() {
    let mut random = Random::new(61);
    let (mut placed, mut partly) = (0, 0);
    for round in 0..400 {
        let (items, devices) = [(9, 1), (12, 1), (5, 2), (7, 2)][random.below(4) as usize];
        let machine = Machine::random(&mut random, items, devices);
        let optimum = best_of_all(&machine).expect("the host has no limit");
        let found = machine.place(&machine.request()).unwrap_or_else(|why| panic!("machine {round}: {why}"));
        assert!(found.benefit >= 0.99 * optimum, "machine {round}: {} of {optimum}", found.benefit);
        let all: f64 = machine.items.iter().map(|item| item.benefit).sum();
        placed += usize::from(optimum > 0.0);
        partly += usize::from(optimum > 0.0 && optimum < all);
    }
    assert!(placed > 300 && partly > 200, "poor machines: {placed} place something, {partly} a part");
}

#[test]
fn sixteen_items_are_placed_within_one_percent_of_the_optimum() {
    let mut random = Random::new(62);
    for round in 0..6 {
        let machine = Machine::random(&mut random, 16, 1);
        let optimum = best_of_all(&machine).expect("the host has no limit");
        let found = machine.place(&machine.request()).unwrap_or_else(|why| panic!("machine {round}: {why}"));
        assert!(found.benefit >= 0.99 * optimum, "machine {round}: {} of {optimum}", found.benefit);
    }
}

#[test]
fn less_than_one_tensor_is_left_of_larger_machines() {
    let mut random = Random::new(63);
    for round in 0..60 {
        let machine = Machine::random(&mut random, 200, 1);
        let found = machine.place(&machine.request()).unwrap_or_else(|why| panic!("machine {round}: {why}"));
        let left = machine.devices[0].budget.expect("limited") - found.usage[0].total();
        let on_host = machine.items.iter().zip(&found.assignment.0).filter(|(_, place)| place.device == 1);
        // Items larger than the largest buffer of the device have to be on the host.
        let movable = on_host.map(|(item, _)| item.bytes).filter(|&bytes| machine.devices[0].may_hold(bytes));
        if let Some(smallest) = movable.min() {
            // Padding, and what of the compute buffer another item would change.
            let spare = machine.devices[0].alignment + machine.devices[0].granularity + machine.fixed[0] + 1000;
            assert!(left < smallest + spare, "machine {round}: {left} bytes are left, {smallest} would fit");
        }
        assert!(found.measurements <= 1000);
    }
}

#[test]
fn budgets_that_are_asked_for_are_enough_and_one_byte_less_is_not() {
    let mut random = Random::new(64);
    let mut short = 0;
    for round in 0..300 {
        let mut machine = Machine::random(&mut random, 8, 1);
        let total: Bytes = machine.items.iter().map(|item| item.bytes).sum();
        *machine.devices.last_mut().expect("a host") =
            limited("cpu", 1 + Bytes::from(random.below(1000)) * total / 1000);
        let Err(why) = machine.place(&machine.request()) else { continue };
        let NotPlaced::Infeasible(shortages) = why else { panic!("machine {round}: {why}") };
        assert!(!shortages.is_empty() && shortages.iter().all(|shortage| shortage.needed > shortage.budget));
        short += 1;
        for shortage in &shortages {
            let device = machine.devices.iter_mut().find(|device| device.name == shortage.device).expect("a device");
            device.budget = Some(shortage.needed);
        }
        machine.place(&machine.request()).unwrap_or_else(|why| panic!("machine {round}: {why}, after {shortages:?}"));
    }
    assert!(short > 50, "poor machines: {short} are short");
}

#[test]
fn items_that_make_the_compute_buffer_smaller_are_placed_where_it_had_no_room() {
    // The head is copied to the device as long as it is on the host.
    let items = vec![weight("head", 250, 10.0), weight("layer", 100, 1.0)];
    let devices = vec![limited("gpu", 360), Device::new("cpu")];
    let machine = Machine { devices, items, fixed: vec![10, 0], copied: vec![16, 0] };
    let found = machine.place(&machine.request()).expect("feasible");
    assert_eq!(found.usage[0].total(), 360);
    assert_eq!(found.assignment.0.iter().map(|place| place.device).collect::<Vec<_>>(), [0, 0]);
}
