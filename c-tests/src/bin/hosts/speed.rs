//! The speed of a job on lastuse, compared with ggml's own allocator.

/// The limit, as lastuse / ggml-alloc.
pub const PROMISED: f64 = 0.99;

/// The probability that the true median lies above an interval, or below it.
const MISS: f64 = 0.025;

/// The speed on lastuse divided by that on ggml's own allocator, of runs side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedRatio {
    /// The median of the runs; not a number without runs.
    pub median: f64,
    /// An interval that the median of more and more runs lies in, with a probability of 95 % from six runs on. For
    /// fewer runs, the smallest ratio and the largest.
    pub from: f64,
    pub to: f64,
}

impl SpeedRatio {
    /// Returns the median of ratios with its interval, which assumes nothing of how they are distributed: each is below the true
    /// median with a probability of one half, whatever the others are. What disturbs several runs in a row makes it too narrow.
    pub fn of(ratios: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = ratios.collect();
        sorted.sort_by(f64::total_cmp);
        let (runs, beyond) = (sorted.len(), beyond(sorted.len()));
        let at = |index: Option<usize>| index.and_then(|index| sorted.get(index)).copied().unwrap_or(f64::NAN);
        Self { from: at(Some(beyond)), to: at(runs.checked_sub(1 + beyond)), median: median(sorted.into_iter()) }
    }

    /// Returns `true` if the median is below the promise.
    pub fn seems_slow(&self) -> bool {
        self.median < PROMISED
    }
}

/// Returns how many of `count` sorted numbers lie beyond either end of the interval.
fn beyond(count: usize) -> usize {
    // The probability that exactly `below` of all are below the true median, and that at most `below` are.
    let mut exactly = 0.5_f64.powf(count as f64);
    let mut at_most = exactly;
    let mut below = 0;
    while at_most <= MISS && 2 * (below + 1) < count {
        exactly *= (count - below) as f64 / (below + 1) as f64;
        at_most += exactly;
        below += 1;
    }
    below.saturating_sub(1)
}

/// Returns the middle of some numbers; for an even count, the mean of the two in the middle.
pub fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count => f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ratios: &[f64]) -> SpeedRatio {
        SpeedRatio::of(ratios.iter().copied())
    }

    #[test]
    fn middle_of_an_even_count_is_between_two() {
        assert_eq!(median([3.0, 1.0, 2.0, 10.0].into_iter()).to_bits(), 2.5_f64.to_bits());
        assert!(median(std::iter::empty()).is_nan());
    }

    /// The numbers are those of tables of the sign test.
    #[test]
    fn interval_leaves_out_what_the_sign_test_does() {
        assert_eq!([1, 5, 6, 8, 9, 12, 15, 20, 25].map(beyond), [0, 0, 0, 0, 1, 2, 3, 5, 7]);
    }

    #[test]
    fn few_runs_have_their_ends_as_interval() {
        assert_eq!(of(&[1.0, 0.9, 0.95]), SpeedRatio { median: 0.95, from: 0.9, to: 1.0 });
        assert_eq!(of(&[0.9]), SpeedRatio { median: 0.9, from: 0.9, to: 0.9 });
        let nothing = of(&[]);
        assert!(nothing.median.is_nan() && !nothing.seems_slow());
    }

    #[test]
    fn slow_is_a_median_below_the_promise() {
        assert!(of(&[0.97, 0.985, 1.0]).seems_slow());
        assert!(!of(&[0.97, 0.99, 1.0]).seems_slow());
    }
}
