//! Chooses the neurons of each layer under a budget.
//!
//! The groups of a layer are taken from the hottest to the coldest, so a layer is a curve of hotness over bytes. Its
//! segments are the groups, except where bytes that the layer takes once make the first group expensive: then groups
//! are merged until the hotness per byte never rises along the curve. Taking segments of all layers by hotness per
//! byte is the optimum of the relaxation in which a part of the last segment may be taken, which bounds every choice
//! of whole groups.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;

use crate::Bytes;

use super::cost::LayerCost;
use super::granule::Granule;
use super::groups::{Group, HotnessDefect, by_hotness, check_hotness, groups};

/// A layer whose neurons can be divided.
#[derive(Clone, Copy, Debug)]
pub struct LayerNeurons<'h> {
    /// The hotness of each neuron, by id.
    pub hotness: &'h [f64],
    /// Their bytes.
    pub cost: LayerCost,
}

/// The treatment of groups whose neurons were never active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Inactive {
    /// They fill the room that is left, in the order of the layers.
    #[default]
    Fill,
    /// They are never taken, as in PowerInfer.
    Skip,
}

/// The neurons of all layers that are on the GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct NeuronDivision {
    /// In the order of the layers.
    pub layers: Vec<LayerDivision>,
    /// No choice of whole groups that fits the budget covers more hotness.
    pub bound: f64,
}

/// The neurons of a layer that are on the GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerDivision {
    /// Their ids, ascending: a multiple of the granule, or all.
    pub bucket: Vec<u32>,
    /// The bytes that they take.
    pub bytes: Bytes,
    /// The sum of their hotness.
    pub covered: f64,
    /// The sum of the hotness of all neurons of the layer.
    pub total: f64,
}

/// A layer that cannot be divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnusableLayer {
    /// The layer.
    pub layer: usize,
    /// The defect of its hotness; `None` if its bytes overflow.
    pub defect: Option<HotnessDefect>,
}

impl fmt::Display for UnusableLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.defect {
            Some(defect) => write!(f, "layer {}: {defect}", self.layer),
            None => write!(f, "layer {}: the bytes of its neurons are 2^64 or more", self.layer),
        }
    }
}

impl NeuronDivision {
    /// Returns the number of neurons on the GPU.
    pub fn neurons(&self) -> u64 {
        self.layers.iter().map(|layer| layer.bucket.len() as u64).sum()
    }

    /// Returns the bytes of all layers, which are within the budget.
    pub fn bytes(&self) -> Bytes {
        self.layers.iter().map(|layer| layer.bytes).sum()
    }

    /// Returns the hotness on the GPU.
    pub fn covered(&self) -> f64 {
        self.layers.iter().map(|layer| layer.covered).sum()
    }

    /// Returns the hotness of all neurons.
    pub fn total(&self) -> f64 {
        self.layers.iter().map(|layer| layer.total).sum()
    }
}

/// Chooses the neurons that are on the GPU: groups of `granule` neurons by hotness per byte, within `budget`.
///
/// Among equal groups, that of the lowest layer is taken first; among equal neurons, that with the lowest id. The last
/// group of a layer has fewer neurons if their number is not a multiple of the granule.
///
/// # Errors
/// The first [`UnusableLayer`].
pub fn divide(
    layers: &[LayerNeurons<'_>],
    budget: Bytes,
    granule: Granule,
    inactive: Inactive,
) -> Result<NeuronDivision, UnusableLayer> {
    let mut curves = Vec::with_capacity(layers.len());
    for (layer, of_layer) in layers.iter().enumerate() {
        let unusable = |defect| UnusableLayer { layer, defect };
        let total = check_hotness(of_layer.hotness).map_err(|defect| unusable(Some(defect)))?;
        of_layer.cost.bytes(of_layer.hotness.len() as u64).ok_or(unusable(None))?;
        curves.push(Curve::new(of_layer, total, granule, inactive));
    }
    let mut choice = DivisionState { left: budget, taken: vec![0; curves.len()], covered: 0.0 };
    let bound = choice.take_segments(&curves);
    choice.take_groups(&curves);
    let taken = choice.taken.iter();
    Ok(NeuronDivision { layers: curves.iter().zip(taken).map(|(curve, &taken)| curve.first(taken)).collect(), bound })
}

/// The groups of a layer that can be taken, the hottest first.
struct Curve<'h> {
    layer: &'h LayerNeurons<'h>,
    total: f64,
    by_hotness: Vec<u32>,
    groups: Vec<Group>,
}

/// Groups of a layer that follow each other, and are taken together.
#[derive(Clone, Copy, Debug)]
struct CurveSegment {
    groups: usize,
    bytes: Bytes,
    benefit: f64,
}

impl CurveSegment {
    #[expect(clippy::cast_precision_loss, reason = "equal bytes stay equal, and others need no more digits")]
    fn per_byte(&self) -> f64 {
        self.benefit / self.bytes as f64
    }
}

