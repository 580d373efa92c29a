//! The table of a program's runs with two allocators: medians, spreads, ratios, and what differs beyond noise.

use lastuse::placement::Bytes;
use serde::Serialize;

use crate::report::table::Table;

use super::sizes::{as_float, as_mib};

/// Measurements of the runs with one allocator, one value per run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Samples {
    /// Bytes of all compute buffers together.
    pub buffer_bytes: Vec<Bytes>,
    /// Peak resident memory in bytes.
    pub peak_resident_bytes: Vec<Bytes>,
    /// Wall-clock time.
    pub seconds: Vec<f64>,
}

/// A measurement that is compared.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareRow {
    /// Its name and unit.
    pub what: &'static str,
    /// With ggml-alloc.
    pub ggml_alloc: Spread,
    /// With lastuse.
    pub lastuse: Spread,
    /// Its unit.
    pub unit: Unit,
    /// Equal runs have equal values.
    pub is_exact: bool,
}

/// What a single run says of noise.
const UNKNOWN_NOISE: &str = "one run: the noise is unknown";

/// The unit of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// The values of all runs with one allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The number of runs.
    pub runs: usize,
    /// The least value.
    pub min: f64,
    /// The value in the middle, or the mean of two; 0 without values.
    pub median: f64,
    /// The largest value.
    pub max: f64,
}

impl Samples {
    /// Adds a run.
    pub fn add(&mut self, buffer_bytes: Bytes, peak_resident_bytes: Bytes, seconds: f64) {
        self.buffer_bytes.push(buffer_bytes);
        self.peak_resident_bytes.push(peak_resident_bytes);
        self.seconds.push(seconds);
    }
}

impl Spread {
    /// Returns the spread of some values.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.as_slice() {
            [] => 0.0,
            values if values.len().is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
            values => values[middle],
        };
        let end = |value: Option<&f64>| value.copied().unwrap_or(0.0);
        Self { runs: values.len(), min: end(values.first()), median, max: end(values.last()) }
    }

    /// Returns whether some value of `other` is within the range of these.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.min <= other.max && other.min <= self.max
    }

    /// Returns whether all values are the same.
    pub fn is_constant(&self) -> bool {
        self.min.total_cmp(&self.max).is_eq()
    }
}

impl CompareRow {
    /// Returns a row for each measurement.
    pub fn of(ggml: &Samples, lastuse: &Samples) -> [Self; 3] {
        let bytes = |what, is_exact, pick: fn(&Samples) -> &[Bytes]| {
            let spread = |samples| Spread::of(pick(samples).iter().map(|&bytes| as_float(bytes)));
            Self { what, ggml_alloc: spread(ggml), lastuse: spread(lastuse), unit: Unit::Bytes, is_exact }
        };
        let seconds = |samples: &Samples| Spread::of(samples.seconds.iter().copied());
        [
            bytes("compute buffers, bytes", true, |samples| &samples.buffer_bytes),
            bytes("peak resident memory, bytes", false, |samples| &samples.peak_resident_bytes),
            Self {
                what: "time, s",
                ggml_alloc: seconds(ggml),
                lastuse: seconds(lastuse),
                unit: Unit::Seconds,
                is_exact: false,
            },
        ]
    }

    /// Formats the difference of the medians, or why there is none to speak of: where a run with one allocator is within the
    /// range of those with the other, the difference is within noise.
    fn difference(&self) -> String {
        let Self { ggml_alloc: ggml, lastuse, .. } = self;
        let by = lastuse.median - ggml.median;
        let word = if by < 0.0 { "less" } else { "more" };
        match self.unit {
            _ if ggml.is_constant() && lastuse.is_constant() && ggml.overlaps(lastuse) => "equal".to_owned(),
            _ if ggml.overlaps(lastuse) => "within noise".to_owned(),
            _ if ggml.runs < 2 && self.unit == Unit::Seconds => UNKNOWN_NOISE.to_owned(),
            Unit::Bytes if ggml.runs < 2 && !self.is_exact => {
                format!("{:.2} MiB {word}; {UNKNOWN_NOISE}", as_mib(by.abs()))
            }
            Unit::Bytes => format!("{:.2} MiB {word}", as_mib(by.abs())),
            Unit::Seconds => format!("{:.3} s {word}", by.abs()),
        }
    }

