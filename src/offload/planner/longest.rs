//! The largest number that still fits, such as the length of a context.

/// A search for the longest length that fits, by bisection: what fits must also fit with a smaller length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestSearch {
    /// The shortest length, rounded up to a multiple of the step.
    pub from: u64,
    /// The longest length, rounded down.
    pub to: u64,
    /// Lengths are multiples of it; at least 1.
    pub step: u64,
    /// The longest length that is known to fit; 0 if none is.
    pub longest: u64,
    /// The shortest length that is known not to fit; 0 if none is.
    pub too_long: u64,
}

impl LongestSearch {
    /// Returns the next length to try, or `None` at the end: first the longest, then the shortest, then those between.
    pub fn next(&self) -> Option<u64> {
        let step = self.step.max(1);
        let (low, high) = (self.from.div_ceil(step).max(1), self.to / step);
        let (fits, too_many) = (self.longest / step, self.too_long / step);
        let next = match (fits, too_many) {
            (0, 0) => high,
            (0, too_many) if too_many > low => low,
            (fits, too_many) if fits > 0 && too_many.saturating_sub(fits) > 1 => fits.midpoint(too_many),
            _ => return None,
        };
        (low <= high).then_some(next * step)
    }

    /// Notes whether a length that was tried fits.
    pub fn note(&mut self, length: u64, fits: bool) {
        *(if fits { &mut self.longest } else { &mut self.too_long }) = length;
    }
}

/// Returns the largest multiple of `step` in `from..=to`, and above 0, for which `place` gives an offload plan, with that
/// offload. `None` if not even the smallest fits.
///
/// # Errors
/// The first error of `place`.
pub fn longest<T, E>(
    from: u64,
    to: u64,
    step: u64,
    mut place: impl FnMut(u64) -> Result<Option<T>, E>,
) -> Result<Option<(u64, T)>, E> {
    let mut search = LongestSearch { from, to, step, ..LongestSearch::default() };
    let mut best = None;
    while let Some(length) = search.next() {
        let placed = place(length)?;
        search.note(length, placed.is_some());
        best = placed.map(|placed| (length, placed)).or(best);
    }
    Ok(best)
}
