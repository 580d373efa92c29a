//! A hash of a live graph in 128 bits: graphs with equal tensors at equal addresses have the same fingerprint.
//!
//! Programs rebuild their graph for every token, usually in the same memory. Once a graph was matched with the plan of
//! another one, or verified, its fingerprint shows in one pass over the tensors that nothing has changed. Two different
//! graphs have the same fingerprint with a probability of 2^-64.
//!
//! Parameters of operations count where the sizes that a buffer type requires may depend on any of them. Padding between
//! them, which ggml leaves uninitialized, is not read.

use std::mem::offset_of;
use std::ops::Range;

use crate::ggml::bindings::ggml_tensor;
use crate::ggml::live::operations::Operations;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, Image, TensorRef};
use crate::ggml::outputs::redirect::redirected_to;

/// The fingerprint of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u64; 2]);

/// Pairs of words that are 0 in most tensors: parameters after the third, and sources after the third. Zeros are
/// skipped.
const SPARE: [Range<usize>; 2] = [5..8, 10..13];

/// Words of an image: extents and strides, sources, and the source of a view.
const LAYOUT: Range<usize> = 0..8;
const FIRST_SOURCES: Range<usize> = word(offset_of!(ggml_tensor, src))..20;
const OTHER_SOURCES: Range<usize> = FIRST_SOURCES.end..VIEW.start;
const VIEW: Range<usize> = word(offset_of!(ggml_tensor, view_src))..29;

/// Returns the word of an image that begins at an offset in a tensor.
const fn word(offset: usize) -> usize {
    (offset - offset_of!(ggml_tensor, ne)) / size_of::<u64>()
}

/// Arbitrary numbers, one for each word of a tensor that is hashed.
const KEYS: [u64; 32] = keys();

impl Fingerprint {
    /// Returns the fingerprint of `graph`. Tensors in neither list count by their addresses only.
    pub fn of(operations: &Operations, graph: GraphRef<'_>) -> Self {
        let (mut fingerprint, custom) = (Self::new(graph), operations.custom());
        for &leaf in graph.leafs {
            fingerprint.add_leaf(leaf, &custom);
        }
        graph.nodes.iter().for_each(|&node| fingerprint.add(node, &custom));
        fingerprint
    }

    /// Returns the fingerprint of `graph` without the parameters of operations, where sizes do not depend on them. It takes
    /// less time.
    pub fn without_parameters(graph: GraphRef<'_>) -> Self {
        let mut fingerprint = Self::new(graph);
        for &leaf in graph.leafs {
            if leaf.is_constant() {
                fingerprint.mix(leaf.as_ptr() as u64, KEYS[0]);
            } else {
                fingerprint.add_wiring(leaf);
            }
        }
        graph.nodes.iter().for_each(|&node| fingerprint.add_wiring(node));
        fingerprint
    }

    /// Returns the fingerprint of `graph` with the addresses of its tensors and the fields of all leafs, constants
    /// included.
    pub fn of_placed(operations: &Operations, graph: GraphRef<'_>) -> Self {
        let (mut fingerprint, custom) = (Self::new(graph), operations.custom());
        for &tensor in graph.leafs.iter().chain(graph.nodes) {
            fingerprint.add(tensor, &custom);
            fingerprint.mix(tensor.data().addr() as u64, tensor.buffer().addr() as u64);
        }
        fingerprint
    }

    /// Returns the fingerprint of what decides, besides [`Fingerprint::of`], whether redirected results can be at their
    /// destinations: the fields of all leafs, constants included, and the types of the buffers of the destinations.
    /// `None` if no result is redirected.
    pub fn of_outputs(runtime: &'static Runtime, graph: GraphRef<'_>) -> Option<Self> {
        let mut roots =
            graph.nodes.iter().filter_map(|&node| redirected_to(node).and_then(|_| node.view_source())).peekable();
        roots.peek()?;
        let (mut fingerprint, custom) = (Self::new(graph), runtime.operations.custom());
        graph.leafs.iter().for_each(|&leaf| fingerprint.add(leaf, &custom));
        for root in roots {
            let buffer_type = runtime.buffer_type_of(root).map_or(0, |buffer_type| buffer_type.as_ptr().addr());
            fingerprint.mix(root.as_ptr().addr() as u64, buffer_type as u64);
        }
        Some(fingerprint)
    }

    /// Returns the initial state for a graph of this size.
    fn new(graph: GraphRef<'_>) -> Self {
        Self([graph.leafs.len() as u64, graph.nodes.len() as u64])
    }

    /// Adds a leaf. Constants count by their addresses only.
    #[inline]
    fn add_leaf(&mut self, leaf: TensorRef<'_>, custom: &Range<u32>) {
        if leaf.is_constant() {
            self.mix(leaf.as_ptr() as u64, KEYS[0]);
        } else {
            self.add(leaf, custom);
        }
    }

