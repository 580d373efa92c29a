//! Graphs in files: the format "lastuse-graph", version 1.
//!
//! One JSON object a line: a header, then one line a tensor. Unknown keys are ignored; whatever is wrong is reported
//! with its line. Files may be compressed by gzip.

mod file;

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::placement::{Bytes, Effort};

use super::order::{self, Effect, Hazards, Reordering, reorder};
use super::{Flags, Graph, Layout, Operation, Pool, PoolId, Requests, Rules, Tensor, TensorId, View};

pub use file::Unreadable;

/// The name of the format, and the only version of it so far.
const FORMAT: (&str, u64) = ("lastuse-graph", 1);

/// A graph from a file.
#[derive(Debug)]
pub struct Snapshot {
    /// Free text.
    pub label: String,
    /// The buffer types.
    pub buffers: Vec<BufferInfo>,
    /// The graph; tensors have the ids of their lines, counted from 0.
    pub graph: Graph,
    /// By tensor: its id in the file, its names and its sizes.
    pub tensors: Vec<TensorInfo>,
}

/// A buffer type in a file.
#[derive(Clone, Debug, Deserialize)]
pub struct BufferInfo {
    /// ggml's name for it.
    pub name: String,
    /// Offsets and sizes are multiples of this power of two.
    pub alignment: Bytes,
    /// The largest buffer; no limit when absent.
    pub max_size: Option<Bytes>,
    /// What ggml's own allocator needed for the graph.
    pub ggml_alloc_size: Option<Bytes>,
}

/// What the planner does not need of a tensor, but people and sizes do.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Its id in the file.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// ggml's name of its operation.
    pub op: String,
    /// The same, told more exactly: SILU where that is UNARY.
    pub desc: String,
    /// ggml's name of its element type.
    pub element: String,
    /// Bytes from its first to its last element.
    pub nbytes: Bytes,
    /// Bytes that its buffer type wants, before padding.
    pub size: Bytes,
    /// Its buffer.
    pub pool: PoolId,
}

/// What is wrong with a file, and on which line; the first line is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

#[derive(Deserialize)]
struct Format {
    format: String,
    version: u64,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    label: String,
    n_leafs: usize,
    n_nodes: usize,
    buffers: Vec<BufferInfo>,
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
    #[serde(default)]
    desc: String,
    #[serde(default)]
    name: String,
    r#type: String,
    ne: [i64; 4],
    nb: [u64; 4],
    nbytes: Bytes,
    size: Bytes,
    buffer: PoolId,
    flags: u32,
    inplace: bool,
    external: bool,
    view_of: Option<u64>,
    #[serde(default)]
    view_offset: Bytes,
    src: Vec<u64>,
}

