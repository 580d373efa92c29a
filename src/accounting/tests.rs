//! Sums of buffers, and the moments of a ledger.

use std::collections::BTreeMap;

use super::sums::{Extent, Span, sums};
use super::{
    AccountedDevice, AccountedGraph, AccountedTensor, BufferUsage, BytesAt, HeldBuffer, Ledger, Location, MemoryClass,
    Moment, Sums,
};
use crate::testing::Random;

fn extent(class: MemoryClass, offset: u64, bytes: u64) -> Extent {
    Extent { class, offset, bytes }
}

fn span(asked: u64, base: u64, rest: MemoryClass) -> Span {
    Span { asked, base, alignment: 32, rest }
}

#[test]
fn bytes_are_counted_once_and_padding_is_rounding() {
    let extents =
        [extent(MemoryClass::Weights, 0, 40), extent(MemoryClass::Weights, 64, 64), extent(MemoryClass::Cache, 128, 1)];
    let found = sums(&span(160, 0, MemoryClass::Other), &extents);
    assert_eq!(found, Sums { weights: 104, kv: 1, rounding: 24 + 31, ..Sums::default() });
    assert_eq!(found.total(), 160);
}

#[test]
fn tensors_of_one_place_count_as_the_first_class() {
    let extents =
        [extent(MemoryClass::Compute, 0, 96), extent(MemoryClass::Cache, 32, 32), extent(MemoryClass::Compute, 64, 64)];
    let found = sums(&span(128, 4096, MemoryClass::Compute), &extents);
    assert_eq!(found, Sums { kv: 32, compute: 96, ..Sums::default() });
}

#[test]
fn room_without_tensors_is_what_the_buffer_is_for() {
    let extents = [extent(MemoryClass::Weights, 0, 33), extent(MemoryClass::Weights, 256, 32)];
    let of = |rest| sums(&span(320, 0, rest), &extents);
    let (weights, rounding) = (65, 31);
    assert_eq!(of(MemoryClass::Other), Sums { weights, other: 320 - 65 - 31, rounding, ..Sums::default() });
    assert_eq!(of(MemoryClass::Weights), Sums { weights: 320 - 31, rounding, ..Sums::default() });
    let empty = sums(&span(77, 0, MemoryClass::Compute), &[]);
    assert_eq!(empty, Sums { compute: 77, ..Sums::default() });
    assert_eq!(sums(&span(0, 0, MemoryClass::Other), &extents), Sums::default());
}

#[test]
fn room_before_the_first_aligned_address_is_rounding() {
    let found = sums(&span(100, 4096 + 8, MemoryClass::Other), &[extent(MemoryClass::Weights, 24, 76)]);
    assert_eq!(found, Sums { weights: 76, rounding: 24, ..Sums::default() });
}

#[test]
fn extents_beyond_the_end_and_the_largest_numbers_are_no_problem() {
    let extents = [extent(MemoryClass::Weights, 50, u64::MAX), extent(MemoryClass::Cache, u64::MAX, u64::MAX)];
    let found = sums(&span(100, u64::MAX - 10, MemoryClass::Other), &extents);
    assert_eq!(found.total(), 100);
    assert_eq!(found.weights, 50);
    let all = sums(&Span { asked: u64::MAX, base: 0, alignment: 0, rest: MemoryClass::Other }, &extents);
    assert_eq!(all.total(), u64::MAX);
}

#[test]
fn parts_of_random_buffers_add_up_to_what_was_asked_for() {
    let mut random = Random::new(7);
    let mut below = |limit: u32| u64::from(random.below(limit));
    let class = |number: u64| MemoryClass::ALL[usize::try_from(number).expect("small")];
    for _ in 0..2000 {
        let asked = below(3000);
        let alignment = [1, 2, 32, 256, 48][usize::try_from(below(5)).expect("small")];
        let span = Span { asked, base: below(500), alignment, rest: class(below(4)) };
        let extents: Vec<Extent> = (0..below(12)).map(|_| extent(class(below(4)), below(3200), below(700))).collect();
        let found = sums(&span, &extents);
        assert_eq!(found.total(), asked, "{span:?} {extents:?}");
        // Byte by byte, in another way.
        let mut counted = [0u64; 4];
        for byte in 0..asked {
            let covers = |extent: &&Extent| extent.offset <= byte && byte < extent.offset + extent.bytes;
            if let Some(class) = extents.iter().filter(covers).map(|extent| extent.class).min() {
                counted[class as usize] += 1;
            }
        }
        for class in MemoryClass::ALL.into_iter().filter(|class| *class != span.rest) {
            assert_eq!(found.of(class), counted[class as usize], "{span:?} {extents:?}");
        }
        assert!(found.of(span.rest) >= counted[span.rest as usize]);
    }
}

