//! Requests that are refused, and offload plans that cannot be measured.

use crate::offload::device::Device;
use crate::offload::item::{Item, Rows};
use crate::offload::planner::{Assignment, NotPlaced, Request, place};

use super::{limited, weight};

fn refusal(devices: &[Device], items: &[Item]) -> String {
    let mut measure = |_: &Assignment| Ok(vec![0; devices.len()]);
    place(&Request::new(devices, items), &mut measure).expect_err("refused").to_string()
}

#[test]
fn requests_that_cannot_be_meant_are_refused() {
    let cpu = || Device::new("cpu");
    let item = || weight("w", 100, 1.0);
    let rows = |granule: u64, benefits: &[f64]| Rows { count: 8, granule, bytes: 1, benefits: benefits.to_vec() };
    let cases = [
        (vec![], vec![], "there is no device"),
        (vec![Device { alignment: 0, ..cpu() }], vec![], "cpu: the alignment must be a power of two"),
        (vec![Device { alignment: 48, ..cpu() }], vec![], "cpu: the alignment must be a power of two"),
        (vec![Device { granularity: 0, ..cpu() }], vec![], "the granularity at least 1"),
        (vec![Device { reserve: 9, ..limited("gpu", 8) }, cpu()], vec![], "gpu: the budget of 8 bytes is below"),
        (vec![cpu()], vec![weight("w", 1, f64::NAN)], "w: the benefit must be finite"),
        (vec![cpu()], vec![weight("w", 1, -1.0)], "w: the benefit must be finite"),
        (vec![cpu()], vec![Item { pinned: Some(1), ..item() }], "w is pinned to a device"),
        (vec![Device { max_buffer: Some(99), ..cpu() }], vec![item()], "w has 100 bytes, and a buffer of cpu"),
        (vec![Device { max_buffer: Some(127), ..cpu() }], vec![item()], "w has 100 bytes, and a buffer of cpu"),
        (
            vec![Device { max_buffer: Some(80), ..limited("gpu", 200) }, Device { max_buffer: Some(99), ..cpu() }],
            vec![item()],
            "w has 100 bytes, and a buffer of gpu or cpu, where it must be, at most 99",
        ),
        (vec![cpu()], vec![Item { rows: Some(rows(0, &[])), ..item() }], "w: rows need a granule"),
        (vec![cpu()], vec![Item { rows: Some(rows(4, &[1.0])), ..item() }], "w: rows need a granule"),
        (vec![cpu()], vec![Item { rows: Some(rows(4, &[1.0, 2.0])), ..item() }], "w: rows need"),
    ];
    for (devices, items, message) in cases {
        let refusal = refusal(&devices, &items);
        assert!(refusal.contains(message), "{refusal:?} does not say {message:?}");
    }
}

#[test]
fn budgets_that_cannot_do_are_told_with_those_that_can() {
    let pinned = Item { pinned: Some(0), ..weight("w", 100, 1.0) };
    assert_eq!(
        refusal(&[limited("gpu", 99), limited("cpu", 7)], &[pinned]),
        "no offload was found that is within all budgets: gpu needs 100 bytes, 1 more than its budget of 99"
    );
    assert!(refusal(&[limited("gpu", 0), limited("cpu", 0)], &[weight("w", 100, 1.0)]).contains("cpu needs 100 bytes"));
}

#[test]
fn sizes_that_overflow_are_not_placed() {
    let huge = || weight("w", u64::MAX - 5, 1.0);
    let placed = |devices: &[Device], items: &[Item]| {
        place(&Request::new(devices, items), &mut |_: &Assignment| Ok(vec![0; devices.len()]))
    };
    assert_eq!(placed(&[limited("gpu", u64::MAX), Device::new("cpu")], &[huge(), huge()]), Err(NotPlaced::Unplaceable));
    let placed = placed(&[limited("gpu", 10), Device { alignment: 1, ..Device::new("cpu") }], &[huge()]).expect("fits");
    assert_eq!((placed.usage[0].total(), placed.usage[1].total()), (0, u64::MAX - 5));
}

#[test]
fn failures_of_the_caller_end_the_search() {
    let devices = [limited("gpu", 10), Device::new("cpu")];
    let request = Request::new(&devices, &[]);
    let failed = place(&request, &mut |_: &Assignment| Err("no scheduler".to_owned())).expect_err("failed");
    assert_eq!(failed.to_string(), "a compute buffer could not be measured: no scheduler");
    let wrong = place(&request, &mut |_: &Assignment| Ok(vec![0])).expect_err("wrong");
    assert!(wrong.to_string().ends_with("1 sizes were measured for 2 devices"), "{wrong}");
}
