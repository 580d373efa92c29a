//! The reported numbers of a division.

use crate::Bytes;

/// A layer.
#[derive(Clone, Debug, PartialEq)]
pub struct DivisionRow {
    /// The name of its file.
    pub file: String,
    /// All its neurons.
    pub neurons: u64,
    /// Those on the GPU.
    pub on_gpu: u64,
    /// The true bytes of those on the GPU, if the shape of the model is known.
    pub bytes: Option<Bytes>,
    /// The hotness on the GPU.
    pub covered: f64,
    /// The hotness of all neurons.
    pub total: f64,
}

/// The limits of a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DivisionBudget {
    /// Neurons of all layers.
    Neurons(u64),
    /// True bytes.
    Bytes(Bytes),
    /// Bytes that PowerInfer takes for this number of neurons.
    PowerInfer {
        /// The bytes.
        bytes: Bytes,
        /// The neurons.
        neurons: u64,
    },
}

/// A division of all layers.
#[derive(Clone, Debug)]
pub struct DivisionReport {
    /// The layers.
    pub rows: Vec<DivisionRow>,
    /// Its limit.
    pub budget: DivisionBudget,
    /// The neurons that are taken at a time.
    pub granule: u32,
    /// True bytes of a neuron, if the shape of the model is known.
    pub neuron_bytes: Option<Bytes>,
    /// No division covers more hotness.
    pub bound: f64,
}

impl DivisionReport {
    /// Returns the sum of all layers. Its bytes are unknown if those of a layer are.
    pub fn sum(&self) -> DivisionRow {
        let rows = &self.rows;
        let bytes = rows.iter().try_fold(0, |sum: Bytes, row| sum.checked_add(row.bytes?));
        DivisionRow {
            file: String::new(),
            neurons: rows.iter().map(|row| row.neurons).sum(),
            on_gpu: rows.iter().map(|row| row.on_gpu).sum(),
            bytes,
            covered: rows.iter().map(|row| row.covered).sum(),
            total: rows.iter().map(|row| row.total).sum(),
        }
    }

    /// Returns the bytes by which a division is over the bytes that were given: possible for estimates of PowerInfer
    /// only.
    pub fn over_budget(&self) -> Option<Bytes> {
        let DivisionBudget::PowerInfer { bytes, .. } = self.budget else { return None };
        self.sum().bytes?.checked_sub(bytes).filter(|&over| over > 0)
    }
}

impl DivisionRow {
    /// Returns the part of the hotness that is on the GPU; `None` if no neuron was ever active.
    pub fn coverage(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.covered / self.total)
    }

    /// Returns the part of the neurons that is on the GPU.
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more digits")]
    pub fn part(&self) -> f64 {
        self.on_gpu as f64 / self.neurons.max(1) as f64
    }
}
