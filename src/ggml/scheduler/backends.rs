//! The backends of a live scheduler, and which of them would compute the nodes of a graph: a second scheduler of the same backends is
//! asked, which computes nothing. The scheduler itself would take a question for a graph: it compares each with the one before.

use std::collections::HashSet;
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use crate::ggml::allocator::{Assignment, Backend};
use crate::ggml::bindings::{self, ggml_backend, ggml_backend_sched, ggml_cgraph};
use crate::ggml::live::buffers::{BufferType, DEVICE_CPU};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::graph::id_of;
use crate::graph::tiling::TileKernels;
use crate::placement::Bytes;

/// The functions of a ggml that tells its schedulers' decisions.
#[derive(Clone, Copy)]
struct Asked {
    new: bindings::ggml_backend_sched_new,
    free: bindings::ggml_backend_sched_free,
    split: bindings::ggml_backend_sched_split_graph,
    reset: bindings::ggml_backend_sched_reset,
    backend_of: bindings::ggml_backend_sched_get_tensor_backend,
    assign: bindings::ggml_backend_sched_set_tensor_backend,
}

impl Asked {
    fn of(runtime: &Runtime) -> Option<Self> {
        let functions = &runtime.functions;
        Some(Self {
            new: functions.ggml_backend_sched_new?,
            free: functions.ggml_backend_sched_free?,
            split: functions.ggml_backend_sched_split_graph?,
            reset: functions.ggml_backend_sched_reset?,
            backend_of: functions.ggml_backend_sched_get_tensor_backend?,
            assign: functions.ggml_backend_sched_set_tensor_backend?,
        })
    }
}

/// A second scheduler of the backends of one, to be asked. Freed when dropped.
pub struct Adviser {
    functions: Asked,
    scheduler: NonNull<ggml_backend_sched>,
}

impl std::fmt::Debug for Adviser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adviser").field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl Adviser {
    /// Creates the one of a scheduler that was made for `room` nodes and leafs, and that moves operations to devices if it `offloads`;
    /// `None` if this ggml has no functions for that.
    pub fn new(of: LiveScheduler, room: usize, offloads: bool) -> Option<Self> {
        let functions = Asked::of(of.runtime)?;
        let (mut backends, mut types): (Vec<_>, Vec<_>) =
            of.backends().into_iter().map(|(backend, buffer_type)| (backend, buffer_type.as_ptr())).unzip();
        let count = c_int::try_from(backends.len()).ok()?;
        // SAFETY: live backends, and a buffer type for each. Earlier versions of ggml do not read the last argument.
        let made = unsafe { (functions.new)(backends.as_mut_ptr(), types.as_mut_ptr(), count, room, false, offloads) };
        NonNull::new(made).map(|scheduler| Self { functions, scheduler })
    }
}

impl Adviser {
    /// Returns the bytes that `measure` finds for a graph on each backend, with these tensors `assigned`.
    ///
    /// # Safety
    /// `graph` is live with its tensors, is not allocated, has at most as many nodes as the scheduler is made for, and no other
    /// thread uses it.
    pub unsafe fn measured(
        &self,
        graph: NonNull<ggml_cgraph>,
        assigned: &[(TensorRef<'_>, *mut ggml_backend)],
        measure: Measure<'_>,
    ) -> Option<Vec<Bytes>> {
        for (tensor, backend) in assigned {
            // SAFETY: a live scheduler that has this backend, and a live tensor.
            unsafe { (self.functions.assign)(self.scheduler.as_ptr(), tensor.as_ptr(), *backend) };
        }
        measure(self.scheduler, graph)
    }
}

/// Measures what a scheduler needs for a graph on each backend, without allocating anything; `None` if it cannot tell. The graph is
/// as it was afterwards, and the scheduler is reset.
pub type Measure<'m> = &'m mut dyn FnMut(NonNull<ggml_backend_sched>, NonNull<ggml_cgraph>) -> Option<Vec<Bytes>>;

impl Drop for Adviser {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and used no more.
        unsafe { (self.functions.free)(self.scheduler.as_ptr()) };
    }
}

/// A live scheduler.
#[derive(Clone, Copy)]
pub struct LiveScheduler {
    runtime: &'static Runtime,
    scheduler: NonNull<ggml_backend_sched>,
}

impl LiveScheduler {
    /// # Safety
    /// `scheduler` is live and of this ggml, and no other thread uses it as long as the value is used.
    pub unsafe fn new(runtime: &'static Runtime, scheduler: NonNull<ggml_backend_sched>) -> Self {
        Self { runtime, scheduler }
    }

