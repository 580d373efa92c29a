//! The rules without a scheduler, "any operand on the GPU" and PowerInfer's, in which results have a class that is chosen when
//! the graph is built, and operations follow classes; and all three rules as one type, to compare them.

use std::collections::HashMap;

use crate::graph::{Flags, TensorId};

use super::backends::{BackendIndex, Backends, BufferTypeIndex, Capabilities};
use super::llama_cpp::layer_of;
use super::offload_error::OffloadError;
use super::options::SchedulerOptions;
use super::placed_graph::PlacedGraph;
use super::scheduled_graph::{Draft, Schedule};
use super::scheduler::schedule;
use super::splits::{Questions, split};

/// Places each node on the GPU of its first operand that is on one, and on the host if none is. Copies of operands to
/// other backends follow as with ggml's scheduler.
///
/// Every backend but the last counts as a GPU. Inputs of the program are on the host. A result that is a view, as of a
/// write into a cache, resides where its root does, and runs there where that backend supports it. Where a backend does
/// not support an operation, the next operand's does, then the host. Assignments by the program are for the scheduler
/// alone.
///
/// # Errors
/// [`OffloadError`] where no backend supports an operation, and where the lists of `placed` do not fit together.
pub fn any_operand(
    placed: PlacedGraph<'_>,
    backends: &Backends,
    capabilities: &dyn Capabilities,
) -> Result<Schedule, OffloadError> {
    placed.check(backends)?;
    let questions = Questions { backends, capabilities, options: SchedulerOptions::default() };
    let mut draft = Draft::new(placed);
    place_constants(&mut draft, questions)?;
    for &node in placed.graph().nodes() {
        let root = placed.graph().root(node);
        if draft.is_view_operation(node) {
            draft.resides[node as usize] = draft.resides[root as usize];
            draft.executes[node as usize] = draft.resides[root as usize];
            continue;
        }
        let wanted = match draft.resides[root as usize] {
            Some(home) => home,
            None => gpu_of_operands(&draft, questions, node).unwrap_or_else(|| backends.host()),
        };
        let executes = supporting(&draft, questions, node, wanted)?;
        draft.executes[node as usize] = Some(executes);
        draft.resides[node as usize].get_or_insert(if root == node { executes } else { wanted });
    }
    split_with_staged(draft, questions)
}

/// Returns the first backend but the host that an operand of `node` is on and that supports the node. Inputs of the
/// program are on the host.
fn gpu_of_operands(draft: &Draft<'_>, questions: Questions<'_>, node: TensorId) -> Option<BackendIndex> {
    if draft.edit.tensor(node).flags.has(Flags::INPUT) {
        return None;
    }
    let homes = draft.edit.sources(node).iter().filter_map(|&source| draft.resides[source as usize]);
    let mut gpus = homes.filter(|&home| home != questions.backends.host());
    gpus.find(|&gpu| questions.capabilities.supports_op(gpu, node))
}

/// The name that llama.cpp and PowerInfer give to the logits.
const LOGITS: &str = "result_output";

/// Operations that compute the active neurons of a layer alone.
const SPARSE_PRODUCTS: [&str; 2] = ["AXPY", "MUL_MAT_SPARSE"];

/// Where each result is to be, as PowerInfer decides it while it builds a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DestinationClasses {
    /// By tensor, the backend; `None`, or no entry, for the host. Entries of tensors with memory and of views are not
    /// used: those are where their memory is.
    pub by_tensor: Vec<Option<BackendIndex>>,
}

impl DestinationClasses {
    /// Assigns the results of a layer to a GPU if all weights that its nodes read are in memory of that GPU, and all
    /// others to the host. A node is of layer N if its name ends in "-N", as in llama.cpp, and so are its views; results that belong to no
    /// layer, the logits among them, are on the host.
    pub fn of_layers(placed: PlacedGraph<'_>, backends: &Backends, capabilities: &dyn Capabilities) -> Self {
        let layers: Vec<Option<u32>> = placed.snapshot.tensors.iter().map(|tensor| layer_of(&tensor.name)).collect();
        let mut homes: HashMap<u32, Option<BackendIndex>> = HashMap::new();
        for &node in placed.graph().nodes() {
            let Some(layer) = layers[node as usize] else { continue };
            for &weight in placed.graph().sources(node).iter().filter(|&&source| placed.is_weight(source)) {
                let memory = placed.root_memory(weight);
                let home = memory.and_then(|memory| home(backends, capabilities, memory.buffer_type));
                let of_layer = homes.entry(layer).or_insert(home);
                *of_layer = of_layer.filter(|_| *of_layer == home);
            }
        }
        let of_layer = |layer: Option<u32>| layer.and_then(|layer| homes.get(&layer).copied().flatten());
        let on_gpu = |backend: &BackendIndex| *backend != backends.host();
        Self { by_tensor: layers.into_iter().map(|layer| of_layer(layer).filter(on_gpu)).collect() }
    }

