//! Reads a live graph into plain data: pointers become dense ids, once.
//!
//! [`read`] and [`read_for_planning`] convert a [`GraphRef`] to a [`ReadGraph`], in batches of tensors ([`batch`]),
//! with sizes for the [`Requested`] buffers. [`fingerprint`] hashes a graph without reading it into plain data,
//! [`snapshot`] adds names for captures.

pub mod batch;
pub mod workspace;
pub mod fingerprint;
pub mod snapshot;

use std::borrow::Cow;

use crate::graph::{BufferIndex, Flags, Graph, InPlace, Op, Tensor, TensorId, View, id_of};
use crate::placement::{Bytes, refill};

use crate::ggml::context::BackedContexts;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::{Ids, KnownIds};
use crate::ggml::live::operations::{Operation, Operations};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use batch::{AllocSizes, BATCH, Sources};
use workspace::Workspace;

/// The buffers requested for leafs and nodes; both lists are empty if there is only one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requested {
    /// By leaf.
    pub leafs: Vec<BufferIndex>,
    /// By node.
    pub nodes: Vec<BufferIndex>,
}

impl Requested {
    /// Returns the requests with a buffer for every leaf and node of `graph`, also if there is only one buffer.
    pub fn of_all(&self, graph: &Graph) -> Cow<'_, Self> {
        if self.is_listed() {
            return Cow::Borrowed(self);
        }
        let mut all = Self::default();
        all.fill(graph);
        Cow::Owned(all)
    }

    /// Returns `true` if there are several buffers.
    pub fn is_listed(&self) -> bool {
        !self.leafs.is_empty() || !self.nodes.is_empty()
    }

    /// Requests the first buffer for every leaf and node.
    pub fn fill(&mut self, graph: &Graph) -> &Self {
        refill(&mut self.leafs, 0, graph.leafs().len());
        refill(&mut self.nodes, 0, graph.nodes().len());
        self
    }

    /// Returns the buffer requested for a tensor, by its position in the leafs followed by the nodes.
    pub fn buffer(&self, position: usize) -> BufferIndex {
        let buffer = self.leafs.get(position).or_else(|| self.nodes.get(position.checked_sub(self.leafs.len())?));
        buffer.copied().unwrap_or(0)
    }
}

/// A graph as plain data, with the live tensor of each id.
#[derive(Debug)]
pub struct ReadGraph<'g> {
    /// Ids number the leafs first, then the nodes, then the tensors that are only referred to.
    pub graph: Box<Graph>,
    /// The live tensors, by id.
    pub tensors: Vec<TensorRef<'g>>,
    /// The number of tensors that are leafs or nodes; the others, with larger ids, are only referred to.
    pub listed: usize,
    /// By id, ggml's number of the operation; 0 for constants.
    pub ops: Vec<u32>,
    /// The tensors whose results are redirected, in the order of the lists.
    pub redirected: Vec<TensorId>,
    /// The sizes that are known.
    pub sizes: AllocSizes,
}

impl ReadGraph<'_> {
    /// Leaves the memory of the lists to the next graph.
    pub fn leave_to(self, workspace: &mut Workspace) {
        let mut tensors = self.tensors;
        tensors.clear();
        workspace.reuse_lists(self.graph, tensors.into_iter().map(TensorRef::address).collect(), self.ops);
    }

    /// Returns the sizes of all tensors if they depend on the layout alone in all `types`. [`ReadGraph::alloc_size`] returns
    /// the same ones.
    pub fn sizes_by_layout(&self, types: &[BufferType]) -> Option<impl Fn(TensorId) -> Bytes> {
        let (layouts, sizes) = (self.graph.layout_ids(), self.sizes.of_all_layouts(self.graph.distinct_layouts())?);
        let by_layout = types.iter().all(|buffer_type| buffer_type.alloc_size_is_nbytes());
        by_layout.then_some(move |tensor: TensorId| sizes[layouts[tensor as usize] as usize])
    }

    /// Returns the bytes that a tensor takes in `types[buffer]`; the graph was read with `requested`.
    pub fn alloc_size(
        &self,
        types: &[BufferType],
        requested: &Requested,
        tensor: TensorId,
        buffer: BufferIndex,
    ) -> Bytes {
        let buffer_type = types[buffer as usize];
        let known = if buffer_type.alloc_size_is_nbytes() {
            self.sizes.of_layout(self.graph.layout_id(tensor))
        } else if requested.buffer(tensor as usize) == buffer {
            self.sizes.of_tensor(tensor)
        } else {
            None
        };
        let by_ggml = || buffer_type.alloc_size(self.tensors[tensor as usize]);
        debug_assert!(!buffer_type.alloc_size_is_nbytes() || known.is_none_or(|known| known == by_ggml()));
        known.unwrap_or_else(by_ggml)
    }
}

/// Reads the leafs and nodes of `graph` and the tensors that they refer to, with sizes and all layouts.
pub fn read<'g>(runtime: &Runtime, types: &[BufferType], graph: GraphRef<'g>, requested: &Requested) -> ReadGraph<'g> {
    let mut reading = read_for_planning(runtime, types, graph, requested, &mut Workspace::default());
    let ReadGraph { graph, tensors, sizes, .. } = &mut reading;
    for (id, &tensor) in (0..).zip(tensors.iter()) {
        add_layout(runtime, graph, sizes, id, tensor);
    }
    reading
}

