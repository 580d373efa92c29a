//! Reads captured graphs, compressed by gzip or not. Unknown keys are ignored; any defect is reported with its line.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use lastuse::formats::graph_file::FORMAT;
use lastuse::graph::snapshot::{BufferInfo, Snapshot, TensorInfo};
use lastuse::graph::{
    BufferIndex, Flags, Graph, InPlace, Layout, Op, Retained, RuleSetting, Rules, Slots, Tensor, TensorId, UnknownRule,
    View,
};
use lastuse::placement::{Bytes, Effort};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::formats::input::{MAGIC, Malformed, decompressed, malformed};

/// The most bytes of a line: the header may list the ids of millions of tensors.
const LONGEST_LINE: u64 = 1 << 26;

#[derive(Deserialize)]
struct Format {
    format: String,
    version: u64,
}

#[derive(Deserialize)]
struct GraphHeader {
    #[serde(default)]
    label: String,
    n_leafs: usize,
    n_nodes: usize,
    /// By id; only where a tensor is listed more than once.
    leafs: Option<Vec<u64>>,
    nodes: Option<Vec<u64>>,
    buffers: Vec<BufferLine>,
}

#[derive(Deserialize)]
struct BufferLine {
    name: String,
    alignment: Bytes,
    max_size: Option<Bytes>,
    ggml_alloc_size: Option<Bytes>,
    rules: Option<String>,
    effort: Option<u64>,
}

#[derive(Deserialize)]
struct Elsewhere {
    buffer: BufferIndex,
    size: Bytes,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Leaf,
    Node,
    Extra,
}

#[derive(Deserialize)]
struct Line {
    id: u64,
    kind: Kind,
    op: String,
    desc: Option<String>,
    #[serde(default)]
    name: String,
    r#type: String,
    ne: [i64; 4],
    nb: [u64; 4],
    nbytes: Bytes,
    size: Bytes,
    buffer: BufferIndex,
    #[serde(default)]
    elsewhere: Vec<Elsewhere>,
    flags: u32,
    inplace: bool,
    inplace_slots: Option<u8>,
    external: bool,
    view_of: Option<u64>,
    #[serde(default)]
    view_offset: Bytes,
    retained: Option<bool>,
    retained_until: Option<u64>,
    src: Vec<u64>,
}

/// Reads the graph of a file. A compressed file is recognized by its first bytes, whatever its name is; one whose
/// name ends in ".gz" must be compressed.
///
/// # Errors
/// [`Malformed`] when the file cannot be read, or with its first defect.
pub fn open_graph(path: &Path) -> Result<Snapshot, Malformed> {
    let failed = |error: io::Error| Malformed::new(error.to_string());
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let must_be_compressed = path.extension().is_some_and(|extension| extension == "gz");
    if must_be_compressed && !file.fill_buf().map_err(failed)?.starts_with(&MAGIC) {
        return Err(Malformed::new("the name ends in .gz, but the file is not compressed by gzip"));
    }
    read_graph(file)
}

/// Reads a graph, compressed by gzip or not.
///
/// # Errors
/// [`Malformed`] with the first defect and its line.
pub fn read_graph(input: impl BufRead) -> Result<Snapshot, Malformed> {
    let input = decompressed(input).map_err(|error| malformed(1, format!("cannot be read: {error}")))?;
    let mut lines = numbered_lines(input);
    let (number, text) = lines.next().transpose()?.ok_or_else(|| malformed(1, "the file is empty"))?;
    let header = parse_header(number, &text)?;
    let mut parsed: Vec<(usize, Line)> = Vec::new();
    for line in lines {
        let (number, text) = line?;
        parsed.push((number, parse(number, &text)?));
    }
    let buffers: Result<Vec<_>, _> = header.buffers.iter().map(|buffer| buffer.info(number)).collect();
    GraphBuilder::new(header, buffers?, &parsed)?.build(number)
}
/// Returns the lines that are not blank, with their numbers.
fn numbered_lines(mut input: impl BufRead) -> impl Iterator<Item = Result<(usize, String), Malformed>> {
    let lines = std::iter::from_fn(move || next_line(&mut input).transpose());
    let numbered = (1..).zip(lines).map(|(number, line)| match line {
        Ok(text) => Ok((number, text)),
        Err(error) => Err(malformed(number, format!("cannot be read: {error}"))),
    });
    numbered.filter(|line| !matches!(line, Ok((_, text)) if text.trim().is_empty()))
}