    /// Adds a tensor without the parameters of its operation.
    #[inline]
    fn add_wiring(&mut self, tensor: TensorRef<'_>) {
        let words = tensor.image().words();
        let [layout, sources, view] = [LAYOUT, FIRST_SOURCES, VIEW].map(|range| &words[range]);
        let (layout, keys) = (layout.as_chunks().0, KEYS.as_chunks().0);
        let state = u64::from(tensor.element()) << 1 | u64::from(tensor.has_memory());
        let role = u64::from(tensor.op()) << 32 | u64::from(tensor.flags());
        let sum = product([state, tensor.as_ptr() as u64], keys[4]);
        let sum = add_products(sum, layout, keys);
        let last = [[sources[0], sources[1]], [sources[2], role], [view[0], view[1]]];
        let sum = add_products(sum, &last, &keys[5..]);
        let others = &words[OTHER_SOURCES];
        let sum = if others.iter().fold(0, |used, word| used | word) == 0 { sum } else { add_others(sum, others) };
        self.mix(low(sum), low(sum >> 64));
    }

    /// Adds a tensor: its fields, its address, and whether it has memory. `custom` are the operations that call
    /// functions of the program.
    #[inline]
    fn add(&mut self, tensor: TensorRef<'_>, custom: &Range<u32>) {
        if custom.contains(&tensor.op()) {
            self.add_without_padding(tensor);
        } else {
            self.add_image(tensor, tensor.image());
        }
    }

    #[cold]
    #[inline(never)]
    fn add_without_padding(&mut self, tensor: TensorRef<'_>) {
        self.add_image(tensor, &tensor.image().without_padding());
    }

    #[inline]
    fn add_image(&mut self, tensor: TensorRef<'_>, image: &Image) {
        let (pairs, rest) = image.words().as_chunks::<2>();
        let (keys, last_keys) = KEYS.as_chunks::<2>().0.split_at(pairs.len());
        let state = u64::from(tensor.element()) << 1 | u64::from(tensor.has_memory());
        let last = rest.iter().fold(state.rotate_right(8), |sum, word| sum ^ word);
        let sum = product([last, tensor.as_ptr() as u64], last_keys[0]);
        let [parameters, sources] = SPARE;
        let is_spare = |range: Range<usize>| pairs[range].as_flattened().iter().fold(0, |used, word| used | word) == 0;
        let sum = if is_spare(parameters.clone()) & is_spare(sources.clone()) {
            let sum = add_products(sum, &pairs[..parameters.start], &keys[..parameters.start]);
            let between = parameters.end..sources.start;
            let sum = add_products(sum, &pairs[between.clone()], &keys[between]);
            add_products(sum, &pairs[sources.end..], &keys[sources.end..])
        } else {
            add_all_products(sum, image)
        };
        self.mix(low(sum), low(sum >> 64));
    }

    fn mix(&mut self, a: u64, b: u64) {
        let [one, two] = self.0;
        self.0 = [fold(one ^ a, KEYS[1] ^ b), fold(two ^ b, KEYS[2] ^ a)];
    }
}

/// Adds the sources after the third, an odd number.
#[cold]
#[inline(never)]
fn add_others(sum: u128, sources: &[u64]) -> u128 {
    let (pairs, rest) = sources.as_chunks::<2>();
    let keys = &KEYS.as_chunks().0[8..];
    let sum = add_products(sum, pairs, keys);
    rest.iter().fold(sum, |sum, &last| sum.wrapping_add(product([last, 0], keys[pairs.len()])))
}

/// A separate function, so that the caller does not keep the words in registers for it.
#[cold]
#[inline(never)]
fn add_all_products(sum: u128, image: &Image) -> u128 {
    let pairs = image.words().as_chunks().0;
    add_products(sum, pairs, KEYS.as_chunks().0)
}

/// The products do not depend on each other, so a processor computes them in parallel.
#[inline]
fn add_products(sum: u128, pairs: &[[u64; 2]], keys: &[[u64; 2]]) -> u128 {
    pairs.iter().zip(keys).map(|(words, keys)| product(*words, *keys)).fold(sum, u128::wrapping_add)
}

/// A product that depends on each word whatever the other one is.
fn product(words: [u64; 2], keys: [u64; 2]) -> u128 {
    u128::from(words[0].wrapping_add(keys[0])) * u128::from(words[1].wrapping_add(keys[1]))
}

/// The exclusive or of both halves of the product.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    low(product) ^ low(product >> 64)
}

#[allow(clippy::cast_possible_truncation, reason = "only the low half is used")]
fn low(wide: u128) -> u64 {
    wide as u64
}

/// Computes the keys, which are the same in every process.
const fn keys() -> [u64; 32] {
    let mut keys = [0; 32];
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut i = 0;
    while i < keys.len() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        keys[i] = (state ^ state >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ state >> 32;
        i += 1;
    }
    keys
}
