//! How many neurons are taken at a time.

use std::fmt;
use std::num::NonZeroU32;

/// Counts of neurons are multiples of this, or all neurons of a layer: PowerInfer's kernels for batches of more than
/// 100 columns need it.
pub const GRANULE_UNIT: u32 = 32;

/// PowerInfer's granule.
pub const DEFAULT_GRANULE: u32 = 256;

/// A number of neurons that are taken together: a multiple of [`GRANULE_UNIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granule(NonZeroU32);

/// The number is not a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidGranule(pub u32);

impl fmt::Display for InvalidGranule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a granule: give a multiple of {GRANULE_UNIT}, at least {GRANULE_UNIT}", self.0)
    }
}

impl Granule {
    /// Returns the granule of `neurons`.
    ///
    /// # Errors
    /// [`InvalidGranule`] for 0, and for a number that is not a multiple of [`GRANULE_UNIT`].
    pub fn new(neurons: u32) -> Result<Self, InvalidGranule> {
        let valid = NonZeroU32::new(neurons).filter(|_| neurons.is_multiple_of(GRANULE_UNIT));
        valid.map(Self).ok_or(InvalidGranule(neurons))
    }

    /// Returns the number of neurons.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl Default for Granule {
    fn default() -> Self {
        Self(NonZeroU32::MIN.saturating_add(DEFAULT_GRANULE - 1))
    }
}
