//! From a live graph to plain data: pointers become dense ids, once.

pub mod requested;
pub mod sizes;
mod sources;
pub mod fingerprint;
pub mod memory;
pub mod snapshot;

use crate::graph::{BufferIndex, Flags, Graph, Operation, Tensor, TensorId, View};
use crate::placement::Bytes;

use crate::ggml::context::GrowingContexts;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::{Ids, KnownIds, id_of};
use crate::ggml::live::operations::Operations;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::read::sizes::KnownSizes;
use requested::Requested;
use sources::{Sources, TOGETHER};

/// A live graph and the same as plain data.
#[derive(Debug)]
pub struct Reading<'g> {
    /// Leafs first, then nodes, then what is only referred to.
    pub graph: Graph,
    /// By id.
    pub tensors: Vec<TensorRef<'g>>,
    /// How many tensors are leafs or nodes: the others, with larger ids, are only referred to.
    pub listed: usize,
    /// By id, ggml's number of the operation; not of constants.
    pub ops: Vec<u32>,
    /// The tensors whose results are redirected, in the order of the lists.
    pub redirecting: Vec<TensorId>,
    /// What was found out of the sizes of the tensors.
    pub sizes: KnownSizes,
}

impl Reading<'_> {
    /// The sizes of all tensors by layout, where all `types` go by it: [`Reading::alloc_size`] tells the same.
    pub fn sizes_by_layout(&self, types: &[BufferType]) -> Option<impl Fn(TensorId) -> Bytes> {
        let (layouts, sizes) = (self.graph.layout_ids(), self.sizes.of_all_layouts(self.graph.distinct_layouts())?);
        let by_layout = types.iter().all(|buffer_type| buffer_type.goes_by_layout());
        by_layout.then_some(move |tensor: TensorId| sizes[layouts[tensor as usize] as usize])
    }

    /// Bytes that `types[buffer]` wants for a tensor, where `requested` is what the graph was read with.
    pub fn alloc_size(
        &self,
        types: &[BufferType],
        requested: &Requested,
        tensor: TensorId,
        buffer: BufferIndex,
    ) -> Bytes {
        let buffer_type = types[buffer as usize];
        let known = if buffer_type.goes_by_layout() {
            self.sizes.of_layout(self.graph.layout_id(tensor))
        } else if requested.buffer(tensor as usize) == buffer {
            self.sizes.of_tensor(tensor)
        } else {
            None
        };
        let ask = || buffer_type.alloc_size(self.tensors[tensor as usize]);
        debug_assert!(!buffer_type.goes_by_layout() || known.is_none_or(|known| known == ask()));
        known.unwrap_or_else(ask)
    }
}

/// Reads the lists of `graph` and whatever they refer to, sizes included.
pub fn read<'g>(runtime: &Runtime, types: &[BufferType], graph: GraphRef<'g>, requested: &Requested) -> Reading<'g> {
    let mut reading = read_to_plan(runtime, types, graph, requested);
    let Reading { graph, tensors, sizes, .. } = &mut reading;
    for (id, &tensor) in (0..).zip(tensors.iter()) {
        say_layout(runtime, graph, sizes, id, tensor);
    }
    reading
}

/// The same without what planning does not look at: the layouts of constants that no CONCAT reads. Large graphs do not stay in
/// the caches of a processor, so all that is to be known of some tensors is found out before the next ones are looked at.
pub fn read_to_plan<'g>(
    runtime: &Runtime,
    types: &[BufferType],
    graph: GraphRef<'g>,
    requested: &Requested,
) -> Reading<'g> {
    let mut sources = Sources::none();
    let mut reader = Reader::new(runtime, types, graph, requested, &mut sources);
    let listed = reader.ids.tensors().len();
    let distinct = (listed < graph.leafs.len() + graph.nodes.len()).then(|| reader.ids.tensors().to_vec());
    let (leafs, nodes) = match &distinct {
        Some(tensors) => tensors.split_at(graph.leafs.len().min(listed)),
        None => (graph.leafs, graph.nodes),
    };
    leafs.chunks(TOGETHER).for_each(|leafs| reader.read_leafs(leafs));
    nodes.chunks(TOGETHER).for_each(|nodes| reader.read_nodes(nodes));
    // Describing a tensor can add the one that it is a view of, which is then described in its turn.
    let mut next = listed;
    while let Some(&tensor) = reader.ids.tensors().get(next) {
        reader.describe(&[tensor]);
        next += 1;
    }
    let Reader { ids, plain, ops, redirecting, sizes, .. } = reader;
    Reading { graph: plain, tensors: ids.into_tensors(), listed, ops, redirecting, sizes }
}

