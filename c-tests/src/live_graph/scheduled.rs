//! Live graphs through a real `ggml_backend_sched`, on backends whose capabilities a test sets.

use std::collections::HashMap;
use std::ffi::{CStr, c_int};

use lastuse::ffi::{ggml_backend_buffer_type, ggml_cgraph, ggml_tensor};
use lastuse::graph::TensorId;
use lastuse::offload::rules::{BackendIndex, Backends, PlacedGraph, SchedulerOptions, Usage};
use lastuse::placement::Bytes;

use super::loaded::{Api, FakeBackends, FakeSchedulers, FakeSetup};
use super::{Allocators, LiveGraph};

/// Capabilities of the backends. Tables have the entries of the first backend, then those of the next.
#[derive(Clone, Debug, Default)]
pub struct BackendTables {
    /// By backend and buffer type.
    pub supports_types: Vec<bool>,
    /// By backend and tensor.
    pub supports_ops: Vec<bool>,
    /// By backend and tensor.
    pub offloads_ops: Vec<bool>,
    /// By buffer type, whether products and leafs take 96 bytes more where rows are not a multiple of 4 elements.
    pub pads_rows: Vec<bool>,
    /// Whether backends change the order of nodes, see `fake_backends.c`.
    pub optimizes: bool,
}

/// A tensor in the graph that a scheduler made, addresses as numbers.
#[derive(Clone, Debug)]
pub struct SeenTensor {
    /// Its own address.
    pub address: usize,
    /// Its id, if it is of the graph that was scheduled.
    pub original: Option<TensorId>,
    /// ggml's name of it.
    pub name: String,
    /// ggml's number of its operation; 0 for none.
    pub op: u32,
    /// ggml's flags.
    pub flags: u32,
    /// Extents and strides.
    pub layout: ([i64; 4], [usize; 4]),
    /// The root of a view, and the bytes from its start.
    pub view: Option<(usize, usize)>,
    /// The sources.
    pub sources: Vec<usize>,
    /// The backend whose buffer is requested; -1 for none.
    pub backend: i32,
}

/// The decisions of a real scheduler.
#[derive(Clone, Debug)]
pub struct RealSchedule {
    /// By tensor.
    pub backends: Vec<Option<BackendIndex>>,
    /// The number of splits.
    pub splits: usize,
    /// The number of copies for pipelines.
    pub copies: u32,
    /// The node list that the allocator gets.
    pub nodes: Vec<SeenTensor>,
    /// The leaf list that the allocator gets.
    pub leafs: Vec<SeenTensor>,
    /// By backend, the bytes that ggml's own allocator reserves for that graph.
    pub ggml_bytes: Vec<Bytes>,
    /// By backend, the bytes that lastuse reserves.
    pub lastuse_bytes: Vec<Bytes>,
}

/// A `ggml_backend_sched` on fake backends.
#[derive(Debug)]
pub struct RealScheduler {
    allocators: &'static Allocators,
    functions: FakeSchedulers,
    raw: *mut FakeBackends,
    n_backends: usize,
    /// Refers to tables, which live as long.
    _tables: Tables,
}

/// The tables of a [`FakeSetup`].
#[derive(Debug)]
struct Tables {
    alignments: Vec<usize>,
    is_host: Vec<u8>,
    pads_rows: Vec<u8>,
    backend_types: Vec<c_int>,
    supports_types: Vec<u8>,
    supports_ops: Vec<u8>,
    offloads_ops: Vec<u8>,
}

fn int(number: usize) -> c_int {
    c_int::try_from(number).expect("small numbers")
}

fn index(number: u32) -> c_int {
    c_int::try_from(number).expect("small numbers")
}

fn bytes(flags: &[bool]) -> Vec<u8> {
    flags.iter().map(|&flag| u8::from(flag)).collect()
}