    fn of(&self, tensor: TensorId) -> Option<BackendIndex> {
        self.by_tensor.get(tensor as usize).copied().flatten()
    }
}

/// Places each node by PowerInfer's rule. A result resides in its destination class. Its operation runs on the GPU if
/// that class is a GPU, if operand 0 is not on the host, or if operand 1 is on a GPU; a sparse product looks at operand 0
/// alone. Logits reside on the host. So an operation can run on the GPU while its result resides on the host.
///
/// Logits are the result named "result_output", or the last node where none is. A result that is in memory from the
/// start resides and runs there. Where a backend does not support an operation, the host does it. Copies between
/// backends follow as with ggml's scheduler, which keeps a copy for all nodes of a backend that use it; PowerInfer's own
/// pool frees it after each. Assignments by the program are for the scheduler alone.
///
/// # Errors
/// [`OffloadError`] where no backend supports an operation, where a class is not a backend, and where the lists of
/// `placed` do not fit together.
pub fn powerinfer(
    placed: PlacedGraph<'_>,
    backends: &Backends,
    capabilities: &dyn Capabilities,
    classes: &DestinationClasses,
) -> Result<Schedule, OffloadError> {
    placed.check(backends)?;
    check_classes(placed, backends, classes)?;
    let questions = Questions { backends, capabilities, options: SchedulerOptions::default() };
    let mut draft = Draft::new(placed);
    place_constants(&mut draft, questions)?;
    let logits = logits(placed);
    for &node in placed.graph().nodes() {
        let root = placed.graph().root(node);
        let home = draft.resides[root as usize];
        let resides = match home {
            Some(home) => home,
            None if logits == Some(node) => backends.host(),
            None => classes.of(node).unwrap_or_else(|| backends.host()),
        };
        draft.resides[node as usize] = Some(resides);
        let executes = match home {
            Some(home) => home,
            None => runs_on(&draft, backends.host(), node, resides),
        };
        let is_view = draft.is_view_operation(node);
        let executes = if is_view { resides } else { supporting(&draft, questions, node, executes)? };
        draft.executes[node as usize] = Some(executes);
    }
    split_with_staged(draft, questions)
}

/// Returns the backend that runs an operation whose result resides on `resides`.
fn runs_on(draft: &Draft<'_>, host: BackendIndex, node: TensorId, resides: BackendIndex) -> BackendIndex {
    let sources = draft.edit.sources(node);
    let gpu_of = |position: usize| {
        let source = sources.get(position).filter(|&&source| source != node);
        source.and_then(|&source| draft.resides[source as usize]).filter(|&home| home != host)
    };
    if SPARSE_PRODUCTS.contains(&draft.placed.op(node)) {
        return gpu_of(0).unwrap_or(host);
    }
    let destination = Some(resides).filter(|&resides| resides != host);
    destination.or_else(|| gpu_of(0)).or_else(|| gpu_of(1)).unwrap_or(host)
}

/// Returns the node with the logits.
fn logits(placed: PlacedGraph<'_>) -> Option<TensorId> {
    let nodes = placed.graph().nodes();
    let named = nodes.iter().rev().find(|&&node| placed.snapshot.tensors[node as usize].name == LOGITS);
    named.or(nodes.last()).copied()
}

fn check_classes(
    placed: PlacedGraph<'_>,
    backends: &Backends,
    classes: &DestinationClasses,
) -> Result<(), OffloadError> {
    let (tensors, count) = (placed.memory.len(), backends.list.len());
    for (tensor, backend) in (0..).zip(&classes.by_tensor) {
        if let Some(backend) = *backend
            && (backend as usize >= count || tensor as usize >= tensors)
        {
            return Err(OffloadError::UnknownAssignment { tensor, backend, tensors, count });
        }
    }
    Ok(())
}

/// A rule of offload for intermediates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// [`schedule`]: what `ggml_backend_sched` does.
    Scheduler(SchedulerOptions),
    /// [`any_operand`]: on the GPU if any operand is.
    AnyOperand,
    /// [`powerinfer`]: by the class of the result and of two operands.
    PowerInfer(DestinationClasses),
}