struct Reader<'a, 'g> {
    runtime: &'a Runtime,
    types: &'a [BufferType],
    requested: &'a Requested,
    contexts: GrowingContexts,
    ids: Ids<'g>,
    plain: Graph,
    ops: Vec<u32>,
    redirecting: Vec<TensorId>,
    sizes: KnownSizes,
    /// Of the tensors that are looked at.
    sources: &'a mut Sources<'g>,
}

impl<'a, 'g> Reader<'a, 'g> {
    fn new(
        runtime: &'a Runtime,
        types: &'a [BufferType],
        graph: GraphRef<'g>,
        requested: &'a Requested,
        sources: &'a mut Sources<'g>,
    ) -> Self {
        let lists = [graph.leafs, graph.nodes].concat();
        let count = lists.len();
        let mut ids = Ids::of(lists);
        let mut plain = Graph::with_capacity(count);
        // Positions are ids unless a tensor is listed twice.
        let has_positions = ids.tensors().len() == count;
        if has_positions {
            let (leafs, all) = (id_of(graph.leafs.len()), id_of(count));
            plain.list_leafs(0..leafs);
            plain.list_nodes(leafs..all);
        } else {
            plain.list_leafs(graph.leafs.iter().map(|&leaf| ids.id(leaf)));
            plain.list_nodes(graph.nodes.iter().map(|&node| ids.id(node)));
        }
        Self {
            runtime,
            types,
            requested,
            contexts: GrowingContexts::now(),
            ids,
            plain,
            ops: Vec::with_capacity(count),
            redirecting: Vec::new(),
            sizes: KnownSizes::new(types, if has_positions { count } else { 0 }),
            sources,
        }
    }

