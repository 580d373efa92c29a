//! `--hotness`: neurons of FFNs on the first device, in the room that other tensors leave.

use std::path::PathBuf;

use lastuse::offload::device::Device;
use lastuse::offload::item::Item;
use lastuse::offload::planner::OffloadPlan;
use lastuse::placement::Bytes;
use lastuse_neurons::division::{Granule, Inactive, LayerCost, LayerNeurons, MatrixRow, NeuronDivision, divide};
use lastuse_neurons::gpuidx::{Dialect, GpuIndex, LayerIndex};
use lastuse_neurons::hotness::{LayerHotness, read_hotness};
use serde_json::{Value, json};

/// The matrices whose rows, or columns, are neurons.
const MATRICES: [&str; 3] = ["ffn_up.weight", "ffn_gate.weight", "ffn_down.weight"];

/// FFNs whose neurons are divided.
pub struct DividedFfns {
    layers: Vec<LayerHotness>,
    costs: Vec<LayerCost>,
}

/// Neurons on the first device.
pub struct DeviceNeurons {
    /// The bytes that were allowed.
    pub allowed: Bytes,
    /// By layer.
    pub division: NeuronDivision,
    /// How many a layer has.
    pub neurons: u32,
}

impl DividedFfns {
    /// Reads the hotness of all layers, and pins their FFNs to the host: PowerInfer has them there as a whole.
    ///
    /// # Errors
    /// A file without hotness counts, or one that does not fit the graphs.
    pub fn prepare(files: &[PathBuf], items: &mut [Item], host: usize) -> Result<Self, String> {
        let layers = read_hotness(files).map_err(|unreadable| unreadable.to_string())?;
        let mut costs = Vec::new();
        for (number, layer) in (0..).zip(&layers) {
            let neurons = layer.hotness.len() as u64;
            let mut rows = Vec::new();
            for item in items.iter_mut().filter(|item| item.layer == Some(number)) {
                if MATRICES.iter().any(|matrix| item.name.ends_with(matrix)) {
                    let row =
                        item.bytes.checked_div(neurons).filter(|row| row.checked_mul(neurons) == Some(item.bytes));
                    let Some(row) = row else {
                        let (file, name, bytes) = (layer.path.display(), &item.name, item.bytes);
                        return Err(format!("{file}: it has {neurons} neurons, but {name} has {bytes} bytes"));
                    };
                    rows.push(MatrixRow { row, padding: 0 });
                    item.pinned = Some(host);
                }
            }
            let cost = LayerCost::of_matrices(&rows).filter(|_| rows.len() >= 2);
            costs.push(
                cost.ok_or_else(|| format!("{}: the graphs have no FFN in layer {number}", layer.path.display()))?,
            );
        }
        let of_ffn = |item: &&Item| MATRICES.iter().any(|matrix| item.name.ends_with(matrix));
        match items.iter().filter(of_ffn).filter_map(|item| item.layer).max() {
            Some(last) if last as usize >= layers.len() => {
                Err(format!("there is hotness of {} layers, but the graphs have an FFN in layer {last}", layers.len()))
            }
            _ => Ok(Self { layers, costs }),
        }
    }

    /// Divides the neurons by the room that an offload plan leaves on the first device, and charges it with them.
    ///
    /// # Errors
    /// Bytes that overflow.
    pub fn fill(&self, devices: &[Device], placed: &mut OffloadPlan) -> Result<DeviceNeurons, String> {
        let allowed = devices[0].budget.unwrap_or(Bytes::MAX).saturating_sub(placed.usage[0].total());
        let both = self.layers.iter().zip(&self.costs);
        let layers: Vec<LayerNeurons<'_>> =
            both.map(|(layer, &cost)| LayerNeurons { hotness: &layer.hotness, cost }).collect();
        let division =
            divide(&layers, allowed, Granule::default(), Inactive::Fill).map_err(|unusable| unusable.to_string())?;
        placed.usage[0].weights = placed.usage[0].weights.saturating_add(division.bytes());
        let neurons = self.layers.first().map_or(0, |layer| layer.hotness.len());
        let neurons = u32::try_from(neurons).map_err(|_| format!("{neurons} neurons are too many"))?;
        Ok(DeviceNeurons { allowed, division, neurons })
    }
}

impl DeviceNeurons {
    /// Returns how many neurons of each layer are on the device, as JSON.
    pub fn json(&self) -> Value {
        let layers = self.division.layers.iter();
        json!({
            "allowed": self.allowed,
            "bytes": self.division.bytes(),
            "on_device": layers.map(|layer| layer.bucket.len()).collect::<Vec<_>>(),
            "of_each_layer": self.neurons,
        })
    }

    /// Returns the result for users, in a line.
    pub fn text(&self) -> String {
        let (on_device, all) = (self.division.neurons(), u64::from(self.neurons) * self.division.layers.len() as u64);
        let covered =
            if self.division.total() > 0.0 { 100.0 * self.division.covered() / self.division.total() } else { 0.0 };
        format!(
            "neurons: {on_device} of {all} on the device, {} bytes of {} allowed, {covered:.2} % of the hotness\n",
            self.division.bytes(),
            self.allowed
        )
    }

    /// Returns the file for PowerInfer.
    ///
    /// # Errors
    /// A division that no file can have.
    pub fn file(&self) -> Result<Vec<u8>, String> {
        let layer = |bucket: &Vec<u32>| LayerIndex { neurons: self.neurons, bucket: bucket.clone() };
        let layers = self.division.layers.iter().map(|layer_division| layer(&layer_division.bucket)).collect();
        let index = GpuIndex { layers, vram_capacity: self.allowed };
        index.write(Dialect::PowerInfer).map_err(|malformed| malformed.to_string())
    }
}
