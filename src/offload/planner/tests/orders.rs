//! The order in which items are placed, and those kept together.

use crate::offload::device::Device;
use crate::offload::item::{Item, ItemClass, ItemKind};
use crate::offload::planner::{Assignment, Order, Request, Spread, place};
use crate::testing::Random;

use super::{Machine, limited, weight};

fn machine(budget: u64, items: Vec<Item>) -> Machine {
    Machine { devices: vec![limited("gpu", budget), Device::new("cpu")], items, fixed: vec![0; 2], copied: vec![0; 2] }
}

fn devices(machine: &Machine, request: &Request<'_>) -> Vec<usize> {
    machine.place(request).expect("feasible").assignment.0.iter().map(|place| place.device).collect()
}

#[test]
fn benefit_takes_what_fits_and_the_given_order_ends_at_the_first_that_does_not() {
    let items = vec![weight("a", 50, 1.0), weight("b", 80, 9.0), weight("c", 20, 5.0), weight("d", 20, 0.0)];
    let machine = machine(100, items);
    assert_eq!(devices(&machine, &machine.request()), [1, 0, 0, 1]);
    assert_eq!(devices(&machine, &Request { order: Order::Given, ..machine.request() }), [0, 1, 1, 1]);
}

#[test]
fn classes_are_placed_as_powerinfer_does() {
    let of = |name: &str, class: ItemClass, bytes: u64| Item { class, ..weight(name, bytes, 1.0) };
    let cache = |name: &str, class: ItemClass, bytes: u64| Item { kind: ItemKind::Cache, ..of(name, class, bytes) };
    let items = vec![
        of("ffn 0", ItemClass::Ffn, 10),
        of("attention 0", ItemClass::Attention, 20),
        of("attention 1", ItemClass::Attention, 20),
        of("predictor 0", ItemClass::Predictor, 70),
        of("norm 0", ItemClass::FfnNorm, 1),
        cache("values 0", ItemClass::ValueCache, 10),
        cache("values 1", ItemClass::ValueCache, 10),
        cache("keys 0", ItemClass::KeyCache, 20),
        cache("keys 1", ItemClass::KeyCache, 30),
        of("embedding", ItemClass::Other, 1),
    ];
    let machine = machine(100, items);
    let placed = devices(&machine, &Request { order: Order::Classes, ..machine.request() });
    // The predictor does not fit, so no norm follows; the keys do not fit together.
    assert_eq!(placed, [0, 0, 0, 1, 1, 0, 0, 1, 1, 1]);
}

#[test]
fn layers_are_in_contiguous_ranges_over_several_devices() {
    let mut random = Random::new(65);
    for _ in 0..200 {
        let mut machine = Machine::random(&mut random, 40, 3);
        for (at, item) in (0u32..).zip(&mut machine.items) {
            item.layer = (at < 36).then_some(at / 3);
        }
        let request = Request { spread: Spread::Layers, ..machine.request() };
        let placed = devices(&machine, &request);
        let host = request.host();
        assert_eq!(placed[36..], [host; 4]);
        assert!(placed[..36].chunks(3).all(|layer| layer.iter().all(|device| *device == layer[0])), "{placed:?}");
        let ranges: Vec<usize> = placed[..36].iter().map(|&device| (device + 1) % (host + 1)).collect();
        assert!(ranges.is_sorted(), "the host has the first layers: {placed:?}");
    }
}

#[test]
fn layers_go_to_the_first_devices_that_have_room_for_all_or_to_the_last_as_far_as_they_fit() {
    let items: Vec<Item> =
        (0..6).map(|layer| Item { layer: Some(layer), ..weight(&format!("layer {layer}"), 10, 1.0) }).collect();
    let on = |budgets: [u64; 3]| {
        let [gpu0, gpu1, gpu2] = budgets;
        let all = vec![limited("gpu0", gpu0), limited("gpu1", gpu1), limited("gpu2", gpu2), Device::new("cpu")];
        let machine = Machine { devices: all, items: items.clone(), fixed: vec![0; 4], copied: vec![0; 4] };
        devices(&machine, &Request { spread: Spread::Layers, ..machine.request() })
    };
    assert_eq!(on([0, 25, 30]), [3, 1, 1, 2, 2, 2]);
    // The first devices that have room for all of them.
    assert_eq!(on([60, 90, 90]), [0; 6]);
    assert_eq!(on([25, 45, 90]), [0, 0, 1, 1, 1, 1]);
    assert_eq!(on([25, 35, 20]), [0, 1, 1, 1, 2, 2]);
}

#[test]
fn a_layer_whose_copy_would_need_its_room_goes_to_any_device_before_the_first() {
    let layers = [100, 1].map(|bytes| Item { layer: Some(u32::from(bytes == 1)), ..weight("layer", bytes, 1.0) });
    let devices = [limited("gpu0", 150), limited("gpu1", 0), limited("gpu2", 1), Device::new("cpu")];
    let request = Request { spread: Spread::Layers, ..Request::new(&devices, &layers) };
    // As long as the first layer is on the host, the device that computes with it has a copy.
    let mut measure = |assignment: &Assignment| Ok(vec![if assignment.0[0].device == 3 { 100 } else { 0 }, 0, 0, 0]);
    let placed = place(&request, &mut measure).expect("it fits");
    assert_eq!(placed.assignment.0.iter().map(|place| place.device).collect::<Vec<_>>(), [0, 2]);
}