/// Reads a graph without what planning does not use: the layouts of constants that no CONCAT reads. Large graphs do not
/// fit in the caches of a processor, so each batch of tensors is read completely before the next one.
pub fn read_for_planning<'g>(
    runtime: &Runtime,
    types: &[BufferType],
    graph: GraphRef<'g>,
    requested: &Requested,
    workspace: &mut Workspace,
) -> ReadGraph<'g> {
    let mut sources = Sources::none();
    let mut reader = Reader::new(runtime, types, graph, requested, (&mut sources, workspace));
    let listed = reader.ids.tensors().len();
    let distinct = (listed < graph.leafs.len() + graph.nodes.len()).then(|| reader.ids.tensors().to_vec());
    let (leafs, nodes) = match &distinct {
        Some(tensors) => tensors.split_at(graph.leafs.len().min(listed)),
        None => (graph.leafs, graph.nodes),
    };
    leafs.chunks(BATCH).for_each(|leafs| reader.read_leafs(leafs));
    nodes.chunks(BATCH).for_each(|nodes| reader.read_nodes(nodes));
    // Describing a tensor can add its root, which is described next.
    let mut next = listed;
    while let Some(&tensor) = reader.ids.tensors().get(next) {
        reader.describe(&[tensor]);
        next += 1;
    }
    let Reader { ids, graph, ops, redirected, sizes, .. } = reader;
    let (tensors, table) = ids.into_parts();
    workspace.ids = Some(table);
    ReadGraph { graph, tensors, listed, ops, redirected, sizes }
}

struct Reader<'a, 'g> {
    runtime: &'a Runtime,
    types: &'a [BufferType],
    requested: &'a Requested,
    contexts: BackedContexts,
    ids: Ids<'g>,
    graph: Box<Graph>,
    ops: Vec<u32>,
    redirected: Vec<TensorId>,
    sizes: AllocSizes,
    /// The sources of the current batch.
    sources: &'a mut Sources<'g>,
}

impl<'a, 'g> Reader<'a, 'g> {
    fn new(
        runtime: &'a Runtime,
        types: &'a [BufferType],
        live: GraphRef<'g>,
        requested: &'a Requested,
        (sources, workspace): (&'a mut Sources<'g>, &mut Workspace),
    ) -> Self {
        let count = live.leafs.len() + live.nodes.len();
        let (mut graph, mut tensors, ops) = workspace.take_lists(count);
        tensors.extend_from_slice(live.leafs);
        tensors.extend_from_slice(live.nodes);
        let mut ids = Ids::in_table(workspace.ids.take().unwrap_or_default(), tensors);
        // Positions are ids unless a tensor is listed twice.
        let has_positions = ids.tensors().len() == count;
        if has_positions {
            let (leafs, all) = (id_of(live.leafs.len()), id_of(count));
            graph.list_leafs(0..leafs);
            graph.list_nodes(leafs..all);
        } else {
            graph.list_leafs(live.leafs.iter().map(|&leaf| ids.id(leaf)));
            graph.list_nodes(live.nodes.iter().map(|&node| ids.id(node)));
        }
        Self {
            runtime,
            types,
            requested,
            contexts: BackedContexts::current(),
            ids,
            graph,
            ops,
            redirected: Vec::new(),
            sizes: AllocSizes::new(types, if has_positions { count } else { 0 }),
            sources,
        }
    }

