//! The largest number that still fits, such as the length of a context.

/// Returns the largest multiple of `step` in `from..=to` for which `place` gives a placement, with that placement, by
/// bisection: what fits must also fit with a smaller number. `from` is rounded up, `to` down. `None` if not even the
/// smallest fits.
///
/// # Errors
/// The first error of `place`.
pub fn longest<T, E>(
    from: u64,
    to: u64,
    step: u64,
    mut place: impl FnMut(u64) -> Result<Option<T>, E>,
) -> Result<Option<(u64, T)>, E> {
    let step = step.max(1);
    let (mut low, high) = (from.div_ceil(step), to / step);
    if low > high {
        return Ok(None);
    }
    if let Some(placed) = place(high * step)? {
        return Ok(Some((high * step, placed)));
    }
    let Some(mut placed) = place(low * step)? else { return Ok(None) };
    let mut too_many = high;
    while too_many - low > 1 {
        let middle = low.midpoint(too_many);
        match place(middle * step)? {
            Some(found) => (low, placed) = (middle, found),
            None => too_many = middle,
        }
    }
    Ok(Some((low * step, placed)))
}
