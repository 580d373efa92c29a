use std::collections::HashMap;
use std::mem::MaybeUninit;

use crate::ggml::bindings::ggml_tensor;
use crate::graph::TensorId;

use super::{Ids, TensorRef};

/// The distance of two tensors in a context of ggml.
const STRIDE: usize = size_of::<ggml_tensor>() + 32;
const MEBIBYTE: usize = 1 << 20;

/// Allocated address space, whose contents are not read.
struct Arena {
    memory: Vec<MaybeUninit<u128>>,
}

impl Arena {
    fn new(bytes: usize) -> Self {
        Self { memory: Vec::with_capacity((bytes + size_of::<ggml_tensor>()).div_ceil(size_of::<u128>())) }
    }

    /// Returns a tensor `offset` bytes from the start, a multiple of 16.
    fn tensor(&self, offset: usize) -> TensorRef<'_> {
        assert!(offset + size_of::<ggml_tensor>() <= self.memory.capacity() * size_of::<u128>());
        let start = self.memory.as_ptr().cast_mut().cast::<u8>();
        // SAFETY: lives as long as the arena, and none of its fields is read.
        unsafe { TensorRef::new(start.wrapping_add(offset).cast()) }.expect("not null")
    }
}

/// Returns pseudo-random numbers below `among`, some of them repeated.
fn scattered(count: usize, among: usize) -> impl Iterator<Item = usize> {
    let next = |seed: &u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(1), next).take(count).map(move |seed: u64| (seed >> 33) as usize % among)
}

/// Returns the offsets of `count` tensors in each of `contexts`, layer by layer.
fn layers(contexts: &[usize], count: usize) -> Vec<usize> {
    (0..count).flat_map(|layer| contexts.iter().map(move |start| start + layer * STRIDE)).collect()
}

/// Expects the ids of all tensors in `expected`, and none for `others`.
fn expect_ids(ids: &Ids<'_>, arena: &Arena, expected: &HashMap<usize, TensorId>, others: &[usize]) {
    assert_eq!(ids.tensors().len(), expected.len());
    for (&offset, &id) in expected {
        assert_eq!(ids.known().id(arena.tensor(offset)), Some(id), "{offset}");
        assert_eq!(ids.tensors()[id as usize], arena.tensor(offset));
        let in_cell = ids.known().id_in_cell(Some(arena.tensor(offset)));
        assert!(in_cell.is_none_or(|found| found == id), "{offset}");
    }
    for &other in others.iter().filter(|other| !expected.contains_key(other)) {
        assert!(!ids.contains(arena.tensor(other)), "{other}");
        assert_eq!(ids.known().id_in_cell(Some(arena.tensor(other))), None, "{other}");
    }
    assert_eq!(ids.known().id(None), None);
}

/// Checks the ids of tensors at these offsets, added all at once and one by one. Returns the size of the overflow
/// table.
fn check(arena: &Arena, offsets: &[usize], others: &[usize]) -> usize {
    let mut expected = HashMap::new();
    for &offset in offsets {
        let next = TensorId::try_from(expected.len()).expect("few");
        expected.entry(offset).or_insert(next);
    }
    let all: Vec<TensorRef<'_>> = offsets.iter().map(|&offset| arena.tensor(offset)).collect();
    let mut one_by_one = Ids::with_capacity(0);
    for &tensor in &all {
        let id = one_by_one.id(tensor);
        assert_eq!((one_by_one.id(tensor), one_by_one.tensors()[id as usize]), (id, tensor));
    }
    let at_once = Ids::from_tensors(all);
    expect_ids(&at_once, arena, &expected, others);
    expect_ids(&one_by_one, arena, &expected, others);
    at_once.overflow.len()
}

#[test]
fn ids_are_in_order_of_first_occurrence() {
    let arena = Arena::new(4000 * STRIDE);
    for (count, among) in [(0, 1), (1, 1), (5, 2), (40, 4000), (3000, 1000), (3000, 4000)] {
        let offsets: Vec<usize> = scattered(count, among).map(|at| at * STRIDE).collect();
        let others: Vec<usize> = (0..among).map(|at| at * STRIDE).collect();
        check(&arena, &offsets, &others);
    }
}

#[test]
fn contexts_at_any_distance_have_separate_cells() {
    let arena = Arena::new(64 * MEBIBYTE);
    // Distances that are multiples of every table's size, others, and next to each other.
    for distance in [16 * MEBIBYTE, 4 * MEBIBYTE, 5 * MEBIBYTE + 48, 200 * STRIDE] {
        let contexts = [0, 1, 2, 3].map(|number| number * distance);
        // Fewer tensors of contexts that lie next to each other leave gaps, and small tables have no space for gaps.
        let counts: &[usize] = if distance > MEBIBYTE { &[1, 7, 100, 199] } else { &[100, 199] };
        for &count in counts {
            let offsets = layers(&contexts, count);
            let others = layers(&contexts.map(|start| start + 16), count);
            let overflow = check(&arena, &offsets, &others);
            assert!(overflow * 16 <= offsets.len(), "{overflow} of {} at distance {distance}", offsets.len());
        }
    }
}

#[test]
fn tensors_in_many_regions_are_found() {
    let arena = Arena::new(256 * MEBIBYTE);
    let spread: [(usize, usize); 5] =
        [(2 * MEBIBYTE, 127), (2 * MEBIBYTE + 16, 127), (64 << 10, 4000), (4096, 5000), (MEBIBYTE / 2, 500)];
    for (distance, count) in spread {
        let contexts: Vec<usize> = (0..count).map(|number| number * distance).collect();
        check(&arena, &layers(&contexts, 1), &layers(&contexts, 2));
        check(&arena, &layers(&contexts, 5), &layers(&contexts, 6));
    }
    let anywhere = |count: usize| -> Vec<usize> { scattered(count, 256 * MEBIBYTE / 512).map(|at| at * 512).collect() };
    check(&arena, &anywhere(5000), &anywhere(6000));
}

#[test]
fn tensors_added_later_are_found() {
    let arena = Arena::new(64 * MEBIBYTE);
    let (first, later) = (layers(&[0], 300), layers(&[8 * MEBIBYTE, 16 * MEBIBYTE], 200));
    let mut ids = Ids::from_tensors(first.iter().map(|&offset| arena.tensor(offset)).collect());
    for &offset in &later {
        ids.id(arena.tensor(offset));
    }
    let all = first.iter().chain(&later);
    let expected = all.copied().zip(0..).collect();
    expect_ids(&ids, &arena, &expected, &layers(&[24 * MEBIBYTE], 300));
}