    fn read_leafs(&mut self, mut leafs: &[TensorRef<'g>]) {
        // Most are weights, with inputs between them.
        while !leafs.is_empty() {
            let constants = leafs.iter().take_while(|leaf| leaf.is_constant()).count();
            let (constants, others) = leafs.split_at(constants);
            self.read_constants(constants);
            let inputs = others.iter().take_while(|leaf| !leaf.is_constant()).count();
            let (inputs, others) = others.split_at(inputs);
            self.read_nodes(inputs);
            leafs = others;
        }
    }

    /// Reads nodes, and leafs that are not constants. Sources and descriptions have a loop each: two are faster than
    /// one.
    fn read_nodes(&mut self, mut nodes: &[TensorRef<'g>]) {
        while !nodes.is_empty() {
            let (next, others) = nodes.split_at(self.connect(nodes));
            self.describe(next);
            nodes = others;
        }
    }

    /// Adds the sources of as many of `tensors` as fit in a batch to the graph, and returns their number.
    #[inline(never)]
    fn connect(&mut self, tensors: &[TensorRef<'g>]) -> usize {
        let Self { ids, graph, redirected, sources, .. } = self;
        let collected = sources.collect(tensors, id_of(graph.tensors().len()), redirected);
        let (found, readers) = (sources.tensors(), sources.readers());
        let mut next = 0;
        loop {
            let known = ids.known();
            next += graph.extend_sources(&found[next..], &readers[next..], |source| known.id_in_cell(source));
            let Some(&source) = found.get(next) else { break };
            if let Some(source) = source {
                graph.push_source(ids.id(source), readers[next]);
            }
            next += 1;
        }
        graph.end_sources(&sources.ends()[..collected]);
        collected
    }

    /// Adds the next tensors, at most a batch.
    #[inline(never)]
    fn describe(&mut self, tensors: &[TensorRef<'g>]) {
        let Self { runtime, contexts, ids, graph, ops, .. } = self;
        let first = graph.tensors().len();
        ops.extend(tensors.iter().map(|tensor| tensor.op()));
        if !add_known(graph, tensors, &runtime.operations, ids.known()) {
            for tensor in tensors {
                runtime.operations.operation(tensor.op());
                tensor.view_source().map(|root| ids.id(root));
            }
            graph.truncate(first);
            add_known(graph, tensors, &runtime.operations, ids.known());
        }
        if !contexts.is_empty() {
            for (id, &tensor) in (id_of(first)..).zip(tensors) {
                if contexts.will_allocate(tensor) {
                    graph.set_external(id, true);
                }
            }
        }
        self.add_sizes(tensors);
        if ops_of_last(&self.ops, tensors).contains(&self.runtime.operations.number(Op::Concat)) {
            self.add_operand_layouts(tensors);
        }
    }

    /// Adds leafs that have memory and refer to no tensor.
    #[inline(never)]
    fn read_constants(&mut self, leafs: &[TensorRef<'g>]) {
        let Self { runtime, types, requested, graph, ops, sizes, .. } = self;
        ops.resize(ops.len() + leafs.len(), 0);
        graph.push_no_sources(leafs.len());
        // Nearly all leafs have operation NONE, whose number is 0.
        let none = runtime.operations.operation(0);
        graph.extend(leafs.iter().map(|leaf| {
            let Operation { op, in_place } =
                if leaf.op() == 0 { none } else { runtime.operations.operation(leaf.op()) };
            Tensor { flags: Flags(leaf.flags()), view: None, op, in_place, external: true }
        }));
        graph.defer_layouts(leafs.len());
        sizes.add_tensors(types, requested, graph, leafs);
    }

    /// Adds the layouts of constants that a CONCAT among the last tensors reads.
    #[cold]
    fn add_operand_layouts(&mut self, last: &[TensorRef<'_>]) {
        let Self { runtime, ids, graph, ops, sizes, .. } = self;
        let concat = runtime.operations.number(Op::Concat);
        let nodes = (id_of(ops.len() - last.len())..).zip(ops_of_last(ops, last));
        for (node, _) in nodes.filter(|(_, op)| **op == concat) {
            for at in 0..graph.sources(node).len() {
                let source = graph.sources(node)[at];
                // Later tensors are described next.
                if (source as usize) < ops.len() {
                    add_layout(runtime, graph, sizes, source, ids.tensors()[source as usize]);
                }
            }
        }
    }

    /// Adds the layouts and sizes of the last tensors.
    #[inline(never)]
    fn add_sizes(&mut self, tensors: &[TensorRef<'_>]) {
        let Self { runtime, types, requested, graph, sizes, .. } = self;
        graph.extend_layouts(tensors, |tensor| tensor.layout());
        sizes.add_layouts(runtime, graph, tensors);
        sizes.add_tensors(types, requested, graph, tensors);
    }
}

/// Returns the operations of `tensors`, the last ones that were added.
fn ops_of_last<'a>(ops: &'a [u32], tensors: &[TensorRef<'_>]) -> &'a [u32] {
    &ops[ops.len() - tensors.len()..]
}

/// Adds the layout of a tensor that has none yet.
fn add_layout(runtime: &Runtime, graph: &mut Graph, sizes: &mut AllocSizes, id: TensorId, tensor: TensorRef<'_>) {
    if !graph.has_layout(id) {
        graph.set_layout(id, tensor.layout());
        sizes.add_layout(runtime, graph.layout_id(id), tensor);
    }
}

/// Adds `tensors`, and returns whether all of their operations and roots are known; otherwise the caller has to remove
/// them again. This is faster than to look up unknown ones in the loop, as nothing else changes meanwhile.
#[inline(always)]
fn add_known<'g>(graph: &mut Graph, tensors: &[TensorRef<'g>], operations: &Operations, ids: KnownIds<'_, 'g>) -> bool {
    let mut all_are_known = true;
    let are_known = &mut all_are_known;
    graph.extend(tensors.iter().map(move |tensor| {
        let Operation { op, in_place } = operations.known(tensor.op()).copied().unwrap_or_else(|| {
            *are_known = false;
            Operation { op: Op::Unknown, in_place: InPlace::Never }
        });
        let owner = tensor.view_source();
        let view = owner.is_some().then(|| {
            let root = ids.id(owner).unwrap_or_else(|| {
                *are_known = false;
                0
            });
            View { root, offset: tensor.view_offset() as u64 }
        });
        let external = owner.is_none() && tensor.has_memory();
        Tensor { flags: Flags(tensor.flags()), view, op, in_place, external }
    }));
    all_are_known
}
