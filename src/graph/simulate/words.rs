//! Findings in plain language.

use crate::graph::{Graph, TensorId};
use crate::placement::Step;

use super::{Corruption, Finding, Region};

/// How the one who looks calls things.
pub trait Words {
    /// A tensor, with its operation.
    fn tensor(&self, tensor: TensorId) -> String;
    /// An address space.
    fn space(&self, space: u32) -> String;
}

/// A finding in a sentence or two: both tensors with their steps, the buffer, and the bytes.
pub fn describe(graph: &Graph, finding: &Finding, words: &dyn Words) -> String {
    Speaker { graph, words, bytes: finding.bytes }.say(finding.corruption)
}

struct Speaker<'a> {
    graph: &'a Graph,
    words: &'a dyn Words,
    bytes: Option<Region>,
}

impl Speaker<'_> {
    fn say(&self, corruption: Corruption) -> String {
        match corruption {
            Corruption::OutOfChunk(id) => {
                format!("{} reaches beyond the end of its memory: {} are not there", self.name(id), self.place())
            }
            Corruption::NoMemory(id) => format!("{} is needed, and has no memory", self.name(id)),
            Corruption::SharedStart { first, second } => format!(
                "{} and {} must both be there before the first step, and share {}",
                self.words.tensor(first),
                self.words.tensor(second),
                self.place()
            ),
            Corruption::Overwritten { step, wanted, found } => {
                let reader = self.at_step(step);
                let (wanted, holds) = (self.name(wanted), self.holds(found));
                format!("{reader} needs {wanted} but {holds} in {}", self.place())
            }
            Corruption::OverwritesSource { step, source } => {
                let source = self.name(source);
                let place = self.place();
                format!("{} overwrites {source} while it still reads it: both lie in {place}", self.at_step(step))
            }
            Corruption::LostResult { wanted, found } => {
                let (wanted, holds) = (self.name(wanted), self.holds(found));
                format!("{wanted} must be there when the graph has run, but {holds} in {}", self.place())
            }
        }
    }

    fn holds(&self, found: Option<TensorId>) -> String {
        found.map_or_else(|| "nobody has put it there".to_owned(), |id| format!("{} has overwritten it", self.name(id)))
    }

    /// A tensor, and the step that computes it.
    fn name(&self, id: TensorId) -> String {
        let name = self.words.tensor(id);
        match self.graph.nodes().iter().position(|&node| node == id) {
            Some(step) => format!("{name}, which step {step} computes,"),
            None => format!("{name}, which is there from the start,"),
        }
    }

    fn at_step(&self, step: Step) -> String {
        let node = self.graph.nodes().get(step as usize);
        node.map_or_else(|| format!("step {step}"), |&node| format!("step {step}, {},", self.words.tensor(node)))
    }

    fn place(&self) -> String {
        self.bytes.map_or_else(|| "memory that is not known".to_owned(), |bytes| place(bytes, self.words))
    }
}

fn place(bytes: Region, words: &dyn Words) -> String {
    let (space, size) = (words.space(bytes.space), bytes.size());
    // What lies before the start of a space has wrapped around.
    let [start, last] = [bytes.start, bytes.end.saturating_sub(1)].map(u64::cast_signed);
    if start < 0 && last < 0 {
        return format!("memory that begins {} bytes before the start of {space}", start.unsigned_abs());
    }
    format!("bytes {start} to {last} of {space} ({size} bytes)")
}
