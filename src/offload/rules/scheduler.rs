//! ggml's rule: the decisions of `ggml_backend_sched`, reproduced.
//!
//! Backends are assigned in four passes; [`split`] is the fifth and the sixth. Each pass keeps what earlier ones, and
//! the program, have assigned, except for the third.

use crate::graph::{Flags, Op, TensorId};

use super::backends::{Backend, BackendIndex, Backends, BufferTypeIndex, Capabilities};
use super::offload_error::OffloadError;
use super::options::SchedulerOptions;
use super::placed_graph::PlacedGraph;
use super::scheduled_graph::{Draft, Schedule};
use super::splits::{Questions, split};

/// Places every tensor of a graph as `ggml_backend_sched_split_graph` does: equal backends, splits, copies and lists for
/// the allocator.
///
/// The scheduler is assumed to be reset before the program assigns tensors, as llama.cpp does it.
///
/// # Errors
/// [`OffloadError`] where ggml aborts, and where the lists of `placed` do not fit together.
pub fn schedule(
    placed: PlacedGraph<'_>,
    backends: &Backends,
    capabilities: &dyn Capabilities,
    options: SchedulerOptions,
) -> Result<Schedule, OffloadError> {
    placed.check(backends)?;
    options.check()?;
    check_own_types(backends, capabilities)?;
    let questions = Questions { backends, capabilities, options };
    let mut draft = Draft::new(placed);
    for &(tensor, backend) in placed.assigned {
        draft.resides[tensor as usize] = Some(backend);
    }
    assign_from_memory(&mut draft, questions)?;
    expand_assigned(&mut draft, questions);
    upgrade(&mut draft, questions);
    assign_remaining(&mut draft, questions)?;
    draft.executes.clone_from(&draft.resides);
    split(draft, questions)
}

fn check_own_types(backends: &Backends, capabilities: &dyn Capabilities) -> Result<(), OffloadError> {
    let cannot_use_own =
        |&(backend, list): &(u32, &Backend)| !capabilities.supports_buffer_type(backend, list.buffer_type);
    match (0..).zip(&backends.list).find(cannot_use_own) {
        Some((_, Backend { name, buffer_type })) => Err(OffloadError::OwnBufferType {
            backend: name.clone(),
            buffer_type: backends.buffer_types[*buffer_type as usize].name.clone(),
        }),
        None => Ok(()),
    }
}

/// The first pass: assigns leafs, then nodes, by memory that is there already.
fn assign_from_memory(draft: &mut Draft<'_>, questions: Questions<'_>) -> Result<(), OffloadError> {
    let graph = draft.placed.graph();
    for &tensor in graph.leafs().iter().chain(graph.nodes()) {
        if draft.resides[tensor as usize].is_none() {
            draft.resides[tensor as usize] = backend_of(draft, questions, tensor)?;
        }
    }
    Ok(())
}

/// Returns the backend of a tensor with memory, of an input of the program, or of an operation on a weight.
fn backend_of(
    draft: &Draft<'_>,
    questions: Questions<'_>,
    tensor: TensorId,
) -> Result<Option<BackendIndex>, OffloadError> {
    if let Some(memory) = draft.placed.root_memory(tensor) {
        let backend = first_that_can(questions, memory.buffer_type, tensor);
        let buffer_type = || questions.backends.buffer_types[memory.buffer_type as usize].name.clone();
        let cannot_run =
            || OffloadError::CannotRunInPlace { tensor: draft.placed.label(tensor), buffer_type: buffer_type() };
        return backend.ok_or_else(cannot_run).map(Some);
    }
    if draft.edit.tensor(tensor).flags.has(Flags::INPUT) {
        return Ok(Some(questions.backends.host()));
    }
    let ignores_weights = match draft.placed.graph().tensor(tensor).op {
        Op::Rope => true,
        Op::FlashAttnExt => questions.options.version.attention_ignores_weights,
        _ => false,
    };
    let mut sources = draft.edit.sources(tensor).iter();
    let weight = sources.find(|&&source| !ignores_weights && draft.is_weight(source));
    Ok(weight.and_then(|&weight| backend_of_weight(draft, questions, tensor, weight)))
}

/// Returns the first backend that can use a buffer type and supports the operation of `tensor`.
fn first_that_can(questions: Questions<'_>, buffer_type: BufferTypeIndex, tensor: TensorId) -> Option<BackendIndex> {
    let Questions { backends, capabilities, .. } = questions;
    backends.indices().find(|&backend| {
        capabilities.supports_buffer_type(backend, buffer_type) && capabilities.supports_op(backend, tensor)
    })
}

/// Returns the backend of the first weight of a node, or one that wants to run the node although its weight is on the
/// host.
fn backend_of_weight(
    draft: &Draft<'_>,
    questions: Questions<'_>,
    node: TensorId,
    weight: TensorId,
) -> Option<BackendIndex> {
    let Questions { backends, capabilities, options } = questions;
    let buffer_type = draft.placed.root_memory(weight)?.buffer_type;
    let own_type = draft.placed.memory[weight as usize]?.buffer_type;
    let backend = first_that_can(questions, buffer_type, node)?;
    let is_on_host = backend == backends.host() && backends.buffer_types[own_type as usize].is_host;
    let offloads =
        |&other: &BackendIndex| capabilities.supports_op(other, node) && capabilities.offloads_op(other, node);
    let offloading = (options.op_offload && is_on_host).then(|| (0..backend).find(offloads)).flatten();
    Some(offloading.unwrap_or(backend))
}