/// Reads the next line; `None` at the end. A file that is not a graph, however large, takes no more memory than the
/// longest line.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() as u64 > LONGEST_LINE {
        let reason = format!("the line is longer than {LONGEST_LINE} bytes: this is something else than a graph");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let text = String::from_utf8(line);
    text.map(Some).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "this is not UTF-8 text"))
}

fn parse<T: DeserializeOwned>(number: usize, text: &str) -> Result<T, Malformed> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // serde_json parses one line, so its own line number is always 1.
        let reason = message.split(" at line ").next().unwrap_or_default();
        let hint = if error.is_eof() { ": the file is cut off; copy or capture it again" } else { "" };
        malformed(number, format!("{reason} (column {}){hint}", error.column()))
    })
}

fn parse_header(number: usize, text: &str) -> Result<GraphHeader, Malformed> {
    let (name, version) = FORMAT;
    let format: Format = parse(number, text).map_err(|why| {
        // Other files have no such name in their first line; what names it is damaged.
        let is_other = !text.contains(name);
        let other = "this is not a lastuse graph file: \"lastuse run --capture DIR PROGRAM\" writes those of a program";
        if is_other { malformed(number, other) } else { why }
    })?;
    if format.format != name {
        return Err(malformed(number, format!("the format is {:?}, and {name:?} is expected", format.format)));
    }
    if format.version != version {
        return Err(malformed(number, format!("version {} is unknown; known is {version}", format.version)));
    }
    let header: GraphHeader = parse(number, text)?;
    if header.buffers.is_empty() { Err(malformed(number, "there is no buffer")) } else { Ok(header) }
}

impl BufferLine {
    fn info(&self, number: usize) -> Result<BufferInfo, Malformed> {
        let Self { ref name, alignment, max_size, ggml_alloc_size, .. } = *self;
        let wrong = |what: &str| malformed(number, format!("buffer {name:?}: {what}"));
        if !alignment.is_power_of_two() {
            return Err(wrong(&format!("the alignment {alignment} is not a power of two")));
        }
        let setting: Option<RuleSetting> = self
            .rules
            .as_ref()
            .map(|words| words.parse())
            .transpose()
            .map_err(|unknown: UnknownRule| wrong(&unknown.to_string()))?;
        let rules = setting.map(|setting| setting.rules(Rules::ALL));
        let effort = self.effort.map(Effort::units);
        Ok(BufferInfo { name: name.clone(), alignment, max_size, ggml_alloc_size, rules, effort })
    }
}

struct GraphBuilder<'l> {
    header: GraphHeader,
    buffers: Vec<BufferInfo>,
    lines: &'l [(usize, Line)],
    ids: HashMap<u64, TensorId>,
    elements: HashMap<&'l str, u32>,
}

impl<'l> GraphBuilder<'l> {
    fn new(header: GraphHeader, buffers: Vec<BufferInfo>, lines: &'l [(usize, Line)]) -> Result<Self, Malformed> {
        let mut ids = HashMap::with_capacity(lines.len());
        for (id, (number, line)) in (0..).zip(lines) {
            if ids.insert(line.id, id).is_some() {
                return Err(malformed(*number, format!("id {} is there twice", line.id)));
            }
        }
        Ok(Self { header, buffers, lines, ids, elements: HashMap::new() })
    }

