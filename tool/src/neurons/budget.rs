//! The budget of a division: neurons, or bytes.

use lastuse::placement::Bytes;
use lastuse_neurons::division::{DEFAULT_GRANULE, Inactive, LayerCost, powerinfer_capacity};
use lastuse_neurons::report::DivisionBudget;

use crate::neurons::shape;
use crate::passes::size_option;

/// Options for the budget.
#[derive(clap::Args)]
#[group(skip)]
pub struct Options {
    /// Maximum number of neurons on the GPU, over all layers.
    #[arg(long, value_name = "CAPACITY", conflicts_with_all = ["bytes", "check"])]
    neurons: Option<u64>,

    /// Maximum number of bytes of neurons on the GPU: 53000000, 512M, 2GiB. Needs --embd and --type.
    #[arg(long, value_parser = size_option, conflicts_with = "check")]
    pub bytes: Option<Bytes>,

    /// Divide as PowerInfer does: by its estimate of bytes, which depends on n_ff and --type only, in groups of 256,
    /// and without neurons that were never active, even where room is left.
    #[arg(long, conflicts_with = "check")]
    pub powerinfer: bool,
}

/// The limits of a division.
pub struct DivisionLimit {
    pub budget: u64,
    /// The charge for each neuron.
    pub cost: LayerCost,
    pub inactive: Inactive,
    pub report: DivisionBudget,
}

impl Options {
    /// Fails if there is no budget, or an option that it needs is missing.
    pub fn check_usage(&self, shape: &shape::Options) -> Result<(), String> {
        match self {
            Self { neurons: None, bytes: None, .. } => Err("a budget is needed: --neurons or --bytes".to_owned()),
            Self { bytes: Some(_), powerinfer: true, .. } if shape.element.is_none() => {
                Err("--bytes with --powerinfer needs --type, the element type of the matrices".to_owned())
            }
            Self { bytes: Some(_), powerinfer: false, .. } if !shape.is_known() => {
                Err("--bytes needs --embd and --type: a neuron is a row of that many elements in each matrix"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the limit for layers of `neurons` neurons.
    pub fn limit(&self, shape: &shape::Options, neurons: u64) -> Result<DivisionLimit, String> {
        let granule = u64::from(DEFAULT_GRANULE);
        if self.powerinfer && !neurons.is_multiple_of(granule) {
            return Err(format!(
                "PowerInfer cannot divide {neurons} neurons in a layer, which is not a multiple of {granule}: leave \
                 --powerinfer out"
            ));
        }
        let inactive = if self.powerinfer { Inactive::Skip } else { Inactive::Fill };
        let of_neurons = |budget, report| DivisionLimit { budget, cost: LayerCost::COUNT, inactive, report };
        match (self.neurons, self.bytes) {
            (Some(neurons), _) => Ok(of_neurons(neurons, DivisionBudget::Neurons(neurons))),
            (None, Some(bytes)) if self.powerinfer => {
                let estimate = shape.powerinfer(neurons).and_then(|shape| powerinfer_capacity(bytes, &shape));
                let Some(capacity) = estimate else {
                    return Err(format!("PowerInfer's estimate for {neurons} neurons is not a number of bytes"));
                };
                Ok(of_neurons(capacity, DivisionBudget::PowerInfer { bytes, neurons: capacity }))
            }
            (None, bytes) => {
                let (Some(bytes), Some(cost)) = (bytes, shape.cost()?) else {
                    return Err("the budget or the shape of the model is missing".to_owned());
                };
                Ok(DivisionLimit { budget: bytes, cost, inactive, report: DivisionBudget::Bytes(bytes) })
            }
        }
    }
}
