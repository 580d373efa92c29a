//! The target of an allocator's plans: its buffer types, with their rules and limits, and what it retains; and how graphs are
//! read and planned for it.

use std::borrow::Cow;

use crate::ggml::context::PendingTensors;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::outputs::check;
use crate::ggml::process::settings::retained_names;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::snapshot::SnapshotSource;
use crate::ggml::read::workspace::Workspace;
use crate::ggml::read::{ReadGraph, Requested, read, read_for_planning};
use crate::ggml::refusal::Refusal;
use crate::ggml::retention::AllocatorRetention;
use crate::graph::{
    BufferIndex, BufferSpec, Devices, Graph, GraphPlan, Kept, PlanError, Requests, RuleSetting, Sizes, TensorId,
    Wishes, plan,
};
use crate::placement::Effort;
use crate::settings::Settings;

/// The distinct buffer types of an allocator. Each is planned as one buffer, in one or several chunks.
#[derive(Debug)]
pub struct BufferTypes {
    pub list: Vec<BufferType>,
    /// The source of the rules.
    setting: RuleSetting,
    /// True if a program uses the allocator itself.
    pub is_direct: bool,
    /// The rules and limits of each buffer.
    pub specs: Vec<BufferSpec>,
    /// The buffer behind each id. Ids that name one buffer type share its buffer.
    pub buffer_of_id: Vec<BufferIndex>,
    /// Whether what kernels cost depends on addresses in some buffer.
    are_fusing: bool,
}

impl BufferTypes {
    /// Buffer id `i` refers to `by_id[i]`; rules and effort come from `settings`.
    pub fn new(by_id: &[BufferType], settings: &Settings) -> Self {
        let mut types: Vec<BufferType> = Vec::new();
        let mut buffer_of_id = Vec::with_capacity(by_id.len());
        for &buffer_type in by_id {
            let known = types.iter().position(|&other| other == buffer_type);
            let index = known.unwrap_or_else(|| {
                types.push(buffer_type);
                types.len() - 1
            });
            buffer_of_id.push(BufferIndex::try_from(index).expect("fewer than 2^32 buffers"));
        }
        let specs = types.iter().map(|it| it.spec(&settings.rules, settings.effort)).collect();
        let are_fusing = types.iter().any(|buffer_type| buffer_type.device().fuses_by_address());
        Self { list: types, setting: settings.rules.clone(), is_direct: false, specs, buffer_of_id, are_fusing }
    }

    /// Sets the in-place and aliasing rules for future plans.
    pub fn set_rules(&mut self, setting: &RuleSetting) {
        self.setting = if self.is_direct { setting.for_direct_use() } else { setting.clone() };
        for (spec, buffer_type) in self.specs.iter_mut().zip(&self.list) {
            spec.rules = buffer_type.rules(&self.setting);
        }
    }

    /// Sets the rules for future plans to those of an allocator that a program uses itself. Returns `true` unless they are
    /// those already.
    pub fn use_directly(&mut self) -> bool {
        let is_new = !std::mem::replace(&mut self.is_direct, true);
        if is_new {
            let setting = std::mem::take(&mut self.setting);
            self.set_rules(&setting);
        }
        is_new
    }

    /// Sets how much work placing may take in future plans.
    pub fn set_effort(&mut self, effort: Effort) {
        self.specs.iter_mut().for_each(|spec| spec.effort = effort);
    }

    /// Returns `true` if the sizes of tensors depend on their layouts alone.
    pub fn are_sizes_by_layout(&self) -> bool {
        self.list.iter().all(|buffer_type| buffer_type.alloc_size_is_nbytes())
    }

    /// Returns `true` if all buffers are of the CPU's own type.
    pub fn are_plain_cpu(&self) -> bool {
        self.list.iter().all(|buffer_type| buffer_type.is_plain_cpu())
    }

    /// The buffer behind `id`; `None` if an earlier id refers to it.
    pub fn first_use(&self, id: usize) -> Option<usize> {
        let buffer = self.buffer_of_id[id];
        (!self.buffer_of_id[..id].contains(&buffer)).then_some(buffer as usize)
    }

    /// Returns the pending tensors of `graph`, if each is requested in the buffer type of its context.
    ///
    /// # Errors
    /// [`Refusal::NotRealized`].
    pub fn pending<'g>(&self, graph: GraphRef<'g>, requested: &Requested) -> Result<PendingTensors<'g>, Refusal> {
        let pending = PendingTensors::in_graph(graph);
        if self.list.len() > 1 {
            pending.expect_in(|position| self.list[requested.buffer(position) as usize])?;
        }
        Ok(pending)
    }

    /// The buffers requested for the leafs and nodes of `graph`, where `None` for the ids means 0. Empty with a single
    /// buffer.
    pub fn requested(&self, graph: GraphRef<'_>, node_ids: Option<&[usize]>, leaf_ids: Option<&[usize]>) -> Requested {
        if self.list.len() == 1 {
            return Requested::default();
        }
        let buffers = |ids: Option<&[usize]>, count: usize| match ids {
            Some(ids) => ids.iter().map(|&id| self.buffer_of_id[id]).collect(),
            None => vec![self.buffer_of_id[0]; count],
        };
        Requested { leafs: buffers(leaf_ids, graph.leafs.len()), nodes: buffers(node_ids, graph.nodes.len()) }
    }
}

/// The target of an allocator's plans, and the memory that planning takes.
#[derive(Debug)]
pub struct Planner {
    /// The ggml that graphs and buffers belong to.
    pub runtime: &'static Runtime,
    /// The buffers, their rules and limits.
    pub types: BufferTypes,
    /// The tensors that plans retain.
    pub retention: AllocatorRetention,
    /// Lists of earlier graphs and plans.
    pub workspace: Box<Workspace>,
}