impl Snapshot {
    /// Reads a graph, compressed by gzip or not.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn read(input: impl BufRead) -> Result<Self, Malformed> {
        let input = file::decompressed(input).map_err(|error| malformed(1, format!("cannot be read: {error}")))?;
        let mut lines = numbered_lines(input);
        let (number, text) = lines.next().transpose()?.ok_or_else(|| malformed(1, "the file is empty"))?;
        let header = parse_header(number, &text)?;
        let mut parsed: Vec<(usize, Line)> = Vec::new();
        for line in lines {
            let (number, text) = line?;
            parsed.push((number, parse(number, &text)?));
        }
        Builder::new(header, &parsed)?.build()
    }

    /// The pools to plan for, all with these rules and this effort: a file does not say whose device its buffers
    /// belong to.
    pub fn pools(&self, rules: Rules, effort: Effort) -> Vec<Pool> {
        let pool =
            |buffer: &BufferInfo| Pool { alignment: buffer.alignment, max_chunk: buffer.max_size, rules, effort };
        self.buffers.iter().map(pool).collect()
    }

    /// The pool of each leaf and of each node.
    pub fn requested_pools(&self) -> (Vec<PoolId>, Vec<PoolId>) {
        let pools = |ids: &[TensorId]| ids.iter().map(|&id| self.tensors[id as usize].pool).collect();
        (pools(self.graph.leafs()), pools(self.graph.nodes()))
    }

    /// Plans the graph with the default effort.
    ///
    /// # Errors
    /// See [`super::plan`].
    pub fn plan(&self, rules: Rules) -> Result<super::GraphPlan, super::PlanError> {
        self.plan_with(rules, Effort::default())
    }

    /// Like [`Self::plan`], with as much searching for each buffer as `effort` allows.
    ///
    /// # Errors
    /// See [`super::plan`].
    pub fn plan_with(&self, rules: Rules, effort: Effort) -> Result<super::GraphPlan, super::PlanError> {
        let (leafs, nodes) = self.requested_pools();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, _: PoolId| self.tensors[id as usize].size;
        super::plan(&self.graph, &self.pools(rules, effort), requests, &mut sizes)
    }

    /// Plans the graph as ggml's own allocator does.
    ///
    /// # Errors
    /// See [`super::plan_as_ggml`].
    pub fn plan_as_ggml(&self) -> Result<super::GraphPlan, super::PlanError> {
        let (leafs, nodes) = self.requested_pools();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, _: PoolId| self.tensors[id as usize].size;
        super::plan_as_ggml(&self.graph, &self.pools(Rules::GGML, Effort::default()), requests, &mut sizes)
    }

    /// Puts the nodes into an order in which fewer bytes are alive at the worst step, where one is found. Tensors that
    /// have their memory already are taken to share none: the file does not say. `effort` is for each plan that is
    /// made, as [`Self::plan_with`] takes it, `order_effort` for the search for an order.
    ///
    /// # Errors
    /// See [`super::plan`].
    pub fn reorder(
        &mut self,
        rules: Rules,
        effort: Effort,
        order_effort: order::Effort,
    ) -> Result<Reordering, super::PlanError> {
        let effects: Vec<Effect> = self.tensors.iter().map(|tensor| Effect::of(&tensor.op)).collect();
        let roots: Vec<TensorId> = (0..).take(self.tensors.len()).collect();
        let hazards = Hazards::new(&self.graph, &effects, &roots);
        let (leafs, nodes) = self.requested_pools();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id: TensorId, _: PoolId| self.tensors[id as usize].size;
        let pools = self.pools(rules, effort);
        let found = reorder(&self.graph, &pools, requests, &mut sizes, &hazards, order_effort)?;
        self.graph = self.graph.in_order(&found.order);
        Ok(found)
    }
}

fn malformed(line: usize, reason: impl Into<String>) -> Malformed {
    Malformed { line, reason: reason.into() }
}

/// The lines that are not blank, with their numbers.
fn numbered_lines(input: impl BufRead) -> impl Iterator<Item = Result<(usize, String), Malformed>> {
    let numbered = (1..).zip(input.lines()).map(|(number, line)| match line {
        Ok(text) => Ok((number, text)),
        Err(error) => Err(malformed(number, format!("cannot be read: {error}"))),
    });
    numbered.filter(|line| !matches!(line, Ok((_, text)) if text.trim().is_empty()))
}

fn parse<T: DeserializeOwned>(number: usize, text: &str) -> Result<T, Malformed> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The place inside the line is all that serde_json can know: it saw one line only.
        let reason = message.split(" at line ").next().unwrap_or_default();
        malformed(number, format!("{reason} (column {})", error.column()))
    })
}

fn parse_header(number: usize, text: &str) -> Result<Header, Malformed> {
    let (name, version) = FORMAT;
    let format: Format = parse(number, text)?;
    if format.format != name {
        return Err(malformed(number, format!("the format is {:?}, and {name:?} is expected", format.format)));
    }
    if format.version != version {
        return Err(malformed(number, format!("version {} is unknown; known is {version}", format.version)));
    }
    let header: Header = parse(number, text)?;
    let unusable = header.buffers.iter().find(|buffer| !buffer.alignment.is_power_of_two());
    match unusable {
        Some(buffer) => {
            let BufferInfo { name, alignment, .. } = buffer;
            Err(malformed(number, format!("buffer {name:?}: the alignment {alignment} is no power of two")))
        }
        None if header.buffers.is_empty() => Err(malformed(number, "there is no buffer")),
        None => Ok(header),
    }
}

struct Builder<'l> {
    header: Header,
    lines: &'l [(usize, Line)],
    ids: HashMap<u64, TensorId>,
    elements: HashMap<&'l str, u32>,
}

impl<'l> Builder<'l> {
    fn new(header: Header, lines: &'l [(usize, Line)]) -> Result<Self, Malformed> {
        let mut ids = HashMap::with_capacity(lines.len());
        for (id, (number, line)) in (0..).zip(lines) {
            if ids.insert(line.id, id).is_some() {
                return Err(malformed(*number, format!("id {} is there twice", line.id)));
            }
        }
        Ok(Self { header, lines, ids, elements: HashMap::new() })
    }