fn held(device: usize, asked: u64, base: u64, usage: BufferUsage) -> HeldBuffer {
    HeldBuffer {
        id: 0,
        device,
        buffer_type: "type".to_owned(),
        usage,
        is_mapped: false,
        is_host: device == 0,
        asked,
        bytes: asked,
        base,
        alignment: 32,
        contents: BTreeMap::new(),
    }
}

fn tensor(name: &str, class: MemoryClass, buffer: u64, offset: u64, bytes: u64) -> AccountedTensor {
    AccountedTensor {
        name: name.to_owned(),
        op: "NONE".to_owned(),
        element: "f32".to_owned(),
        ne: [1; 4],
        class,
        bytes,
        view_of: None,
        resides: Some("CPU".to_owned()),
        buffer_type: None,
        location: Some(Location { buffer, offset }),
        steps: None,
        executes: None,
    }
}

fn two_devices() -> Ledger {
    let mut ledger = Ledger::default();
    for (key, name) in ["CPU", "GPU"].into_iter().enumerate() {
        assert_eq!(ledger.device(key, &AccountedDevice { name: name.to_owned(), ..AccountedDevice::default() }), key);
    }
    ledger
}

#[test]
fn each_device_has_the_moment_of_its_largest_total() {
    let mut ledger = two_devices();
    assert!(ledger.add(1, held(0, 100, 0, BufferUsage::Weights), true));
    assert!(ledger.add(2, held(1, 500, 0, BufferUsage::Compute), true));
    assert!(ledger.remove(2));
    assert!(ledger.add(3, held(0, 50, 4096, BufferUsage::Compute), true));
    assert!(!ledger.add(4, held(1, 500, 0, BufferUsage::Compute), true), "as many as before");
    assert!(ledger.remove(1) && ledger.remove(3) && ledger.remove(4) && !ledger.remove(4));
    let largest = ledger.accounting(Moment::Largest);
    let sums: Vec<u64> = largest.devices.iter().map(|device| device.sums.total()).collect();
    assert_eq!(sums, [150, 500]);
    assert_eq!(largest.buffers.iter().map(|buffer| buffer.id).collect::<Vec<_>>(), [1, 2, 3]);
    let now = ledger.accounting(Moment::Now);
    assert_eq!((now.sums(), now.buffers.len()), (Sums::default(), 0));
    let held = |device: usize| now.devices[device].history.iter().map(|at| at.bytes).collect::<Vec<_>>();
    assert_eq!((held(0), held(1)), (vec![100, 150, 50, 0], vec![500, 0, 500, 0]));
}

#[test]
fn a_long_history_keeps_its_peaks() {
    let mut history = Vec::new();
    for ms in 0..100_000 {
        let bytes = if ms == 70_001 { 1000 } else { ms % 7 };
        BytesAt { ms, bytes }.add_to(&mut history);
    }
    assert!((256..=512).contains(&history.len()) && history.is_sorted_by_key(|at| at.ms), "{history:?}");
    assert_eq!(history.iter().max_by_key(|at| at.bytes), Some(&BytesAt { ms: 70_001, bytes: 1000 }));
    assert_eq!(history.last(), Some(&BytesAt { ms: 99_999, bytes: 99_999 % 7 }));
}

#[test]
fn the_largest_graph_of_each_allocator_is_kept_with_its_moment() {
    let graph = |name: &str, bytes| AccountedGraph {
        allocator: 1,
        tensors: vec![tensor(name, MemoryClass::Compute, 1, 0, bytes)],
        ..AccountedGraph::default()
    };
    let mut ledger = two_devices();
    ledger.add(9, held(0, 256, 0, BufferUsage::Any), true);
    ledger.add_graph(vec![40], graph("large", 40));
    ledger.add_graph(vec![30], graph("small", 30));
    ledger.add_graph(vec![40], graph("equal", 40));
    ledger.remove(9);
    ledger.remove_allocator(1);
    assert!(ledger.accounting(Moment::Now).graphs.is_empty());
    let largest = ledger.accounting(Moment::Largest);
    assert_eq!(largest.graphs[0].tensors.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>(), ["large"]);
    assert_eq!(largest.sums(), Sums { compute: 40, other: 256 - 64, rounding: 24, ..Sums::default() });
}

#[test]
fn the_graphs_that_take_the_most_of_a_buffer_are_kept() {
    let mut ledger = two_devices();
    ledger.add(9, held(0, 256, 0, BufferUsage::Any), true);
    let mut kept_after = |nodes, sizes: [u64; 2]| {
        assert_eq!(ledger.takes_graph(1, &sizes), nodes != 5);
        ledger.add_graph(sizes.to_vec(), AccountedGraph { allocator: 1, nodes, ..AccountedGraph::default() });
        ledger.accounting(Moment::Now).graphs.iter().map(|graph| graph.nodes).collect::<Vec<_>>()
    };
    assert_eq!(kept_after(1, [40, 10]), [1]);
    assert_eq!(kept_after(2, [20, 20]), [1, 2], "it takes more of the second");
    assert_eq!(kept_after(3, [20, 30]), [1, 3], "another one takes more of that");
    assert_eq!(kept_after(5, [40, 30]), [1, 3], "none takes less");
    assert_eq!(kept_after(4, [50, 30]), [4], "it takes as much of each as any");
}