    fn read_leafs(&mut self, mut leafs: &[TensorRef<'g>]) {
        // Most are weights; inputs stand between them.
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

    /// In two loops, which a processor goes through faster than through one.
    fn read_nodes(&mut self, mut nodes: &[TensorRef<'g>]) {
        while !nodes.is_empty() {
            let (next, others) = nodes.split_at(self.connect(nodes));
            self.describe(next);
            nodes = others;
        }
    }

    /// Adds the sources of the first of `tensors` to the graph. Returns how many tensors that are: as many as there is room for.
    #[inline(never)]
    fn connect(&mut self, tensors: &[TensorRef<'g>]) -> usize {
        let Self { ids, plain, redirecting, sources, .. } = self;
        let collected = sources.collect(tensors, id_of(plain.tensors().len()), redirecting);
        let (found, readers) = (sources.tensors(), sources.readers());
        let mut next = 0;
        loop {
            let known = ids.known();
            next += plain.extend_sources(&found[next..], &readers[next..], |source| known.id_in_cell(source));
            let Some(&source) = found.get(next) else { break };
            if let Some(source) = source {
                plain.push_source(ids.id(source), readers[next]);
            }
            next += 1;
        }
        plain.end_sources(&sources.ends()[..collected]);
        collected
    }

    /// Adds the next tensors, at most so many as are looked at together.
    #[inline(never)]
    fn describe(&mut self, tensors: &[TensorRef<'g>]) {
        let Self { runtime, contexts, ids, plain, ops, .. } = self;
        let first = plain.tensors().len();
        ops.extend(tensors.iter().map(|tensor| tensor.op()));
        if !add_known(plain, tensors, &runtime.operations, ids.known()) {
            for tensor in tensors {
                runtime.operations.operation(tensor.op());
                tensor.view_source().map(|root| ids.id(root));
            }
            plain.truncate(first);
            add_known(plain, tensors, &runtime.operations, ids.known());
        }
        if contexts.are_some() {
            for (id, &tensor) in (id_of(first)..).zip(tensors) {
                if contexts.will_give(tensor) {
                    plain.set_external(id, true);
                }
            }
        }
        self.measure(tensors);
        if ops_of_latest(&self.ops, tensors).contains(&self.runtime.operations.concat()) {
            self.say_layouts_of_operands(tensors);
        }
    }

    /// Adds leafs that came with memory and refer to nobody.
    #[inline(never)]
    fn read_constants(&mut self, leafs: &[TensorRef<'g>]) {
        let Self { runtime, types, requested, plain, ops, sizes, .. } = self;
        ops.resize(ops.len() + leafs.len(), 0);
        plain.push_no_sources(leafs.len());
        plain.extend(leafs.iter().map(|leaf| {
            let operation = runtime.operations.operation(leaf.op());
            Tensor { flags: Flags(leaf.flags()), view: None, operation, external: true }
        }));
        plain.skip_layouts(leafs.len());
        sizes.add_tensors(types, requested, plain, leafs);
    }

    /// Says the layouts of constants that a CONCAT among the latest tensors reads.
    #[cold]
    fn say_layouts_of_operands(&mut self, latest: &[TensorRef<'_>]) {
        let Self { runtime, ids, plain, ops, sizes, .. } = self;
        let concat = runtime.operations.concat();
        let nodes = (id_of(ops.len() - latest.len())..).zip(ops_of_latest(ops, latest));
        for (node, _) in nodes.filter(|(_, op)| **op == concat) {
            for at in 0..plain.sources(node).len() {
                let source = plain.sources(node)[at];
                // Those behind are described in their turn.
                if (source as usize) < ops.len() {
                    say_layout(runtime, plain, sizes, source, ids.tensors()[source as usize]);
                }
            }
        }
    }

    /// Finds out the layouts and sizes of the latest tensors.
    #[inline(never)]
    fn measure(&mut self, tensors: &[TensorRef<'_>]) {
        let Self { runtime, types, requested, plain, sizes, .. } = self;
        plain.extend_layouts(tensors, |tensor| tensor.layout());
        sizes.add_layouts(runtime, plain, tensors);
        sizes.add_tensors(types, requested, plain, tensors);
    }
}

/// Those of `tensors`, which are the latest.
fn ops_of_latest<'a>(ops: &'a [u32], tensors: &[TensorRef<'_>]) -> &'a [u32] {
    &ops[ops.len() - tensors.len()..]
}

/// Says the layout of a tensor, unless it is said.
fn say_layout(runtime: &Runtime, plain: &mut Graph, sizes: &mut KnownSizes, id: TensorId, tensor: TensorRef<'_>) {
    if !plain.has_layout(id) {
        plain.say_layout(id, tensor.layout());
        sizes.add_layout(runtime, plain.layout_id(id), tensor);
    }
}

/// Adds `tensors`, and tells whether their operations and roots are known: else they are to be taken back. Quicker than to look
/// up on the way what is not known, as nothing else changes meanwhile.
#[inline(always)]
fn add_known<'g>(plain: &mut Graph, tensors: &[TensorRef<'g>], operations: &Operations, ids: KnownIds<'_, 'g>) -> bool {
    let mut all_are_known = true;
    let are_known = &mut all_are_known;
    plain.extend(tensors.iter().map(move |tensor| {
        let operation = operations.known(tensor.op()).unwrap_or_else(|| {
            *are_known = false;
            &Operation::Other
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
        Tensor { flags: Flags(tensor.flags()), view, operation: *operation, external }
    }));
    all_are_known
}