impl RealScheduler {
    /// Makes a scheduler for one graph. `allocators` are those of [`Allocators::open_with_fake_backends`]. Of `options`,
    /// the version is not used, and more than one copy is ggml's maximum.
    pub fn new(
        allocators: &'static Allocators,
        backends: &Backends,
        tables: &BackendTables,
        options: &SchedulerOptions,
        graph: &LiveGraph,
    ) -> Self {
        let functions = allocators.fake_schedulers.expect("the allocators were opened with fake backends");
        let types = &backends.buffer_types;
        let kept = Tables {
            alignments: types.iter().map(|kind| usize::try_from(kind.buffer.alignment).unwrap_or(1)).collect(),
            is_host: types.iter().map(|kind| u8::from(kind.is_host)).collect(),
            pads_rows: bytes(&tables.pads_rows),
            backend_types: backends.list.iter().map(|backend| index(backend.buffer_type)).collect(),
            supports_types: bytes(&tables.supports_types),
            supports_ops: bytes(&tables.supports_ops),
            offloads_ops: bytes(&tables.offloads_ops),
        };
        let (n_types, n_backends, n_tensors) = (types.len(), backends.list.len(), graph.tensors.len());
        assert_eq!(kept.pads_rows.len(), n_types);
        assert_eq!(kept.supports_types.len(), n_backends * n_types);
        assert_eq!([kept.supports_ops.len(), kept.offloads_ops.len()], [n_backends * n_tensors; 2]);
        let setup = FakeSetup {
            n_types: int(n_types),
            n_backends: int(n_backends),
            n_tensors: int(n_tensors),
            alignments: kept.alignments.as_ptr(),
            is_host: kept.is_host.as_ptr(),
            pads_rows: kept.pads_rows.as_ptr(),
            backend_types: kept.backend_types.as_ptr(),
            supports_types: kept.supports_types.as_ptr(),
            supports_ops: kept.supports_ops.as_ptr(),
            offloads_ops: kept.offloads_ops.as_ptr(),
            op_offload: options.op_offload,
            parallel: options.copies > 1,
            current_copy: index(options.current_copy),
            optimizes: tables.optimizes,
        };
        // SAFETY: tables of the lengths that the setup states, which the scheduler does not outlive, and live tensors.
        let raw = unsafe { (functions.new)(&raw const setup, graph.tensors.as_ptr()) };
        Self { allocators, functions, raw, n_backends, _tables: kept }
    }

    /// Schedules a graph, which is changed by it and cannot be scheduled again. `None` when the scheduler fails before
    /// it allocates; where ggml aborts, so does this.
    pub fn schedule(&mut self, placed: PlacedGraph<'_>, graph: &mut LiveGraph) -> Option<RealSchedule> {
        self.place(placed, graph);
        for &(tensor, backend) in placed.assigned {
            // SAFETY: a live scheduler, and a live tensor of its graph.
            unsafe { (self.functions.assign)(self.raw, graph.tensors[tensor as usize], index(backend)) };
        }
        // SAFETY: a live scheduler and a live graph, used by nothing else.
        if !unsafe { (self.functions.schedule)(self.raw, graph.graph) } {
            return None;
        }
        let ids: HashMap<usize, TensorId> = graph.tensors.iter().map(|tensor| tensor.addr()).zip(0..).collect();
        // SAFETY: a live scheduler that has scheduled a graph.
        let seen = unsafe { (self.functions.graph)(self.raw) };
        // SAFETY: as above.
        let node_ids = unsafe { (self.functions.node_ids)(self.raw) };
        // SAFETY: as above.
        let leaf_ids = unsafe { (self.functions.leaf_ids)(self.raw) };
        // SAFETY: the graph that the scheduler made, which it keeps.
        let &ggml_cgraph { nodes, n_nodes, leafs, n_leafs, .. } = unsafe { &*seen };
        // SAFETY: the lists of that graph with an id for each entry.
        let nodes = unsafe { seen_list(nodes, node_ids, n_nodes, &ids) };
        // SAFETY: as above.
        let leafs = unsafe { seen_list(leafs, leaf_ids, n_leafs, &ids) };
        // SAFETY: a live scheduler.
        let splits = unsafe { (self.functions.splits)(self.raw) };
        // SAFETY: as above.
        let copies = unsafe { (self.functions.copies)(self.raw) };
        let backend = |&tensor: &*mut ggml_tensor| {
            // SAFETY: a live scheduler and a live tensor of its graph.
            u32::try_from(unsafe { (self.functions.backend)(self.raw, tensor) }).ok()
        };
        let backends = graph.tensors.iter().map(backend).collect();
        let reserved = |api: Api| self.reserved(api, seen, node_ids, leaf_ids);
        Some(RealSchedule {
            backends,
            splits: usize::try_from(splits).unwrap_or(0),
            copies: u32::try_from(copies).unwrap_or(0),
            nodes,
            leafs,
            ggml_bytes: reserved(self.allocators.upstream)?,
            lastuse_bytes: reserved(self.allocators.lastuse)?,
        })
    }

