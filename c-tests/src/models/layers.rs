//! The layers that models are built of. Weights keep the variance of what they are applied to, so that values neither
//! vanish nor overflow in deep models.

use super::weight::{Kind, Weight};

/// The element types of a model.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    /// Of matrices.
    pub matrix: Kind,
    /// Of convolutions.
    pub convolution: Kind,
}

/// A list of layers under construction.
#[derive(Debug)]
pub struct Layers {
    prefix: String,
    kinds: Kinds,
    weights: Vec<Weight>,
}

/// Far below the values that it is added to.
const BIAS: f32 = 0.02;

impl Layers {
    /// Begins a list; names of tensors start with `prefix`.
    pub fn new(prefix: &str, kinds: Kinds) -> Self {
        Self { prefix: prefix.to_owned(), kinds, weights: Vec::new() }
    }

    /// Returns the tensors of all layers.
    pub fn finish(self) -> Vec<Weight> {
        self.weights
    }

    /// Adds a tensor.
    pub fn add(&mut self, name: &str, kind: Kind, extents: &[u64], center: f32, spread: f32) {
        let name = format!("{}{name}", self.prefix);
        self.weights.push(Weight { name, kind, extents: extents.to_vec(), center, spread });
    }

    /// Adds a matrix with a bias.
    pub fn linear(&mut self, name: &str, inputs: u64, outputs: u64) {
        self.matrix(name, inputs, outputs);
        self.bias(name, outputs);
    }

    /// Adds a matrix without a bias. Rows that are not whole blocks are f16.
    pub fn matrix(&mut self, name: &str, inputs: u64, outputs: u64) {
        let kind = if inputs.is_multiple_of(32) { self.kinds.matrix } else { Kind::F16 };
        self.add(&format!("{name}.weight"), kind, &[inputs, outputs], 0.0, spread(inputs));
    }

    /// Adds a two-dimensional convolution with a square kernel and a bias.
    pub fn convolution(&mut self, name: &str, kernel: u64, inputs: u64, outputs: u64) {
        self.plain_convolution(name, kernel, inputs, outputs);
        self.bias(name, outputs);
    }

    /// Adds a two-dimensional convolution without a bias.
    pub fn plain_convolution(&mut self, name: &str, kernel: u64, inputs: u64, outputs: u64) {
        let extents = [kernel, kernel, inputs, outputs];
        let spread = spread(kernel * kernel * inputs);
        self.add(&format!("{name}.weight"), self.kinds.convolution, &extents, 0.0, spread);
    }

    /// Adds the scale and the bias of a normalization.
    pub fn norm(&mut self, name: &str, width: u64) {
        self.add(&format!("{name}.weight"), Kind::F32, &[width], 1.0, 0.1);
        self.bias(name, width);
    }

    fn bias(&mut self, name: &str, width: u64) {
        self.add(&format!("{name}.bias"), Kind::F32, &[width], 0.0, BIAS);
    }
}

/// Returns the spread at which a sum of this many products has the variance of its factors.
pub fn spread(inputs: u64) -> f32 {
    let inputs = u16::try_from(inputs).expect("layers of small models have few inputs");
    (3.0 / f32::from(inputs)).sqrt()
}
