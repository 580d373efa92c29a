//! Descriptions of findings, for messages.

use crate::graph::{Graph, Region, TensorId};
use crate::placement::Step;

use super::corruption::{Corruption, Finding};

/// The caller's labels of tensors and address spaces.
pub trait Labels {
    /// Returns the label of a tensor, with its operation.
    fn tensor(&self, tensor: TensorId) -> String;
    /// Returns the label of an address space.
    fn space(&self, space: u32) -> String;
}

/// Describes a finding in a sentence or two: both tensors with their steps, the buffer, and the bytes.
pub fn describe(graph: &Graph, finding: &Finding, labels: &dyn Labels) -> String {
    Describer { graph, labels, bytes: finding.bytes }.describe(finding.corruption)
}

struct Describer<'a> {
    graph: &'a Graph,
    labels: &'a dyn Labels,
    bytes: Option<Region>,
}

impl Describer<'_> {
    fn describe(&self, corruption: Corruption) -> String {
        match corruption {
            Corruption::OutOfChunk(id) => {
                format!("{} reaches beyond the end of its memory: {} are not there", self.name(id), self.place())
            }
            Corruption::NoMemory(id) => format!("{} is needed, and has no memory", self.name(id)),
            Corruption::SharedStart { first, second } => format!(
                "{} and {} must both be there before the first step, and share {}",
                self.labels.tensor(first),
                self.labels.tensor(second),
                self.place()
            ),
            Corruption::Overwritten { step, expected, found } => {
                let reader = self.at_step(step);
                let (expected, holds) = (self.name(expected), self.holds(found));
                format!("{reader} needs {expected} but {holds} in {}", self.place())
            }
            Corruption::OverwritesSource { step, source } => {
                let source = self.name(source);
                let place = self.place();
                format!("{} overwrites {source} while it still reads it: both lie in {place}", self.at_step(step))
            }
            Corruption::LostRetained { expected, found, until } => {
                let (expected, holds) = (self.name(expected), self.holds(found));
                let end =
                    until.map_or_else(|| "to the end".to_owned(), |step| format!("until {} has run", self.step(step)));
                format!("{expected} is retained {end}, but {holds} in {}", self.place())
            }
            Corruption::LostResult { expected, found } => {
                let (expected, holds) = (self.name(expected), self.holds(found));
                format!("{expected} must be there when the graph has run, but {holds} in {}", self.place())
            }
        }
    }

    fn holds(&self, found: Option<TensorId>) -> String {
        found.map_or_else(|| "nothing has written it".to_owned(), |id| format!("{} has overwritten it", self.name(id)))
    }

    /// Returns the label of a tensor, and the step that computes it.
    fn name(&self, id: TensorId) -> String {
        let name = self.labels.tensor(id);
        match self.graph.nodes().iter().position(|&node| node == id) {
            Some(step) => format!("{name}, which step {step} computes,"),
            None => format!("{name}, which is there from the start,"),
        }
    }

    fn at_step(&self, step: Step) -> String {
        let node = self.graph.nodes().get(step as usize);
        let comma = if node.is_some() { "," } else { "" };
        format!("{}{comma}", self.step(step))
    }

    /// Returns a step with the label of its node.
    fn step(&self, step: Step) -> String {
        let node = self.graph.nodes().get(step as usize);
        node.map_or_else(|| format!("step {step}"), |&node| format!("step {step}, {}", self.labels.tensor(node)))
    }

    fn place(&self) -> String {
        self.bytes.map_or_else(|| "memory that is not known".to_owned(), |bytes| place(bytes, self.labels))
    }
}

fn place(bytes: Region, labels: &dyn Labels) -> String {
    let (space, size) = (labels.space(bytes.space), bytes.size());
    // An address before the start of a space has wrapped around.
    let [start, last] = [bytes.start, bytes.end.saturating_sub(1)].map(u64::cast_signed);
    if start < 0 && last < 0 {
        return format!("memory that begins {} bytes before the start of {space}", start.unsigned_abs());
    }
    format!("bytes {start} to {last} of {space} ({size} bytes)")
}