impl Planner {
    /// Creates that of a new allocator; buffer id `i` refers to `types[i]`.
    pub fn new(runtime: &'static Runtime, types: &[BufferType], settings: &Settings) -> Self {
        let types = BufferTypes::new(types, settings);
        Self {
            runtime,
            types,
            retention: AllocatorRetention::new(retained_names),
            workspace: Workspace::of_new_allocator(),
        }
    }

    /// Returns the fingerprint that covers all of `graph` that plans depend on.
    pub fn fingerprint(&self, graph: GraphRef<'_>) -> Fingerprint {
        if self.types.are_sizes_by_layout() {
            Fingerprint::without_parameters(graph)
        } else {
            Fingerprint::of(&self.runtime.operations, graph)
        }
    }

    /// Reads a graph; with everything that captures and reports need if `is_reported`.
    pub fn read<'g>(&mut self, graph: GraphRef<'g>, requested: &Requested, is_reported: bool) -> ReadGraph<'g> {
        let Self { runtime, types, workspace, .. } = self;
        if is_reported {
            read(runtime, &types.list, graph, requested)
        } else {
            read_for_planning(runtime, &types.list, graph, requested, workspace)
        }
    }

    /// Checks the redirected results of a graph that is planned for `requested`, or that fits such a plan.
    ///
    /// # Errors
    /// [`Refusal::Output`].
    pub fn check_outputs(&self, graph: GraphRef<'_>, requested: &Requested) -> Result<(), Refusal> {
        let buffer_type =
            |node: usize| self.types.list.get(requested.buffer(requested.leafs.len() + node) as usize).copied();
        check::check_outputs(self.runtime, graph, buffer_type).map_err(Refusal::Output)
    }

    /// Plans the graph of `reading` for the requested buffers. Debug builds simulate every plan.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] when sizes overflow.
    ///
    /// # Panics
    /// In debug builds, if the plan is wrong.
    pub fn plan(&mut self, reading: &ReadGraph<'_>, requested: &Requested, kept: Kept) -> Result<GraphPlan, PlanError> {
        let planned = self.plan_unchecked(reading, requested, kept);
        self.workspace.trim(reading.tensors.len());
        #[cfg(debug_assertions)]
        if let Ok(plan) = &planned {
            self.check(reading, plan);
        }
        planned
    }

    fn plan_unchecked(
        &mut self,
        reading: &ReadGraph<'_>,
        requested: &Requested,
        kept: Kept,
    ) -> Result<GraphPlan, PlanError> {
        let Self { runtime, types, workspace, .. } = self;
        let (graph, BufferTypes { list: types, specs, are_fusing, .. }) = (&reading.graph, types);
        let (lists, only) = workspace.for_planning();
        let buffers = if requested.is_listed() { requested } else { only.fill(graph) };
        let requests = Requests { leafs: &buffers.leafs, nodes: &buffers.nodes };
        let devices = Devices {
            of: &|buffer| types[buffer as usize].device(),
            graph: &|| Cow::Owned(with_all_layouts(reading)),
            desc: &|id| runtime.description(reading.tensors[id as usize]).into(),
            nbytes: &|id| runtime.nbytes(reading.tensors[id as usize]),
        };
        let wishes = Wishes { kept, devices: are_fusing.then_some(&devices) };
        match reading.sizes_by_layout(types) {
            Some(sizes) => plan(graph, specs, requests, &mut |tensor: TensorId, _| sizes(tensor), wishes, lists),
            None => {
                let mut queried =
                    |tensor: TensorId, buffer: BufferIndex| reading.alloc_size(types, requested, tensor, buffer);
                plan(graph, specs, requests, &mut queried, wishes, lists)
            }
        }
    }

    #[cfg(debug_assertions)]
    fn check(&self, reading: &ReadGraph<'_>, plan: &GraphPlan) {
        let nbytes: Vec<_> = reading.tensors.iter().map(|&tensor| self.runtime.nbytes(tensor)).collect();
        if let Err(corruption) = crate::graph::simulate(&reading.graph, plan, &nbytes) {
            panic!("the plan is wrong: {corruption}");
        }
    }

    /// Calls `search`, a pass over the graph of `reading`, with the buffers, what is requested of them, and the sizes in them.
    pub fn search<T>(
        &self,
        reading: &ReadGraph<'_>,
        requested: &Requested,
        search: impl FnOnce(&[BufferSpec], Requests<'_>, &mut dyn Sizes) -> T,
    ) -> T {
        let all = requested.of_all(&reading.graph);
        let requests = Requests { leafs: &all.leafs, nodes: &all.nodes };
        let types = &self.types.list;
        let mut sizes = |tensor: TensorId, buffer: BufferIndex| reading.alloc_size(types, requested, tensor, buffer);
        search(&self.types.specs, requests, &mut sizes)
    }

    /// Returns the data for a capture of the graph.
    pub fn subject<'a, 'g>(&'a self, reading: &'a ReadGraph<'g>, requested: &'a Requested) -> SnapshotSource<'a, 'g> {
        let (types, buffers) = (&*self.types.list, &*self.types.specs);
        SnapshotSource { runtime: self.runtime, types, buffers, requested, reading }
    }
}

/// Returns the graph with the layouts of constants too, which planning does not read.
fn with_all_layouts(reading: &ReadGraph<'_>) -> Graph {
    let mut graph = Graph::clone(&reading.graph);
    for (id, tensor) in (0..).zip(&reading.tensors) {
        if !graph.has_layout(id) {
            graph.set_layout(id, tensor.layout());
        }
    }
    graph
}
