//! Runs parts with a scheduler.

use std::ptr::NonNull;

use crate::placement::Bytes;

use crate::ggml::STATUS_SUCCESS;
use crate::ggml::bindings::{self, ggml_backend, ggml_backend_sched};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;

use super::error::StepsError;
use super::part::LivePart;

/// Runs parts with a scheduler, which places what only a part touches in its own compute buffers.
#[derive(Debug)]
pub struct SchedulerRunner<'g> {
    runtime: &'static Runtime,
    scheduler: NonNull<ggml_backend_sched>,
    functions: SchedulerFunctions,
    /// By node of the graph, its sources: a scheduler replaces those that it copies to another backend.
    sources: Vec<[Option<TensorRef<'g>>; MAX_SOURCES]>,
    /// The nodes that the program assigned to backends, by their positions, in order.
    assigned: Vec<(usize, *mut ggml_backend)>,
}

#[derive(Clone, Copy, Debug)]
struct SchedulerFunctions {
    reset: bindings::ggml_backend_sched_reset,
    split: bindings::ggml_backend_sched_split_graph,
    allocate: bindings::ggml_backend_sched_alloc_graph,
    compute: bindings::ggml_backend_sched_graph_compute,
    count: bindings::ggml_backend_sched_get_n_backends,
    backend: bindings::ggml_backend_sched_get_backend,
    buffer_type: bindings::ggml_backend_sched_get_buffer_type,
    buffer_size: bindings::ggml_backend_sched_get_buffer_size,
    backend_of: bindings::ggml_backend_sched_get_tensor_backend,
    assign: bindings::ggml_backend_sched_set_tensor_backend,
}

impl SchedulerFunctions {
    fn of(runtime: &Runtime) -> Option<Self> {
        let functions = &runtime.functions;
        Some(Self {
            reset: functions.ggml_backend_sched_reset?,
            split: functions.ggml_backend_sched_split_graph?,
            allocate: functions.ggml_backend_sched_alloc_graph?,
            compute: functions.ggml_backend_sched_graph_compute?,
            count: functions.ggml_backend_sched_get_n_backends?,
            backend: functions.ggml_backend_sched_get_backend?,
            buffer_type: functions.ggml_backend_sched_get_buffer_type?,
            buffer_size: functions.ggml_backend_sched_get_buffer_size?,
            backend_of: functions.ggml_backend_sched_get_tensor_backend?,
            assign: functions.ggml_backend_sched_set_tensor_backend?,
        })
    }
}

impl<'g> SchedulerRunner<'g> {
    /// Creates it for `scheduler`, whose assignments of `nodes` to backends are kept.
    ///
    /// # Errors
    /// [`StepsError::Unsupported`] if this ggml lacks a function.
    pub fn new(
        runtime: &'static Runtime,
        scheduler: NonNull<ggml_backend_sched>,
        nodes: &[TensorRef<'g>],
    ) -> Result<Self, StepsError> {
        let functions = SchedulerFunctions::of(runtime).ok_or(StepsError::Unsupported)?;
        let sources = nodes.iter().map(|node| *node.source_slots()).collect();
        let mut runner = Self { runtime, scheduler, functions, sources, assigned: Vec::new() };
        let assigned = nodes.iter().enumerate().filter_map(|(at, &node)| Some((at, runner.backend_of(node)?)));
        runner.assigned = assigned.collect();
        Ok(runner)
    }

    fn as_ptr(&self) -> *mut ggml_backend_sched {
        self.scheduler.as_ptr()
    }

    /// Returns the number of backends, the first of which has the highest priority.
    fn backends(&self) -> i32 {
        // SAFETY: a live scheduler.
        unsafe { (self.functions.count)(self.as_ptr()) }
    }

    fn backend(&self, at: i32) -> *mut ggml_backend {
        // SAFETY: a live scheduler with more than `at` backends.
        unsafe { (self.functions.backend)(self.as_ptr(), at) }
    }

    fn backend_of(&self, tensor: TensorRef<'_>) -> Option<*mut ggml_backend> {
        // SAFETY: a live scheduler and a live tensor.
        let backend = unsafe { (self.functions.backend_of)(self.as_ptr(), tensor.as_ptr()) };
        (!backend.is_null()).then_some(backend)
    }

    fn type_of_backend(&self, backend: *mut ggml_backend) -> Option<BufferType> {
        // SAFETY: a live scheduler and one of its backends.
        let buffer_type = unsafe { (self.functions.buffer_type)(self.as_ptr(), backend) };
        // SAFETY: a buffer type of this ggml, which its buffers do not outlive.
        NonNull::new(buffer_type).map(|buffer_type| unsafe { BufferType::new(self.runtime, buffer_type) })
    }

    /// Returns the buffer type of the first backend, by which a graph is cut.
    ///
    /// # Errors
    /// [`StepsError::Unsupported`] if the scheduler has no backends.
    pub fn first_type(&self) -> Result<BufferType, StepsError> {
        self.type_of_backend(self.backend(0)).ok_or(StepsError::Unsupported)
    }

    /// Returns the buffer type of the last backend, where a scheduler expects inputs.
    ///
    /// # Errors
    /// [`StepsError::Unsupported`] if the scheduler has no backends.
    pub fn last_type(&self) -> Result<BufferType, StepsError> {
        self.type_of_backend(self.backend(self.backends() - 1)).ok_or(StepsError::Unsupported)
    }

    /// Returns the buffer types of the backends that compute `roots` in `part`.
    ///
    /// # Errors
    /// [`StepsError::Unsupported`] if the scheduler has no backends.
    pub fn types_of(&self, part: &mut LivePart<'_>, roots: &[TensorRef<'_>]) -> Result<Vec<BufferType>, StepsError> {
        self.reset(part);
        // SAFETY: a live scheduler, which was reset, and a part of a live graph.
        unsafe { (self.functions.split)(self.as_ptr(), part.as_ptr()) };
        let found = roots.iter().map(|&root| {
            let backend = self.backend_of(root).and_then(|backend| self.type_of_backend(backend));
            backend.map_or_else(|| self.last_type(), Ok)
        });
        let found = found.collect();
        self.end(part);
        found
    }