    fn build(mut self, header: usize) -> Result<Snapshot, Malformed> {
        let mut graph = Graph::with_capacity(self.lines.len());
        for (number, line) in self.lines {
            let (tensor, layout) = self.tensor(*number, line)?;
            graph.add(tensor, layout.by_ref());
        }
        graph.list_leafs(self.list(header, Kind::Leaf, self.header.leafs.as_deref())?);
        graph.list_nodes(self.list(header, Kind::Node, self.header.nodes.as_deref())?);
        for (id, (number, line)) in (0..).zip(self.lines) {
            self.connect(&mut graph, id, *number, line)?;
        }
        self.check_counts(&graph)?;
        self.check_order(&graph)?;
        let retained: Result<Vec<_>, _> = self.retained(&graph).collect();
        graph.set_retention(retained?.into_iter().collect());
        let tensors = self.lines.iter().map(|(_, line)| line.info()).collect();
        Ok(Snapshot { label: self.header.label, buffers: self.buffers, graph, tensors })
    }

    /// Returns the tensors of a kind in the order of their lines, or as the header lists them.
    fn list(&self, header: usize, kind: Kind, listed: Option<&[u64]>) -> Result<Vec<TensorId>, Malformed> {
        let Some(listed) = listed else {
            let lines = (0..).zip(self.lines).filter(|(_, (_, line))| line.kind == kind);
            return Ok(lines.map(|(id, _)| id).collect());
        };
        let missing = |id: &u64| malformed(header, format!("a list names id {id}, which is in no line"));
        listed.iter().map(|id| self.ids.get(id).copied().ok_or_else(|| missing(id))).collect()
    }