/// The second pass: assigned backends expand over the nodes next to them, as far as they support them.
///
/// All backends but the host expand down and up, then all down and up, so that nodes are on the host only where weights are,
/// or where no other backend is near.
fn expand_assigned(draft: &mut Draft<'_>, questions: Questions<'_>) {
    let down = draft.edit.nodes.clone();
    let up: Vec<TensorId> = down.iter().rev().copied().collect();
    let host = questions.backends.host();
    for order in [&down, &up] {
        expand(draft, questions, order, |backend| backend != host);
    }
    for order in [&down, &up] {
        expand(draft, questions, order, |_| true);
    }
}

/// Expands the backends that `expands` accepts over unassigned nodes in this order; the others end an expansion.
fn expand(draft: &mut Draft<'_>, questions: Questions<'_>, order: &[TensorId], expands: impl Fn(BackendIndex) -> bool) {
    let mut current = None;
    for &node in order {
        if draft.is_view_operation(node) {
            continue;
        }
        match draft.resides[node as usize] {
            Some(backend) => current = Some(backend).filter(|&backend| expands(backend)),
            None => {
                let supported = |&backend: &BackendIndex| questions.capabilities.supports_op(backend, node);
                draft.resides[node as usize] = current.filter(supported);
            }
        }
    }
}

/// The third pass: a backend of a higher priority where it has the same memory, and backends for the nodes that no
/// expansion could assign.
fn upgrade(draft: &mut Draft<'_>, questions: Questions<'_>) {
    for position in 0..draft.edit.nodes.len() {
        let node = draft.edit.nodes[position];
        if draft.is_view_operation(node) {
            continue;
        }
        match draft.resides[node as usize] {
            Some(backend) => draft.resides[node as usize] = Some(upgraded(draft, questions, node, backend)),
            None => assign_by_sources(draft, questions, node),
        }
    }
}

/// Returns the first backend with the buffer type of `backend` that supports a node and can use all of its sources:
/// several backends may compute in the memory of the host.
fn upgraded(draft: &Draft<'_>, questions: Questions<'_>, node: TensorId, backend: BackendIndex) -> BackendIndex {
    let Questions { backends, capabilities, .. } = questions;
    let is_better = |&other: &BackendIndex| {
        backends.buffer_type(other) == backends.buffer_type(backend)
            && capabilities.supports_op(other, node)
            && draft.edit.sources(node).iter().all(|&source| questions.can_use(draft, source, other))
    };
    (0..backend).find(is_better).unwrap_or(backend)
}

/// Assigns the backend that supports a node and can use the most of its sources; the first of equal ones. A node that is
/// a source of itself, as a cast is, is where the best backend so far is.
fn assign_by_sources(draft: &mut Draft<'_>, questions: Questions<'_>, node: TensorId) {
    let Questions { backends, capabilities, .. } = questions;
    let mut most = None;
    for backend in backends.indices().filter(|&backend| capabilities.supports_op(backend, node)) {
        let count = usable_sources(draft, questions, node, backend);
        if most.is_none_or(|most| count > most) {
            most = Some(count);
            draft.resides[node as usize] = Some(backend);
        }
    }
}

/// Returns how many sources of a node are in memory that `backend` can use, as far as they are assigned.
fn usable_sources(draft: &Draft<'_>, questions: Questions<'_>, node: TensorId, backend: BackendIndex) -> usize {
    let is_assigned = |source: TensorId| {
        draft.resides[source as usize].is_some() || draft.resides[draft.edit.root(source) as usize].is_some()
    };
    let sources = draft.edit.sources(node).iter();
    sources.filter(|&&source| is_assigned(source) && questions.can_use(draft, source, backend)).count()
}

/// The fourth pass: views are where their roots are, constants where they are used first, and nodes that are left on the first
/// backend that supports them.
fn assign_remaining(draft: &mut Draft<'_>, questions: Questions<'_>) -> Result<(), OffloadError> {
    for position in 0..draft.edit.nodes.len() {
        let node = draft.edit.nodes[position];
        let root = root_of_view(draft, node);
        let mut backend = draft.resides[node as usize].or(root);
        draft.resides[node as usize] = backend;
        for slot in 0..draft.edit.sources(node).len() {
            let source = draft.edit.sources(node)[slot];
            if draft.resides[source as usize].is_none() {
                let is_view = draft.edit.tensor(source).view.is_some();
                let assigned = if is_view { root_of_view(draft, source) } else { backend };
                draft.resides[source as usize] = assigned;
            }
        }
        // A node can be a source of itself.
        backend = draft.resides[node as usize];
        if backend.is_none() {
            let mut backends = questions.backends.indices();
            backend = backends.find(|&backend| questions.capabilities.supports_op(backend, node));
        }
        if backend.is_none() {
            return Err(OffloadError::Unsupported { tensor: draft.placed.label(node) });
        }
        draft.resides[node as usize] = backend;
    }
    Ok(())
}

/// Returns the backend of the root of a view; `None` if it is not a view.
fn root_of_view(draft: &Draft<'_>, tensor: TensorId) -> Option<BackendIndex> {
    draft.edit.tensor(tensor).view.and_then(|view| draft.resides[view.root as usize])
}