    /// Puts tensors into buffers.
    fn place(&self, placed: PlacedGraph<'_>, graph: &LiveGraph) {
        for (&tensor, id) in graph.tensors.iter().zip(0..) {
            let offset = placed.graph().tensor(id).view.map_or(0, |view| view.offset);
            if let Some(memory) = placed.memory[id as usize] {
                let is_weight = memory.usage == Usage::Weights;
                // SAFETY: a live scheduler and a live tensor.
                unsafe { (self.functions.place)(self.raw, tensor, index(memory.buffer_type), is_weight) };
            }
            // A view of a tensor with memory knows its address.
            if let Some(memory) = placed.graph().tensor(id).view.and_then(|view| placed.memory[view.root as usize]) {
                let is_placed = placed.memory[id as usize].is_some();
                // SAFETY: a live tensor.
                let before = unsafe { (*tensor).buffer };
                // SAFETY: a live scheduler and a live tensor.
                unsafe { (self.functions.place)(self.raw, tensor, index(memory.buffer_type), false) };
                // SAFETY: a live tensor.
                let base = unsafe { (*tensor).data };
                let data = base.cast::<u8>().wrapping_add(usize::try_from(offset).unwrap_or(0)).cast();
                // SAFETY: a live tensor.
                unsafe { (*tensor).data = data };
                let buffer = if is_placed { before } else { std::ptr::null_mut() };
                // SAFETY: a live tensor.
                unsafe { (*tensor).buffer = buffer };
            }
        }
    }

    /// Reserves memory for the scheduled graph, and returns the bytes by backend.
    fn reserved(
        &self,
        api: Api,
        graph: *mut ggml_cgraph,
        node_ids: *const c_int,
        leaf_ids: *const c_int,
    ) -> Option<Vec<Bytes>> {
        let buffer_type = |backend: usize| -> *mut ggml_backend_buffer_type {
            // SAFETY: a live scheduler with this backend.
            unsafe { (self.functions.buffer_type)(self.raw, int(backend)) }
        };
        let mut types: Vec<_> = (0..self.n_backends).map(buffer_type).collect();
        // SAFETY: live buffer types.
        let gallocr = unsafe { (api.gallocr_new_n)(types.as_mut_ptr(), int(self.n_backends)) };
        // SAFETY: a live graph with an id for each node and leaf.
        let done = unsafe { (api.reserve_n)(gallocr, graph, node_ids, leaf_ids) };
        let size = |backend: usize| -> Bytes {
            // SAFETY: a live allocator with a buffer for each backend.
            unsafe { (api.get_buffer_size)(gallocr, int(backend)) as Bytes }
        };
        let bytes = (0..self.n_backends).map(size).collect();
        // SAFETY: made above.
        unsafe { (api.gallocr_free)(gallocr) };
        done.then_some(bytes)
    }
}

impl Drop for RealScheduler {
    fn drop(&mut self) {
        // SAFETY: made by this library, and used by nothing else.
        unsafe { (self.functions.free)(self.raw) };
    }
}

/// Reads a list of a graph.
///
/// # Safety
/// `tensors` and `backends` have `count` entries each, and the tensors are live.
unsafe fn seen_list(
    tensors: *mut *mut ggml_tensor,
    backends: *const c_int,
    count: c_int,
    ids: &HashMap<usize, TensorId>,
) -> Vec<SeenTensor> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the array has `count` entries, as the caller guarantees.
    let tensors = unsafe { std::slice::from_raw_parts(tensors, count) };
    // SAFETY: the array has `count` entries, as the caller guarantees.
    let backends = unsafe { std::slice::from_raw_parts(backends, count) };
    let seen = |(&tensor, &backend): (&*mut ggml_tensor, &c_int)| {
        // SAFETY: the tensors are live, as the caller guarantees.
        let fields = unsafe { &*tensor };
        // SAFETY: names end in NUL.
        let name = unsafe { CStr::from_ptr(fields.name.as_ptr()) };
        SeenTensor {
            address: tensor.addr(),
            original: ids.get(&tensor.addr()).copied(),
            name: name.to_string_lossy().into_owned(),
            op: fields.op,
            flags: fields.flags.cast_unsigned(),
            layout: (fields.ne, fields.nb),
            view: (!fields.view_src.is_null()).then(|| (fields.view_src.addr(), fields.view_offs)),
            sources: fields.src.iter().filter(|source| !source.is_null()).map(|source| source.addr()).collect(),
            backend,
        }
    };
    tensors.iter().zip(backends).map(seen).collect()
}