#[test]
fn tensors_that_no_graph_has_count_by_the_usage_of_their_buffer() {
    let mut ledger = two_devices();
    ledger.add(9, held(0, 256, 0, BufferUsage::Any), true);
    let graph = AccountedGraph { tensors: vec![tensor("read", MemoryClass::Cache, 1, 0, 32)], ..Default::default() };
    ledger.add_graph(vec![1], graph);
    for (name, offset) in [("read", 0), ("unread", 64)] {
        ledger.add_content(9, offset, tensor(name, MemoryClass::Other, 1, offset, 32));
    }
    let found = ledger.accounting(Moment::Now);
    assert_eq!(found.unread.iter().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>(), ["unread"]);
    assert_eq!((found.sums().kv, found.sums().other), (32, 224));
    ledger.set_usage(9, BufferUsage::Weights);
    let found = ledger.accounting(Moment::Now);
    assert_eq!((found.sums().kv, found.sums().weights), (32, 224));
}

#[test]
fn buffers_that_are_described_again_are_not_counted_again() {
    let mut ledger = two_devices();
    ledger.add(9, held(0, 256, 0, BufferUsage::Any), true);
    ledger.add_content(9, 0, tensor("kept", MemoryClass::Other, 1, 0, 32));
    ledger.add(9, HeldBuffer { buffer_type: "other".to_owned(), ..held(0, 256, 0, BufferUsage::Any) }, false);
    let found = ledger.accounting(Moment::Now);
    assert_eq!((found.sums().total(), found.buffers.len(), found.unread.len()), (256, 1, 1));
    assert_eq!((found.buffers[0].id, found.buffers[0].buffer_type.as_str()), (1, "other"));
    // A free that was not seen: other memory at the same address, or another buffer in the same memory.
    ledger.add(9, held(0, 128, 8192, BufferUsage::Any), false);
    ledger.add(10, held(0, 64, 8192 + 32, BufferUsage::Any), true);
    assert_eq!(ledger.accounting(Moment::Now).sums().total(), 64);
    // Buffers of a GPU may all begin at one address.
    ledger.add(11, held(1, 64, 4096, BufferUsage::Any), true);
    ledger.add(12, held(1, 64, 4096, BufferUsage::Any), true);
    assert_eq!(ledger.accounting(Moment::Now).devices[1].sums.total(), 128);
}

/// A pinned buffer is noted as memory of the host that was made a buffer, and then as what its type was asked for.
#[test]
fn largest_moment_survives_a_buffer_that_is_described_again() {
    for (asked, device) in [(224, 0), (288, 0), (256, 1)] {
        let mut ledger = two_devices();
        assert!(ledger.add(9, held(0, 256, 4096, BufferUsage::Any), true));
        let corrected = HeldBuffer { asked, bytes: 256, ..held(device, 256, 4096, BufferUsage::Compute) };
        assert_eq!(ledger.add(9, corrected, false), asked > 256 || device == 1);
        assert!(ledger.remove(9));
        let totals = |moment| ledger.accounting(moment).devices.iter().map(|it| it.sums.total()).collect::<Vec<_>>();
        let expected = if device == 0 { [asked, 0] } else { [0, asked] };
        assert_eq!((totals(Moment::Largest), totals(Moment::Now)), (expected.to_vec(), vec![0, 0]));
    }
}

#[test]
fn largest_moment_survives_a_free_that_was_not_seen() {
    let mut ledger = two_devices();
    ledger.add(9, held(0, 256, 4096, BufferUsage::Any), true);
    assert!(!ledger.add(9, held(0, 64, 8192, BufferUsage::Any), true), "other memory at the same address");
    ledger.remove(9);
    assert_eq!(ledger.accounting(Moment::Largest).sums().total(), 256);
}

#[test]
fn cache_that_another_graph_writes_to_is_a_cache_in_all() {
    let mut ledger = two_devices();
    ledger.add(9, held(0, 256, 0, BufferUsage::Any), true);
    let view = AccountedTensor { view_of: Some("k".to_owned()), ..tensor("v", MemoryClass::Weights, 1, 96, 32) };
    let reads = [tensor("k", MemoryClass::Weights, 1, 64, 64), view, tensor("w", MemoryClass::Weights, 1, 128, 64)];
    ledger.add_graph(vec![1], AccountedGraph { tensors: reads.to_vec(), ..Default::default() });
    assert_eq!(ledger.accounting(Moment::Now).sums().weights, 128);
    let writes = vec![tensor("k", MemoryClass::Cache, 1, 64, 64)];
    ledger.add_graph(vec![1], AccountedGraph { allocator: 2, tensors: writes, ..Default::default() });
    let found = ledger.accounting(Moment::Now);
    assert_eq!((found.sums().weights, found.sums().kv), (64, 64));
    let classes: Vec<&str> = found.graphs[0].tensors.iter().map(|tensor| tensor.class.name()).collect();
    assert_eq!(classes, ["kv", "kv", "weights"]);
}

