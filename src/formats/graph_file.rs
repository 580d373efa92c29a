//! Writes captured graphs in the format "lastuse-graph", version 1: one JSON object a line, a header, then one line a tensor.

use std::collections::{HashMap, HashSet};

use crate::formats::json::JsonObject;
use crate::graph::snapshot::{BufferInfo, Snapshot};
use crate::graph::{InPlace, TensorId};
use crate::placement::Step;

/// The name of the format, and its only version so far.
pub const FORMAT: (&str, u64) = ("lastuse-graph", 1);

/// Capacity for a line: more than most take.
const LINE: usize = 384;

impl Snapshot {
    /// Returns the graph in the format "lastuse-graph": a header, then one line per tensor, leafs and nodes in the
    /// order of the graph first.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(LINE * (self.tensors.len() + 1));
        let (lines, lists_repeat) = self.lines();
        self.write_header(&mut text, lists_repeat);
        let retained: HashMap<TensorId, Option<Step>> = self.graph.retained().into_iter().collect();
        for (kind, id) in lines {
            self.write_tensor(&mut text, kind, id, retained.get(&id).copied());
        }
        text
    }

    /// Returns the tensors in the order of their lines, each once, with its kind; and whether one is listed more than
    /// once.
    fn lines(&self) -> (Vec<(&'static str, TensorId)>, bool) {
        let graph = &self.graph;
        let leafs = graph.leafs().iter().map(|&id| ("leaf", id));
        let nodes = graph.nodes().iter().map(|&id| ("node", id));
        let mut written = HashSet::with_capacity(self.tensors.len());
        let mut lines: Vec<_> = leafs.chain(nodes).filter(|&(_, id)| written.insert(id)).collect();
        let lists_repeat = lines.len() < graph.leafs().len() + graph.nodes().len();
        let extras = (0..).take(self.tensors.len()).filter(|id| !written.contains(id));
        lines.extend(extras.map(|id| ("extra", id)));
        (lines, lists_repeat)
    }

    fn write_header(&self, text: &mut String, lists_repeat: bool) {
        let (format, version) = FORMAT;
        let (leafs, nodes) = (self.graph.leafs(), self.graph.nodes());
        let mut header = JsonObject::begin(text);
        header.text("format", format).value("version", version).text("label", &self.label);
        header.value("n_leafs", leafs.len()).value("n_nodes", nodes.len());
        if lists_repeat {
            header.numbers("leafs", self.file_ids(leafs)).numbers("nodes", self.file_ids(nodes));
        }
        header.objects("buffers", &self.buffers, write_buffer);
        header.end();
        text.push('\n');
    }

    /// Writes a tensor; `retained` is the last step in which it is retained, if it is, and `None` for the end.
    fn write_tensor(&self, text: &mut String, kind: &str, id: TensorId, retained: Option<Option<Step>>) {
        let (info, tensor, layout) = (&self.tensors[id as usize], self.graph.tensor(id), self.graph.layout(id));
        let listed = tensor.in_place.is_listed();
        let mut line = JsonObject::begin(text);
        line.number("id", info.id).text("kind", kind).text("op", &info.op).text("desc", &info.desc);
        line.text("name", &info.name)
            .text("type", &info.element)
            .numbers("ne", layout.ne.map(extent))
            .numbers("nb", layout.nb);
        line.number("nbytes", info.nbytes).number("size", info.size).number("buffer", info.buffer.into());
        if !info.elsewhere.is_empty() {
            line.objects("elsewhere", &info.elsewhere, |object, (buffer, size)| {
                object.value("buffer", buffer).value("size", size);
            });
        }
        line.number("flags", tensor.flags.0.into()).value("inplace", listed).value("external", tensor.external);
        if let InPlace::Listed(slots) = tensor.in_place
            && tensor.op.in_place(listed) != tensor.in_place
        {
            line.value("inplace_slots", slots.bits());
        }
        if let Some(view) = tensor.view {
            line.number("view_of", self.tensors[view.root as usize].id).number("view_offset", view.offset);
        }
        match retained {
            Some(Some(step)) => {
                let end = self.graph.nodes()[step as usize];
                line.number("retained_until", self.tensors[end as usize].id);
            }
            Some(None) => _ = line.value("retained", true),
            None => {}
        }
        line.numbers("src", self.file_ids(self.graph.sources(id)));
        line.end();
        text.push('\n');
    }

    fn file_ids<'a>(&'a self, ids: &'a [TensorId]) -> impl Iterator<Item = u64> + 'a {
        ids.iter().map(|&id| self.tensors[id as usize].id)
    }
}

/// Converts an extent, which is never negative; the format has no negative numbers.
fn extent(extent: i64) -> u64 {
    extent.try_into().unwrap_or(0)
}

fn write_buffer(object: &mut JsonObject<'_>, buffer: &BufferInfo) {
    object.text("name", &buffer.name).value("alignment", buffer.alignment).maybe("max_size", buffer.max_size);
    if let Some(size) = buffer.ggml_alloc_size {
        object.value("ggml_alloc_size", size);
    }
    if let Some(rules) = buffer.rules {
        object.text("rules", &rules.to_string());
    }
    if let Some(effort) = buffer.effort {
        object.value("effort", effort.in_units());
    }
}
