//! The table of a program's runs with two allocators: medians and ratios.

use std::fmt::Write;

use serde::Serialize;

use crate::placement::Bytes;

use super::sizes::as_float;

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
    /// The median with ggml-alloc.
    pub ggml_alloc: f64,
    /// The median with lastuse.
    pub lastuse: f64,
    /// The number of decimals.
    pub digits: usize,
}

impl Samples {
    /// Adds a run.
    pub fn add(&mut self, buffer_bytes: Bytes, peak_resident_bytes: Bytes, seconds: f64) {
        self.buffer_bytes.push(buffer_bytes);
        self.peak_resident_bytes.push(peak_resident_bytes);
        self.seconds.push(seconds);
    }
}

impl CompareRow {
    /// Returns a row for each measurement.
    pub fn of(ggml: &Samples, lastuse: &Samples) -> [Self; 3] {
        let bytes = |what, pick: fn(&Samples) -> &[Bytes]| Self {
            what,
            ggml_alloc: median(pick(ggml).iter().map(|&bytes| as_float(bytes))),
            lastuse: median(pick(lastuse).iter().map(|&bytes| as_float(bytes))),
            digits: 0,
        };
        [
            bytes("compute buffers, bytes", |samples| &samples.buffer_bytes),
            bytes("peak resident memory, bytes", |samples| &samples.peak_resident_bytes),
            Self {
                what: "time, s",
                ggml_alloc: median(ggml.seconds.iter().copied()),
                lastuse: median(lastuse.seconds.iter().copied()),
                digits: 3,
            },
        ]
    }
}

/// Formats the rows as an aligned table. The ratio is lastuse / ggml-alloc.
pub fn compare_table(rows: &[CompareRow]) -> String {
    let mut text = format!("{:28}  {:>14}  {:>14}  {:>6}\n", "", "ggml-alloc", "lastuse", "ratio");
    for CompareRow { what, ggml_alloc, lastuse, digits } in rows {
        let ratio = if *ggml_alloc > 0.0 { format!("{:.3}", lastuse / ggml_alloc) } else { "-".to_owned() };
        let _ = writeln!(text, "{what:28}  {ggml_alloc:>14.digits$}  {lastuse:>14.digits$}  {ratio:>6}");
    }
    text
}

/// Returns the median: the mean of two values in the middle, 0 without values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0].into_iter()) - 2.5).abs() < 1e-9);
        assert!(median(std::iter::empty()).abs() < 1e-9);
    }

    #[test]
    fn rows_have_medians_and_ratios() {
        let (mut ggml, mut lastuse) = (Samples::default(), Samples::default());
        for run in 0..3 {
            ggml.add(1000, 5000 + run, 2.0);
            lastuse.add(720, 4000 + run, 1.5);
        }
        let table = compare_table(&CompareRow::of(&ggml, &lastuse));
        assert_eq!(
            table,
            "                                  ggml-alloc         lastuse   ratio\n\
             compute buffers, bytes                  1000             720   0.720\n\
             peak resident memory, bytes             5001            4001   0.800\n\
             time, s                                2.000           1.500   0.750\n"
        );
    }
}