    /// Lets the scheduler allocate `part`; [`SchedulerRunner::end`] follows in any case. Returns the bytes of its
    /// compute buffers.
    ///
    /// # Errors
    /// [`StepsError::NotScheduled`].
    pub fn allocate(&self, step: usize, part: &mut LivePart<'_>) -> Result<Bytes, StepsError> {
        self.reset(part);
        // SAFETY: a live scheduler, which was reset, and a part of a live graph.
        let is_allocated = unsafe { (self.functions.allocate)(self.as_ptr(), part.as_ptr()) };
        if is_allocated { Ok(self.compute_size()) } else { Err(StepsError::NotScheduled { step }) }
    }

    /// Allocates and computes `part`; [`SchedulerRunner::end`] follows in any case. Returns the bytes of the compute
    /// buffers.
    ///
    /// # Errors
    /// [`StepsError::NotScheduled`] or [`StepsError::Status`].
    pub fn run(&self, step: usize, part: &mut LivePart<'_>) -> Result<Bytes, StepsError> {
        let size = self.allocate(step, part)?;
        // SAFETY: a live scheduler that has allocated this part of a live graph.
        let status = unsafe { (self.functions.compute)(self.as_ptr(), part.as_ptr()) };
        if status == STATUS_SUCCESS { Ok(size) } else { Err(StepsError::Status { step, status }) }
    }

    /// Takes the memory away that the scheduler gave to what only `part` touches, and undoes its changes to the nodes.
    pub fn end(&self, part: &LivePart<'_>) {
        // SAFETY: a live scheduler.
        unsafe { (self.functions.reset)(self.as_ptr()) };
        part.clear();
        let first = part.plan.nodes.start as usize;
        for (&node, sources) in part.nodes.iter().zip(&self.sources[first..]) {
            set_sources(node, sources);
        }
    }

    /// Resets the scheduler, and repeats the program's assignments for the nodes of `part`. Memory without a buffer is
    /// assigned to the last backend: a scheduler finds no backend for a root that only views of earlier parts refer to.
    fn reset(&self, part: &LivePart<'_>) {
        // SAFETY: a live scheduler.
        unsafe { (self.functions.reset)(self.as_ptr()) };
        let without_buffer = |tensor: &&TensorRef<'_>| tensor.view_source().is_none() && tensor.buffer().is_null();
        for tensor in part.outside.iter().filter(without_buffer) {
            self.assign(*tensor, self.backend(self.backends() - 1));
        }
        let first = part.plan.nodes.start as usize;
        let from = self.assigned.partition_point(|&(at, _)| at < first);
        for &(at, backend) in &self.assigned[from..] {
            let Some(node) = part.nodes.get(at - first) else { break };
            self.assign(*node, backend);
        }
    }

    fn assign(&self, tensor: TensorRef<'_>, backend: *mut ggml_backend) {
        // SAFETY: a live scheduler, a live tensor, and one of the scheduler's backends.
        unsafe { (self.functions.assign)(self.as_ptr(), tensor.as_ptr(), backend) };
    }

    /// Bytes of the compute buffers of all backends. Backends with the same buffer type share one.
    fn compute_size(&self) -> Bytes {
        let mut types: Vec<BufferType> = Vec::new();
        let mut bytes = 0;
        for backend in (0..self.backends()).map(|at| self.backend(at)) {
            let Some(buffer_type) = self.type_of_backend(backend) else { continue };
            if !types.contains(&buffer_type) {
                types.push(buffer_type);
                // SAFETY: a live scheduler and one of its backends.
                bytes += unsafe { (self.functions.buffer_size)(self.as_ptr(), backend) } as Bytes;
            }
        }
        bytes
    }
}

fn set_sources<'g>(node: TensorRef<'g>, sources: &[Option<TensorRef<'g>>; MAX_SOURCES]) {
    for (slot, source) in sources.iter().enumerate() {
        if node.source(slot) == *source {
            continue;
        }
        // SAFETY: no reference into the tensor is held here, nor by callers, which pass it on from a list.
        let mut writer = unsafe { TensorMut::new(node) };
        match *source {
            Some(source) => writer.set_source(slot, source),
            None => writer.clear_source(slot),
        }
    }
}