    /// Returns its backends in their order, with the buffer types of what they compute; none if this ggml does not tell them.
    pub fn backends(self) -> Vec<(*mut ggml_backend, BufferType)> {
        let functions = &self.runtime.functions;
        let Some((count, backend)) =
            functions.ggml_backend_sched_get_n_backends.zip(functions.ggml_backend_sched_get_backend)
        else {
            return Vec::new();
        };
        let scheduler = self.scheduler.as_ptr();
        // SAFETY: a live scheduler.
        let backends = 0..unsafe { count(scheduler) };
        let of_backend = |at| {
            // SAFETY: a live scheduler with that backend.
            let backend = unsafe { backend(scheduler, at) };
            let found = match functions.ggml_backend_sched_get_buffer_type {
                // SAFETY: a live scheduler and one of its backends.
                Some(type_of) => unsafe { type_of(scheduler, backend) },
                // SAFETY: a live backend.
                None => unsafe { (functions.ggml_backend_get_default_buffer_type)(backend) },
            };
            // SAFETY: a buffer type of this ggml, which outlives its schedulers.
            NonNull::new(found).map(|found| (backend, unsafe { BufferType::new(self.runtime, found) }))
        };
        backends.filter_map(of_backend).collect()
    }

    /// Returns which backends would compute a graph, with these tensors `assigned`, and otherwise those that the program has assigned.
    /// Nothing of the graph is changed.
    ///
    /// # Safety
    /// `graph` is live with its tensors, is not allocated, has at most as many nodes as the scheduler is made for, and no other
    /// thread uses it.
    pub unsafe fn ask(
        self,
        adviser: &Adviser,
        graph: NonNull<ggml_cgraph>,
        assigned: &[(TensorRef<'_>, *mut ggml_backend)],
    ) -> Assignment {
        let Adviser { functions, scheduler } = adviser;
        let backends = self.backends();
        // SAFETY: live, as the caller guarantees.
        let live = unsafe { GraphRef::new(graph) };
        let given = BeforeSplit::of(live);
        for (tensor, backend) in assigned {
            // SAFETY: a live scheduler that has this backend, and a live tensor.
            unsafe { (functions.assign)(scheduler.as_ptr(), tensor.as_ptr(), *backend) };
        }
        let listed = || live.leafs.iter().chain(&given.nodes).copied();
        for tensor in listed().filter(|_| assigned.is_empty()) {
            // SAFETY: a live scheduler, and a live tensor.
            let backend = unsafe { (functions.backend_of)(self.scheduler.as_ptr(), tensor.as_ptr()) };
            if !backend.is_null() {
                // SAFETY: a live scheduler that has this backend, and a live tensor.
                unsafe { (functions.assign)(scheduler.as_ptr(), tensor.as_ptr(), backend) };
            }
        }
        // SAFETY: a live scheduler and a live graph that has room in it.
        unsafe { (functions.split)(scheduler.as_ptr(), graph.as_ptr()) };
        let mut assignment = Assignment::new(self.described(&backends));
        for tensor in listed() {
            // SAFETY: a live scheduler, and a live tensor.
            let backend = unsafe { (functions.backend_of)(scheduler.as_ptr(), tensor.as_ptr()) };
            if let Some(at) = backends.iter().position(|(known, _)| *known == backend) {
                assignment.assign(tensor, at);
            }
        }
        // SAFETY: live, with these nodes, whose list is not used any more.
        for (copy, node) in unsafe { given.restore(graph) } {
            let Some(at) = assignment.of(node) else { continue };
            let bytes = self.runtime.nbytes(copy).saturating_mul(self.copies_of_each());
            let backend = &mut assignment.backends[at];
            backend.copies = backend.copies.saturating_add(bytes);
        }
        // SAFETY: a live scheduler in which no graph is allocated.
        unsafe { (functions.reset)(scheduler.as_ptr()) };
        assignment
    }

    /// Assigns tensors of a graph that is about to be reserved or allocated.
    pub fn assign<'g>(self, tensors: impl IntoIterator<Item = (TensorRef<'g>, *mut ggml_backend)>) {
        let Some(asked) = Asked::of(self.runtime) else { return };
        for (tensor, backend) in tensors {
            // SAFETY: a live scheduler with that backend, and a live tensor.
            unsafe { (asked.assign)(self.scheduler.as_ptr(), tensor.as_ptr(), backend) };
        }
    }