impl<'h> Curve<'h> {
    fn new(layer: &'h LayerNeurons<'h>, total: f64, granule: Granule, inactive: Inactive) -> Self {
        let by_hotness = by_hotness(layer.hotness);
        let mut groups = groups(layer.hotness, &by_hotness, granule);
        if inactive == Inactive::Skip {
            groups.retain(|group| group.benefit > 0.0);
        }
        Self { layer, total, by_hotness, groups }
    }

    /// Returns the group at `position` as a segment; the first has the bytes of the layer, too.
    fn group(&self, position: usize) -> Option<CurveSegment> {
        let group = self.groups.get(position)?;
        let once = if position == 0 { self.layer.cost.layer } else { 0 };
        // `divide` has refused layers whose bytes overflow.
        let bytes = self.layer.cost.neuron.get() * u64::from(group.neurons) + once;
        Some(CurveSegment { groups: 1, bytes, benefit: group.benefit })
    }

    /// Returns the segments; their hotness per byte never rises.
    fn segments(&self) -> Vec<CurveSegment> {
        let mut segments: Vec<CurveSegment> = Vec::new();
        for mut segment in (0..self.groups.len()).filter_map(|position| self.group(position)) {
            while let Some(before) = segments.pop_if(|before| before.per_byte() < segment.per_byte()) {
                segment.groups += before.groups;
                segment.bytes += before.bytes;
                segment.benefit += before.benefit;
            }
            segments.push(segment);
        }
        segments
    }

    /// Returns the division that takes the first groups.
    fn first(&self, groups: usize) -> LayerDivision {
        let taken = &self.groups[..groups];
        let count: usize = taken.iter().map(|group| group.neurons as usize).sum();
        let mut bucket = self.by_hotness[..count].to_vec();
        bucket.sort_unstable();
        let bytes = self.layer.cost.bytes(count as u64).expect("divide has refused layers whose bytes overflow");
        // All neurons have exactly the sum of all, whatever the order of the additions.
        let all = count == self.by_hotness.len();
        let covered = if all { self.total } else { taken.iter().map(|group| group.benefit).sum() };
        LayerDivision { bucket, bytes, covered, total: self.total }
    }
}

/// The next segment of a layer. The greatest is taken next.
struct Next {
    layer: usize,
    segment: CurveSegment,
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_density = self.segment.per_byte().total_cmp(&other.segment.per_byte());
        let by_benefit = || self.segment.benefit.total_cmp(&other.segment.benefit);
        by_density.then_with(by_benefit).then_with(|| other.layer.cmp(&self.layer))
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next {}

/// The choice so far.
struct DivisionState {
    left: Bytes,
    /// Groups of each layer.
    taken: Vec<usize>,
    covered: f64,
}

impl DivisionState {
    /// Takes segments by hotness per byte while they fit. Returns the bound: the hotness covered when the first does
    /// not fit, and the part of it that would fit.
    fn take_segments(&mut self, curves: &[Curve<'_>]) -> f64 {
        let segments: Vec<Vec<CurveSegment>> = curves.iter().map(Curve::segments).collect();
        let next = |layer: usize, position: usize| Some(Next { layer, segment: *segments[layer].get(position)? });
        let mut bound = None;
        let mut positions = vec![0; curves.len()];
        let mut queue: BinaryHeap<Next> = (0..curves.len()).filter_map(|layer| next(layer, 0)).collect();
        while let Some(Next { layer, segment }) = queue.pop() {
            if self.take(layer, &segment) {
                positions[layer] += 1;
                queue.extend(next(layer, positions[layer]));
            } else {
                bound.get_or_insert(self.covered + fraction(self.left, segment.bytes) * segment.benefit);
            }
        }
        bound.unwrap_or(self.covered)
    }

    /// Takes single groups by hotness per byte as long as any fits.
    fn take_groups(&mut self, curves: &[Curve<'_>]) {
        let next = |layer: usize, taken: usize| curves[layer].group(taken).map(|segment| Next { layer, segment });
        let mut queue: BinaryHeap<Next> =
            (0..curves.len()).filter_map(|layer| next(layer, self.taken[layer])).collect();
        while let Some(Next { layer, segment }) = queue.pop() {
            if self.take(layer, &segment) {
                queue.extend(next(layer, self.taken[layer]));
            }
        }
    }

    /// Takes a segment if it fits.
    fn take(&mut self, layer: usize, segment: &CurveSegment) -> bool {
        let Some(left) = self.left.checked_sub(segment.bytes) else { return false };
        self.left = left;
        self.taken[layer] += segment.groups;
        self.covered += segment.benefit;
        true
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio needs no more digits")]
fn fraction(part: Bytes, whole: Bytes) -> f64 {
    part as f64 / whole as f64
}