#[test]
fn buffers_without_bytes_are_not_listed() {
    let mut ledger = two_devices();
    ledger.add(1, held(0, 0, 0, BufferUsage::Any), true);
    ledger.add(2, held(0, 8, 64, BufferUsage::Any), true);
    let found = ledger.accounting(Moment::Largest);
    assert_eq!((found.buffers.len(), found.sums().other), (1, 8));
}

#[test]
fn tensors_of_a_buffer_of_another_moment_keep_their_device() {
    let mut ledger = two_devices();
    ledger.add(1, held(1, 64, 0, BufferUsage::Any), true);
    ledger.add(2, held(0, 64, 0, BufferUsage::Any), true);
    let mut gone = tensor("gone", MemoryClass::Weights, 1, 0, 64);
    ledger.locate(&mut gone, 1, 0);
    ledger.add_graph(vec![64], AccountedGraph { tensors: vec![gone], ..Default::default() });
    ledger.remove(1);
    let now = ledger.accounting(Moment::Now);
    assert_eq!(now.graphs[0].tensors[0].location, None);
    assert_eq!(now.graphs[0].tensors[0].resides.as_deref(), Some("GPU"));
}

#[test]
fn devices_of_one_name_are_told_apart() {
    let mut ledger = two_devices();
    let facts = |name: &str| AccountedDevice { name: name.to_owned(), ..AccountedDevice::default() };
    assert_eq!(
        [ledger.device(7, &facts("GPU")), ledger.device(7, &facts("GPU")), ledger.device(1, &facts("GPU"))],
        [2, 2, 1]
    );
    ledger.note_memory(7, Some([5, 9]));
    let found = ledger.accounting(Moment::Now).devices;
    assert_eq!((found[2].name.as_str(), found[2].free, found[2].memory), ("GPU (2)", Some(5), Some(9)));
    assert_eq!((found[1].name.as_str(), found[1].free), ("GPU", None));
}

#[test]
fn found_buffers_keep_what_was_noted_when_they_were_allocated() {
    let mut ledger = two_devices();
    ledger.add(9, HeldBuffer { asked: 250, is_mapped: true, ..held(0, 256, 0, BufferUsage::Any) }, true);
    assert!(ledger.has(9) && !ledger.has(8));
    ledger.add_found(9, held(0, 256, 0, BufferUsage::Weights));
    let found = ledger.accounting(Moment::Now).buffers;
    assert_eq!((found[0].asked, found[0].mapped, found[0].usage), (250, true, BufferUsage::Weights));
    // Other memory at the same address.
    ledger.add_found(9, held(0, 64, 4096, BufferUsage::Any));
    let found = ledger.accounting(Moment::Now).buffers;
    assert_eq!((found[0].id, found[0].asked, found[0].mapped), (2, 64, false));
}

#[test]
fn resident_bytes_are_those_of_the_moment() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static IN_MEMORY: AtomicU64 = AtomicU64::new(100);
    let mut ledger = Ledger::measuring(|addresses| {
        assert_eq!(addresses.end - addresses.start, 256);
        Some(IN_MEMORY.load(Ordering::Relaxed))
    });
    let facts = |name: &str| AccountedDevice { name: name.to_owned(), ..AccountedDevice::default() };
    assert_eq!([ledger.device(1, &facts("CPU")), ledger.device(2, &facts("GPU"))], [0, 1]);
    ledger.add(1, held(0, 256, 4096, BufferUsage::Any), true);
    ledger.add(2, HeldBuffer { is_mapped: true, ..held(0, 64, 8192, BufferUsage::Any) }, true);
    ledger.add(3, held(1, 256, 4096, BufferUsage::Any), true);
    let resident = |ledger: &Ledger, moment| -> Vec<_> {
        ledger.accounting(moment).buffers.iter().map(|buffer| buffer.resident).collect()
    };
    assert_eq!(resident(&ledger, Moment::Now), [Some(100), None, None]);
    IN_MEMORY.store(200, Ordering::Relaxed);
    ledger.remove(1);
    IN_MEMORY.store(0, Ordering::Relaxed);
    assert_eq!(resident(&ledger, Moment::Largest), [Some(200), None, None]);
    assert_eq!(resident(&ledger, Moment::Now), [None, None]);
}