    /// Returns what passes need to know of these backends.
    fn described(self, backends: &[(*mut ggml_backend, BufferType)]) -> Vec<Backend> {
        let mut types: Vec<BufferType> = Vec::new();
        let describe = |&(backend, buffer_type): &(*mut ggml_backend, BufferType)| {
            let known = types.iter().position(|known| *known == buffer_type);
            let buffer = known.unwrap_or_else(|| {
                types.push(buffer_type);
                types.len() - 1
            });
            // The CPU computes in host memory of devices too, and BLAS in the memory of the CPU.
            let of_device = || buffer_type.tile_kernels().filter(|kernels| *kernels != TileKernels::Cpu);
            let tiles = if self.is_cpu(backend) { Some(TileKernels::Cpu) } else { of_device() };
            Backend { name: self.name(backend), buffer: id_of(buffer), tiles, copies: 0 }
        };
        backends.iter().map(describe).collect()
    }

    /// Returns the name of a backend that ggml's messages use.
    fn name(self, backend: *mut ggml_backend) -> String {
        let name = self.runtime.functions.ggml_backend_name;
        // SAFETY: a live backend.
        let name = name.map_or(std::ptr::null(), |name| unsafe { name(backend) });
        if name.is_null() {
            return String::new();
        }
        // SAFETY: names end in NUL, and live as long as their backend.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// Returns `true` for ggml's CPU backend, which is the only one of a device of that kind: BLAS is an accelerator.
    fn is_cpu(self, backend: *mut ggml_backend) -> bool {
        let functions = &self.runtime.functions;
        let Some((device, kind)) = functions.ggml_backend_get_device.zip(functions.ggml_backend_dev_type) else {
            return false;
        };
        // SAFETY: a live backend.
        let device = unsafe { device(backend) };
        // SAFETY: a device of this ggml.
        !device.is_null() && unsafe { kind(device) } == DEVICE_CPU
    }

    /// Returns how many copies the scheduler makes of each input, for runs that overlap.
    fn copies_of_each(self) -> Bytes {
        let count = self.runtime.functions.ggml_backend_sched_get_n_copies;
        // SAFETY: a live scheduler.
        count.map_or(1, |count| Bytes::try_from(unsafe { count(self.scheduler.as_ptr()) }).unwrap_or(1))
    }
}

/// The nodes of a graph with their sources, before a scheduler splits it: where a source is on another backend, a copy takes its place,
/// and backends may put the nodes into another order.
pub struct BeforeSplit<'g> {
    nodes: Vec<TensorRef<'g>>,
    sources: Vec<[Option<TensorRef<'g>>; MAX_SOURCES]>,
}

impl<'g> BeforeSplit<'g> {
    /// Notes them.
    pub fn of(live: GraphRef<'g>) -> Self {
        let sources = live.nodes.iter().map(|node| *node.source_slots()).collect();
        Self { nodes: live.nodes.to_vec(), sources }
    }

    /// Restores them. Returns the copies that took the places of sources, each once, with a node that reads it.
    ///
    /// # Safety
    /// `graph` is the live graph with these nodes, no other thread uses it, and no [`GraphRef`] of it is used afterwards.
    pub unsafe fn restore(self, graph: NonNull<ggml_cgraph>) -> impl Iterator<Item = (TensorRef<'g>, TensorRef<'g>)> {
        // SAFETY: live, with these nodes, as the caller guarantees.
        unsafe { GraphRef::set_nodes(graph, &self.nodes) };
        let (mut copies, mut seen) = (Vec::new(), HashSet::new());
        for (&node, own) in self.nodes.iter().zip(&self.sources) {
            for (slot, source) in own.iter().enumerate() {
                let (Some(own), Some(copy)) = (source, node.source(slot)) else { continue };
                if copy != *own {
                    if seen.insert(copy.address()) {
                        copies.push((copy, node));
                    }
                    // SAFETY: no reference into the tensor is held.
                    unsafe { TensorMut::new(node) }.set_source(slot, *own);
                }
            }
        }
        copies.into_iter()
    }
}
