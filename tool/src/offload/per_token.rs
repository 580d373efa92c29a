//! What an offload plan means for a token that is generated.

use lastuse::graph::snapshot::Snapshot;
use lastuse::offload::captured::CapturedItems;
use lastuse::placement::Bytes;

use super::kinds::Planned;
use super::planning::Planner;

/// The traffic of the smallest graph, which is that of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerToken {
    /// The part of the bytes read of weights and caches that is on devices, from 0 to 1.
    pub on_devices: f64,
    /// The bytes that are copied between devices, the host among them.
    pub moved: Bytes,
}

impl Planner<'_> {
    /// Returns it for a plan.
    ///
    /// # Errors
    /// The graph cannot be placed.
    pub fn per_token(&self, planned: &Planned) -> Result<PerToken, String> {
        let results = |snapshot: &Snapshot| -> Bytes {
            let nodes = snapshot.graph.nodes().iter();
            nodes.map(|&node| snapshot.tensors[node as usize].nbytes).fold(0, Bytes::saturating_add)
        };
        let Some(graph) = (0..self.snapshots.len()).min_by_key(|&graph| results(&self.snapshots[graph])) else {
            return Ok(PerToken { on_devices: 0.0, moved: 0 });
        };
        let snapshot = &self.snapshots[graph];
        // The benefit is what this graph alone reads.
        let read = CapturedItems::of(std::slice::from_ref(snapshot)).map_err(|why| why.to_string())?;
        let (mut all, mut on_devices) = (0.0, 0.0);
        for (id, item) in read.of_tensors[0].iter().enumerate() {
            let (Some(item), Some(placed)) = (item, planned.found.of_tensors[graph][id]) else { continue };
            let bytes = read.items[*item].benefit;
            all += bytes;
            if planned.plan.assignment.0[placed].device != self.host() {
                on_devices += bytes;
            }
        }
        let compute = self.compute(&planned.found, planned.op_offload);
        let schedule = compute.schedule(graph, &planned.plan.assignment)?;
        let inputs = schedule.splits.iter().flat_map(|split| &split.inputs);
        let moved = inputs.map(|&id| snapshot.tensors[id as usize].nbytes).fold(0, Bytes::saturating_add);
        Ok(PerToken { on_devices: if all > 0.0 { on_devices / all } else { 0.0 }, moved })
    }
}
