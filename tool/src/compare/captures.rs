//! What the compute buffers of captured graphs held at their peaks.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use lastuse::accounting::{MemoryClass, Sums};
use lastuse::graph::GraphPlan;
use lastuse::graph::snapshot::Snapshot;
use lastuse::placement::Bytes;
use lastuse::report::explain::{BufferExplanation, LiveBlock, Named, Shape};

use crate::explain::explain_planned;
use crate::input::Input;
use crate::planning::check;
use crate::report::{Holder, PeakTensor, PlanOfBuffer, group_name, without_numbers};

/// A graph as its program planned it.
struct Planned {
    file: PathBuf,
    snapshot: Snapshot,
    plan: GraphPlan,
}

/// The largest plan of a buffer type.
struct Largest {
    name: String,
    bytes: Bytes,
    graph: Rc<Planned>,
    /// The position of the buffer in the graph.
    buffer: usize,
}

/// Returns, for each buffer type, the largest buffer of all graphs, and the tensors that are live at its peak.
///
/// # Errors
/// One of the files is malformed or cannot be read.
pub fn holders(files: &[PathBuf]) -> Result<Vec<Holder>, String> {
    let mut all: Vec<Largest> = Vec::new();
    for file in files {
        let graph = planned(file).map_err(|why| format!("{}: {why}", file.display()))?;
        let sizes: Vec<Bytes> = graph.plan.buffers.iter().map(|buffer| buffer.placement.size()).collect();
        let graph = Rc::new(graph);
        for (buffer, (info, bytes)) in graph.snapshot.buffers.iter().zip(sizes).enumerate() {
            let found = Largest { name: info.name.clone(), bytes, graph: Rc::clone(&graph), buffer };
            match all.iter_mut().find(|largest| largest.name == info.name) {
                Some(largest) if largest.bytes >= bytes => {}
                Some(largest) => *largest = found,
                None => all.push(found),
            }
        }
    }
    all.iter().map(Largest::holder).collect()
}

fn planned(file: &Path) -> Result<Planned, String> {
    let snapshot = Input::read_graph(file)?;
    let plan = snapshot.plan_as_recorded().map_err(|error| error.to_string())?;
    check(&snapshot, &plan)?;
    Ok(Planned { file: file.to_owned(), snapshot, plan })
}

impl Largest {
    fn holder(&self) -> Result<Holder, String> {
        let Planned { file, snapshot, plan } = &*self.graph;
        // Changes of the graph are not asked for, so none is tried.
        let mut explanation = explain_planned(snapshot, &snapshot.recorded_buffers(), plan, 0);
        let of_buffer = |found: &BufferExplanation| found.id == self.buffer;
        let at = explanation.buffers.iter().position(of_buffer).ok_or("the graph lacks a buffer")?;
        let found = explanation.buffers.swap_remove(at);
        let peak = found.peak.as_ref().map(|peak| peak.node.to_string());
        let live = found.peak.into_iter().flat_map(|peak| peak.live);
        Ok(Holder {
            name: self.name.clone(),
            sums: Sums { compute: found.size, ..Sums::default() },
            tensors: Some(live.filter_map(|block| peak_tensor(&block)).collect()),
            plan: Some(PlanOfBuffer {
                graph: file.display().to_string(),
                label: explanation.label,
                nodes: explanation.nodes,
                lower_bound: found.lower_bound,
                peak,
            }),
        })
    }
}

/// Returns a block of a peak under the name of its first tensor.
fn peak_tensor(block: &LiveBlock) -> Option<PeakTensor> {
    let of_tensor = block.tensors.first().map(|tensor| (&tensor.tensor, Some(&tensor.shape)));
    let (named, shape) = of_tensor.or_else(|| block.room_for.as_ref().map(|result| (result, None)))?;
    let shape = shape.map(Shape::to_string).unwrap_or_default();
    Some(PeakTensor { group: group(named), class: MemoryClass::Compute, bytes: block.bytes, shape })
}

/// Returns the name of the group of a tensor, with what made it where its name does not tell.
fn group(Named { name, op, of }: &Named) -> String {
    match of {
        Some(of) => format!("{op} of {}", without_numbers(of).replace('"', "")),
        None => group_name(name, op),
    }
}
