//! Reads and plans graphs.

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::outputs::check;
use crate::ggml::process::settings::Settings;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::read::snapshot::SnapshotSource;
use crate::ggml::read::workspace::Workspace;
use crate::ggml::read::{ReadGraph, Requested, read, read_for_planning};
use crate::ggml::refusal::Refusal;
use crate::graph::{BufferIndex, GraphPlan, PlanError, Requests, TensorId, plan, plan_keeping, read_inputs};

use super::kernels::prefer_cheaper_on_devices;
use super::retention::AllocatorRetention;
use super::types::BufferTypes;

/// Which inputs stay intact where [`Rules::keep_inputs`](crate::graph::Rules::keep_inputs) is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Those that are intact in the plan of ggml's own allocator.
    AsGgml,
    /// All that are read.
    All,
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
        Self { runtime, types, retention: AllocatorRetention::new(), workspace: Workspace::of_new_allocator() }
    }

    /// Returns the fingerprint that covers all of `graph` that plans depend on.
    pub fn fingerprint(&self, graph: GraphRef<'_>) -> Fingerprint {
        self.types.fingerprint(self.runtime, graph)
    }

    /// Reads a graph; with everything that captures and reports need if `is_reported`.
    pub fn read<'g>(&mut self, graph: GraphRef<'g>, requested: &Requested, is_reported: bool) -> ReadGraph<'g> {
        let Self { runtime, types, workspace, .. } = self;
        if is_reported {
            read(runtime, types.types(), graph, requested)
        } else {
            read_for_planning(runtime, types.types(), graph, requested, workspace)
        }
    }

    /// Checks the redirected results of a graph that is planned for `requested`, or that fits such a plan.
    ///
    /// # Errors
    /// [`Refusal::Output`].
    pub fn check_outputs(&self, graph: GraphRef<'_>, requested: &Requested) -> Result<(), Refusal> {
        let types = self.types.types();
        let buffer_type = |node: usize| types.get(requested.buffer(requested.leafs.len() + node) as usize).copied();
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
        let Self { types, workspace, .. } = self;
        let (graph, specs) = (&reading.graph, types.specs());
        let Workspace { plan: lists, requested: only, .. } = &mut **workspace;
        let buffers = if requested.is_listed() { requested } else { only.fill(graph) };
        let requests = Requests { leafs: &buffers.leafs, nodes: &buffers.nodes };
        let by_layout = reading.sizes_by_layout(types.types());
        let mut queried = |tensor: TensorId, buffer: BufferIndex| match &by_layout {
            Some(sizes) => sizes(tensor),
            None => reading.alloc_size(types.types(), requested, tensor, buffer),
        };
        let mut planned = match (&by_layout, kept) {
            (_, Kept::All) if specs.iter().any(|spec| spec.rules.keep_inputs) => {
                let kept: Vec<_> = read_inputs(graph).into_iter().map(|input| (input, 0)).collect();
                plan_keeping(graph, specs, requests, &mut queried, &kept, lists)
            }
            (Some(sizes), _) => plan(graph, specs, requests, &mut |tensor: TensorId, _| sizes(tensor), lists),
            (None, _) => plan(graph, specs, requests, &mut queried, lists),
        };
        if let Ok(plan) = &mut planned {
            prefer_cheaper_on_devices(types, reading, requests, plan);
        }
        planned
    }

    #[cfg(debug_assertions)]
    fn check(&self, reading: &ReadGraph<'_>, plan: &GraphPlan) {
        let nbytes: Vec<_> = reading.tensors.iter().map(|&tensor| self.runtime.nbytes(tensor)).collect();
        if let Err(corruption) = crate::graph::simulate(&reading.graph, plan, &nbytes) {
            panic!("the plan is wrong: {corruption}");
        }
    }

    /// Returns the data for a capture of the graph.
    pub fn subject<'a, 'g>(&'a self, reading: &'a ReadGraph<'g>, requested: &'a Requested) -> SnapshotSource<'a, 'g> {
        let (types, buffers) = (self.types.types(), self.types.specs());
        SnapshotSource { runtime: self.runtime, types, buffers, requested, reading }
    }
}
