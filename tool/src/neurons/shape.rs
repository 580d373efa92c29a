//! The shape of a model.

use lastuse_neurons::division::{LayerCost, MatrixRow, PowerInferShape};
use lastuse_neurons::gguf::TensorType;
use lastuse_neurons::hotness::LayerHotness;

/// Options for the shape of a model.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// The number of layers. If it differs, the files are refused [default: as many as there are files]
    #[arg(long)]
    pub layers: Option<u64>,

    /// The number of neurons of a layer, n_ff. If it differs, the files are refused [default: that of the files]
    #[arg(long)]
    pub ff: Option<u64>,

    /// The width of the model, n_embd: elements of a row.
    #[arg(long, value_name = "ELEMENTS", conflicts_with = "check")]
    embd: Option<u64>,

    /// The element type of the matrices: f16, q4_0, q4_K, ...
    #[arg(long = "type", value_name = "TYPE", value_parser = element, conflicts_with = "check")]
    pub element: Option<TensorType>,

    /// The element type of the down matrix, if it differs.
    #[arg(long, value_name = "TYPE", value_parser = element, requires = "element", conflicts_with = "check")]
    down_type: Option<TensorType>,

    /// The model has no gate matrix: a neuron is two rows, not three.
    #[arg(long, conflicts_with = "check")]
    no_gate: bool,

    /// Charge each matrix for padding its last row to a multiple of this: 512 for quantized types on CUDA.
    #[arg(long, value_name = "ELEMENTS", default_value = "1", conflicts_with = "check")]
    row_padding: std::num::NonZeroU64,
}

fn element(text: &str) -> Result<TensorType, String> {
    TensorType::named(text).ok_or_else(|| {
        let known: Vec<&str> = TensorType::all().iter().map(|known| known.name).collect();
        format!("{text:?} is not an element type; expected {}", known.join(", "))
    })
}

impl Options {
    /// Returns whether the bytes of a neuron are known.
    pub fn is_known(&self) -> bool {
        self.embd.is_some() && self.element.is_some()
    }

    /// Fails if there are other layers or neurons than stated.
    pub fn compare(&self, layers: &[LayerHotness]) -> Result<(), String> {
        let found = layers.len() as u64;
        if let Some(expected) = self.layers.filter(|&expected| expected != found) {
            return Err(format!("there is hotness of {found} layers, and --layers is {expected}"));
        }
        let differs = |layer: &&LayerHotness| self.ff.is_some_and(|expected| expected != layer.hotness.len() as u64);
        if let (Some(layer), Some(expected)) = (layers.iter().find(differs), self.ff) {
            let (path, found) = (layer.path.display(), layer.hotness.len());
            return Err(format!("{path}: it has {found} neurons, and --ff is {expected}"));
        }
        Ok(())
    }

    /// Returns the true bytes of neurons, if the shape is known.
    pub fn cost(&self) -> Result<Option<LayerCost>, String> {
        let (Some(embd), Some(element)) = (self.embd, self.element) else { return Ok(None) };
        let rows = if self.no_gate { 1 } else { 2 };
        let down = self.down_type.unwrap_or(element);
        let mut matrices = vec![self.row(embd, element)?; rows];
        matrices.push(self.row(embd, down)?);
        let cost = LayerCost::of_matrices(&matrices);
        cost.map(Some).ok_or_else(|| format!("the bytes of a neuron with rows of {embd} elements are 2^64 or more"))
    }

    fn row(&self, embd: u64, element: TensorType) -> Result<MatrixRow, String> {
        let TensorType { name, block_elements, .. } = element;
        let bytes_of = |elements: u64, what: &str| match element.row_bytes(elements) {
            Some(bytes) => Ok(bytes),
            None => Err(format!(
                "{what} of {elements} elements is not a whole number of blocks of {name} ({block_elements} elements)"
            )),
        };
        if embd == 0 {
            return Err("--embd is 0: a row has at least one element".to_owned());
        }
        let padded = embd.checked_next_multiple_of(self.row_padding.get());
        let Some(padding) = padded.map(|padded| padded - embd) else {
            return Err(format!("rows of {embd} elements cannot be padded to a multiple of {}", self.row_padding));
        };
        Ok(MatrixRow { row: bytes_of(embd, "a row")?, padding: bytes_of(padding, "padding")? })
    }

    /// Returns what PowerInfer's estimate depends on, if the element type is known.
    pub fn powerinfer(&self, neurons: u64) -> Option<PowerInferShape> {
        let TensorType { block_bytes, block_elements, .. } = self.element?;
        Some(PowerInferShape { neurons, block_bytes, block_elements, gated: !self.no_gate })
    }
}