    fn build(mut self) -> Result<Snapshot, Malformed> {
        let mut graph = Graph::with_capacity(self.lines.len());
        for (number, line) in self.lines {
            let (tensor, layout) = self.tensor(*number, line)?;
            let id = graph.add(tensor, layout.by_ref());
            match line.kind {
                Kind::Leaf => graph.list_leafs([id]),
                Kind::Node => graph.list_nodes([id]),
                Kind::Extra => {}
            }
        }
        for (id, (number, line)) in (0..).zip(self.lines) {
            self.connect(&mut graph, id, *number, line)?;
        }
        self.check_counts(&graph)?;
        self.check_order(&graph)?;
        let tensors = self.lines.iter().map(|(_, line)| line.info()).collect();
        Ok(Snapshot { label: self.header.label, buffers: self.header.buffers, graph, tensors })
    }

    fn tensor(&mut self, number: usize, line: &'l Line) -> Result<(Tensor, Layout), Malformed> {
        if line.buffer as usize >= self.header.buffers.len() {
            let count = self.header.buffers.len();
            return Err(malformed(number, format!("buffer {} does not exist: there are {count}", line.buffer)));
        }
        let alignment = self.header.buffers[line.buffer as usize].alignment;
        if line.size.checked_next_multiple_of(alignment).is_none_or(|size| size > Bytes::MAX / 2) {
            return Err(malformed(number, format!("the size {} overflows when padded to {alignment}", line.size)));
        }
        if line.ne.iter().any(|&extent| extent < 0) {
            return Err(malformed(number, "ne has an extent below 0"));
        }
        let next = u32::try_from(self.elements.len()).expect("fewer than 2^32 types");
        let element = *self.elements.entry(&line.r#type).or_insert(next);
        let layout = Layout { element, ne: line.ne, nb: line.nb };
        let mut tensor = Tensor::new();
        tensor.flags = Flags(line.flags);
        tensor.operation = Operation::named(&line.op, line.inplace);
        tensor.external = line.external && line.view_of.is_none();
        Ok((tensor, layout))
    }

    fn connect(&self, graph: &mut Graph, id: TensorId, number: usize, line: &Line) -> Result<(), Malformed> {
        let find = |key: &str, wanted: u64| {
            let missing = || malformed(number, format!("{key} refers to id {wanted}, which is in no line"));
            self.ids.get(&wanted).copied().ok_or_else(missing)
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

    /// Nodes must come after the nodes that they read or are views of. Markers need not: they compute nothing.
    fn check_order(&self, graph: &Graph) -> Result<(), Malformed> {
        let mut position = vec![None; graph.tensors().len()];
        for (step, &node) in graph.nodes().iter().enumerate() {
            position[node as usize] = Some(step);
        }
        for &node in graph.nodes() {
            let later = read_too_early(graph, &position, node).filter(|_| !graph.tensor(node).is_marker());
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

/// What `node` reads or is a view of, though it is computed afterwards. A node may name itself, but read no view of itself.
fn read_too_early(graph: &Graph, position: &[Option<usize>], node: TensorId) -> Option<TensorId> {
    let (at, step) = (|id: TensorId| position[id as usize], position[node as usize]);
    graph.sources(node).iter().chain([&node]).find_map(|&id| {
        let root = graph.root(id);
        if at(id) > step { Some(id) } else { Some(root).filter(|_| root != id && at(root) >= step) }
    })
}

/// Does `from` depend on `to`?
fn reaches(graph: &Graph, from: TensorId, to: TensorId) -> bool {
    let mut seen = vec![false; graph.tensors().len()];
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        if id == to {
            return true;
        }
        if !std::mem::replace(&mut seen[id as usize], true) {
            open.extend(graph.sources(id));
        }
    }
    false
}

impl Line {
    fn info(&self) -> TensorInfo {
        let Self { id, ref name, ref op, ref r#type, nbytes, size, buffer, .. } = *self;
        let (name, op, element) = (name.clone(), op.clone(), r#type.clone());
        let desc = if self.desc.is_empty() { op.clone() } else { self.desc.clone() };
        TensorInfo { id, name, op, desc, element, nbytes, size, pool: buffer }
    }
}
