//! The hotness of the neurons of a layer, and its groups.

use std::cmp::Ordering;
use std::fmt;

use super::granule::Granule;

/// The most neurons a layer can have: buckets hold their ids as signed numbers of 32 bits.
pub const MAX_NEURONS: u32 = i32::MAX as u32;

/// Why numbers are not hotness counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HotnessDefect {
    /// There are none.
    Empty,
    /// There are more than [`MAX_NEURONS`].
    TooMany(usize),
    /// The number of a neuron is NaN, infinite or negative.
    Invalid {
        /// The neuron.
        neuron: usize,
        /// Its number.
        value: f64,
    },
    /// The sum is infinite.
    TooLarge,
}

impl fmt::Display for HotnessDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there are no neurons: one number for each is expected"),
            Self::TooMany(count) => write!(f, "there are {count} neurons; a layer has at most {MAX_NEURONS}"),
            Self::Invalid { neuron, value } => {
                write!(f, "the hotness of neuron {neuron} is {value}; a finite number, 0 or more, is expected")
            }
            Self::TooLarge => f.write_str("the sum of the hotness is infinite; scale the numbers down"),
        }
    }
}

/// Checks the hotness of a layer: finite numbers, none negative, with a finite sum. Returns the sum.
///
/// # Errors
/// The first [`HotnessDefect`].
pub fn check_hotness(hotness: &[f64]) -> Result<f64, HotnessDefect> {
    if hotness.is_empty() {
        return Err(HotnessDefect::Empty);
    }
    if u32::try_from(hotness.len()).is_ok_and(|count| count <= MAX_NEURONS) {
        let invalid = hotness.iter().position(|value| !value.is_finite() || *value < 0.0);
        if let Some(neuron) = invalid {
            return Err(HotnessDefect::Invalid { neuron, value: hotness[neuron] });
        }
        let sum: f64 = hotness.iter().sum();
        return if sum.is_finite() { Ok(sum) } else { Err(HotnessDefect::TooLarge) };
    }
    Err(HotnessDefect::TooMany(hotness.len()))
}

/// Neurons that are taken together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// How many there are: the granule, or fewer in the last group of a layer.
    pub neurons: u32,
    /// The sum of their hotness.
    pub benefit: f64,
}

/// Returns the ids of the neurons, the hottest first; among equal ones the lowest id first.
pub fn by_hotness(hotness: &[f64]) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..MAX_NEURONS).take(hotness.len()).collect();
    // A stable sort: equal ones keep their order, and so do 0 and -0. There is no NaN.
    ids.sort_by(|&a, &b| hotness[b as usize].partial_cmp(&hotness[a as usize]).unwrap_or(Ordering::Equal));
    ids
}

/// Returns the groups of a layer, the hottest first. Their benefits per neuron never rise.
pub fn groups(hotness: &[f64], by_hotness: &[u32], granule: Granule) -> Vec<Group> {
    let of = |ids: &[u32]| Group {
        neurons: u32::try_from(ids.len()).expect("a granule is 32 bits"),
        benefit: ids.iter().map(|&id| hotness[id as usize]).sum(),
    };
    by_hotness.chunks(granule.get() as usize).map(of).collect()
}