    /// Formats medians, with the digits of the unit.
    fn number(&self, number: f64) -> String {
        let digits = if self.unit == Unit::Seconds { 3 } else { 0 };
        format!("{number:.digits$}")
    }

    fn range(&self, spread: &Spread) -> String {
        match spread.is_constant() {
            true => "-".to_owned(),
            false => format!("{} to {}", self.number(spread.min), self.number(spread.max)),
        }
    }

    fn ratio(&self) -> String {
        let Self { ggml_alloc: ggml, lastuse, .. } = self;
        if ggml.median > 0.0 { format!("{:.3}", lastuse.median / ggml.median) } else { "-".to_owned() }
    }
}

/// Formats the rows as an aligned table.
pub fn compare_table(rows: &[CompareRow]) -> String {
    let table = Table::<CompareRow>::new()
        .texts("", 0, |row| row.what.to_owned())
        .numbers("ggml-alloc", 0, |row| row.number(row.ggml_alloc.median))
        .numbers("min to max", 0, |row| row.range(&row.ggml_alloc))
        .numbers("lastuse", 0, |row| row.number(row.lastuse.median))
        .numbers("min to max", 0, |row| row.range(&row.lastuse))
        .numbers("ratio", 0, |row| row.ratio())
        .texts("difference", 0, |row| row.difference());
    table.text(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        let median = |values: &[f64]| Spread::of(values.iter().copied()).median;
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).abs() < 1e-9);
    }

    #[test]
    fn rows_have_medians_spreads_and_ratios() {
        let (mut ggml, mut lastuse) = (Samples::default(), Samples::default());
        for (run, part) in [(0, 0.0), (1, 0.5), (2, 1.0)] {
            ggml.add(4 << 20, (5 << 20) + run, 2.0 + part);
            lastuse.add(3 << 20, (4 << 20) + run, 1.5 + part);
        }
        let table = compare_table(&CompareRow::of(&ggml, &lastuse));
        assert_eq!(
            table,
            "                             ggml-alloc          min to max  lastuse          min to max  ratio  difference\n\
             compute buffers, bytes          4194304                   -  3145728                   -  0.750  1.00 MiB less\n\
             peak resident memory, bytes     5242881  5242880 to 5242882  4194305  4194304 to 4194306  0.800  1.00 MiB less\n\
             time, s                           2.500      2.000 to 3.000    2.000      1.500 to 2.500  0.800  within noise\n"
        );
    }

    #[test]
    fn differences_need_ranges_that_are_apart() {
        let row = |ggml: &[f64], lastuse: &[f64]| {
            let [ggml_alloc, lastuse] = [ggml, lastuse].map(|values| Spread::of(values.iter().copied()));
            CompareRow { what: "time, s", ggml_alloc, lastuse, unit: Unit::Seconds, is_exact: false }.difference()
        };
        assert_eq!(row(&[2.0, 2.1], &[1.0, 1.1]), "1.000 s less");
        assert_eq!(row(&[1.0, 1.1], &[2.0, 2.1]), "1.000 s more");
        assert_eq!(row(&[1.0, 2.0], &[2.0, 3.0]), "within noise");
        assert_eq!(row(&[1.0, 4.0], &[2.0, 3.0]), "within noise");
        assert_eq!(row(&[1.0], &[2.0]), "one run: the noise is unknown");
        assert_eq!(row(&[1.0], &[1.0]), "equal");
    }

    #[test]
    fn bytes_of_a_single_run_are_facts_only_where_runs_are_equal() {
        let (mut ggml, mut lastuse) = (Samples::default(), Samples::default());
        ggml.add(4 << 20, 5 << 20, 2.0);
        lastuse.add(3 << 20, 4 << 20, 1.5);
        let differences = CompareRow::of(&ggml, &lastuse).map(|row| row.difference());
        let expected =
            ["1.00 MiB less", "1.00 MiB less; one run: the noise is unknown", "one run: the noise is unknown"];
        assert_eq!(differences, expected);
    }
}