impl Rule {
    /// Returns the name of the rule.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scheduler(_) => "scheduler",
            Self::AnyOperand => "any-operand",
            Self::PowerInfer(_) => "powerinfer",
        }
    }

    /// Places the intermediates of a graph.
    ///
    /// # Errors
    /// [`OffloadError`], as the function of the rule.
    pub fn place(
        &self,
        placed: PlacedGraph<'_>,
        backends: &Backends,
        capabilities: &dyn Capabilities,
    ) -> Result<Schedule, OffloadError> {
        match self {
            Self::Scheduler(options) => schedule(placed, backends, capabilities, *options),
            Self::AnyOperand => any_operand(placed, backends, capabilities),
            Self::PowerInfer(classes) => powerinfer(placed, backends, capabilities, classes),
        }
    }
}

/// Returns the backend that a buffer type belongs to: the first whose compute buffer has this type, otherwise the host if
/// it can use it, otherwise the first that can.
fn home(backends: &Backends, capabilities: &dyn Capabilities, buffer_type: BufferTypeIndex) -> Option<BackendIndex> {
    let can_use = |&backend: &BackendIndex| capabilities.supports_buffer_type(backend, buffer_type);
    let owner = backends.indices().find(|&backend| backends.buffer_type(backend) == buffer_type);
    owner.or_else(|| Some(backends.host()).filter(can_use)).or_else(|| backends.indices().find(can_use))
}

/// Sets where the tensors that are there before the graph runs reside: those with memory in it, the others on the host.
fn place_constants(draft: &mut Draft<'_>, questions: Questions<'_>) -> Result<(), OffloadError> {
    let Questions { backends, capabilities, .. } = questions;
    let placed = draft.placed;
    let mut is_node = vec![false; placed.memory.len()];
    placed.graph().nodes().iter().for_each(|&node| is_node[node as usize] = true);
    let ids = (0..).zip(is_node);
    for (tensor, _) in ids.filter(|&(tensor, is_node)| !is_node || placed.root_memory(tensor).is_some()) {
        let home = match placed.root_memory(tensor) {
            None => backends.host(),
            Some(memory) => home(backends, capabilities, memory.buffer_type).ok_or_else(|| {
                let buffer_type = backends.buffer_types[memory.buffer_type as usize].name.clone();
                OffloadError::CannotRunInPlace { tensor: placed.label(tensor), buffer_type }
            })?,
        };
        draft.resides[tensor as usize] = Some(home);
        draft.executes[tensor as usize] = Some(home);
    }
    Ok(())
}

/// Returns the backend that runs `node`: `wanted` if it supports the operation, otherwise the host, otherwise the first
/// that does.
fn supporting(
    draft: &Draft<'_>,
    questions: Questions<'_>,
    node: TensorId,
    wanted: BackendIndex,
) -> Result<BackendIndex, OffloadError> {
    let Questions { backends, capabilities, .. } = questions;
    let supports = |&backend: &BackendIndex| capabilities.supports_op(backend, node);
    let found = [wanted, backends.host()].into_iter().find(supports).or_else(|| backends.indices().find(supports));
    found.ok_or_else(|| OffloadError::Unsupported { tensor: draft.placed.label(node) })
}

/// Cuts the nodes of `draft` into splits after [`stage_results`].
fn split_with_staged(mut draft: Draft<'_>, questions: Questions<'_>) -> Result<Schedule, OffloadError> {
    let executes = draft.executes.clone();
    stage_results(&mut draft);
    Ok(Schedule { executes, ..split(draft, questions)? })
}

/// Stages every node that does not reside where it runs: it is computed into memory of the backend that runs it, and
/// copied from there to where it resides. Views move nothing.
fn stage_results(draft: &mut Draft<'_>) {
    let nodes = std::mem::take(&mut draft.edit.nodes);
    let mut staged = Vec::with_capacity(nodes.len());
    for node in nodes {
        let (executes, resides) = (draft.executes[node as usize], draft.resides[node as usize]);
        if let (Some(executes), Some(resides)) = (executes, resides)
            && executes != resides
            && !draft.is_view_operation(node)
        {
            let computed = draft.stage(node, executes);
            staged.extend([computed, draft.add_marker(&[computed], executes)]);
            draft.executes[node as usize] = Some(resides);
        }
        staged.push(node);
    }
    draft.edit.nodes = staged;
}