    fn tensor(&mut self, number: usize, line: &'l Line) -> Result<(Tensor, Layout), Malformed> {
        self.check_size(number, line.buffer, line.size)?;
        line.elsewhere.iter().try_for_each(|other| self.check_size(number, other.buffer, other.size))?;
        if line.ne.iter().any(|&extent| extent < 0) {
            return Err(malformed(number, "ne has an extent below 0"));
        }
        let next = u32::try_from(self.elements.len()).expect("fewer than 2^32 types");
        let element = *self.elements.entry(&line.r#type).or_insert(next);
        let layout = Layout { element, ne: line.ne, nb: line.nb };
        let mut tensor = Tensor::new();
        tensor.flags = Flags(line.flags);
        tensor.op = Op::named(&line.op);
        tensor.in_place = match (tensor.op.in_place(line.inplace), line.inplace_slots) {
            (InPlace::Listed(_), Some(slots)) => InPlace::Listed(Slots::from_bits(slots)),
            (usual, _) => usual,
        };
        tensor.external = line.external && line.view_of.is_none();
        Ok((tensor, layout))
    }

    fn check_size(&self, number: usize, buffer: BufferIndex, size: Bytes) -> Result<(), Malformed> {
        let Some(BufferInfo { alignment, .. }) = self.buffers.get(buffer as usize) else {
            let count = self.buffers.len();
            return Err(malformed(number, format!("buffer {buffer} does not exist: there are {count}")));
        };
        match size.checked_next_multiple_of(*alignment) {
            Some(padded) if padded <= Bytes::MAX / 2 => Ok(()),
            _ => Err(malformed(number, format!("the size {size} overflows when padded to {alignment}"))),
        }
    }

    fn connect(&self, graph: &mut Graph, id: TensorId, number: usize, line: &Line) -> Result<(), Malformed> {
        let find = |key: &str, id: u64| {
            let missing = || malformed(number, format!("{key} refers to id {id}, which is in no line"));
            self.ids.get(&id).copied().ok_or_else(missing)
        };
        let sources: Result<Vec<TensorId>, _> = line.src.iter().map(|&source| find("src", source)).collect();
        graph.push_sources(sources?.into_iter());
        if let Some(root) = line.view_of {
            let root = find("view_of", root)?;
            if self.lines[root as usize].1.view_of.is_some() {
                return Err(malformed(number, "view_of refers to a view; it must name the owner of the memory"));
            }
            graph.set_view(id, View { root, offset: line.view_offset });
        }
        Ok(())
    }

    /// Returns the retained tensors.
    fn retained(&self, graph: &Graph) -> impl Iterator<Item = Result<Retained, Malformed>> {
        let is_node: HashSet<TensorId> = graph.nodes().iter().copied().collect();
        (0..).zip(self.lines).filter_map(move |(tensor, (number, line))| match (line.retained, line.retained_until) {
            (None | Some(false), None) => None,
            (Some(true), None) => Some(Ok(Retained { tensor, until: None })),
            (Some(false), Some(_)) => Some(Err(malformed(*number, "retained is false, and there is retained_until"))),
            (None | Some(true), Some(id)) => {
                let until = self.ids.get(&id).copied().filter(|node| is_node.contains(node));
                let missing = || malformed(*number, format!("retained_until refers to id {id}, which is not a node"));
                Some(until.ok_or_else(missing).map(|node| Retained { tensor, until: Some(node) }))
            }
        })
    }

    fn check_counts(&self, graph: &Graph) -> Result<(), Malformed> {
        let (leafs, nodes) = (self.header.n_leafs, self.header.n_nodes);
        if (graph.leafs().len(), graph.nodes().len()) == (leafs, nodes) {
            return Ok(());
        }
        let (have_leafs, have_nodes) = (graph.leafs().len(), graph.nodes().len());
        let reason = format!(
            "the header promises {leafs} leafs and {nodes} nodes, but there are {have_leafs} and {have_nodes}: is the file whole?"
        );
        Err(malformed(self.lines.last().map_or(1, |(number, _)| *number), reason))
    }

    /// Checks that nodes come after the nodes that they use or are views of. Dependency markers need not.
    fn check_order(&self, graph: &Graph) -> Result<(), Malformed> {
        let mut position = vec![None; graph.tensors().len()];
        for (step, &node) in graph.nodes().iter().enumerate() {
            position[node as usize].get_or_insert(step);
        }
        for &node in graph.nodes() {
            let later = used_too_early(graph, &position, node).filter(|_| !graph.tensor(node).is_marker());
            let Some(source) = later else { continue };
            let (number, line) = &self.lines[node as usize];
            let (reader, read) = (line.id, self.lines[source as usize].1.id);
            let reason = if reaches(graph, source, node) {
                format!("there is a cycle: tensor {reader} reads {read}, which depends on {reader}")
            } else {
                format!("tensor {reader} reads {read}, which is computed later")
            };
            return Err(malformed(*number, reason));
        }
        Ok(())
    }
}

/// Returns what `node` uses or is a view of, though it is computed later. A node may use itself, but no view of itself.
fn used_too_early(graph: &Graph, position: &[Option<usize>], node: TensorId) -> Option<TensorId> {
    let (at, step) = (|id: TensorId| position[id as usize], position[node as usize]);
    graph.sources(node).iter().chain([&node]).find_map(|&id| {
        let root = graph.root(id);
        if at(id) > step { Some(id) } else { Some(root).filter(|_| root != id && at(root) >= step) }
    })
}

/// Returns `true` if `from` depends on `to`.
fn reaches(graph: &Graph, from: TensorId, to: TensorId) -> bool {
    let mut visited = vec![false; graph.tensors().len()];
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        if id == to {
            return true;
        }
        if !std::mem::replace(&mut visited[id as usize], true) {
            open.extend(graph.sources(id));
        }
    }
    false
}

impl Line {
    fn info(&self) -> TensorInfo {
        let Self { id, ref name, ref op, ref desc, ref r#type, nbytes, size, buffer, .. } = *self;
        let (name, op, element) = (name.clone(), Arc::from(op.as_str()), r#type.as_str().into());
        let desc = desc.as_deref().map_or_else(|| Arc::clone(&op), Arc::from);
        let elsewhere = self.elsewhere.iter().map(|other| (other.buffer, other.size)).collect();
        TensorInfo { id, name, op, desc, element, nbytes, size, buffer, elsewhere }
    }
}
