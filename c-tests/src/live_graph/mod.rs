//! A graph from a file as a live `ggml_cgraph`, for both allocators to plan in one process.

mod enums;
mod gallocr;
mod limited;
mod loaded;
mod scheduled;

use std::ffi::c_void;

use lastuse::ffi::{ggml_backend_buffer, ggml_cgraph, ggml_context, ggml_tensor};
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{Flags, TensorId};
use lastuse::placement::{Bytes, Offset};

use crate::Result;
use loaded::{Ggml, InitParams};

pub use gallocr::Gallocr;
pub use loaded::Allocators;
pub use scheduled::{BackendTables, RealSchedule, RealScheduler, SeenTensor};

/// A live graph in its own context. Nothing in it is ever computed.
#[derive(Debug)]
pub struct LiveGraph {
    context: Context,
    graph: *mut ggml_cgraph,
    /// By id in the snapshot.
    tensors: Vec<*mut ggml_tensor>,
    /// By id, the memory that a tensor has before it is allocated.
    outside: Vec<Memory>,
    /// True if no tensor was allocated since the last [`LiveGraph::reset`].
    fresh: bool,
}

/// The first flag bit that no version of ggml uses.
const UNKNOWN_FLAGS: u32 = 8;

/// The address of a tensor in the terms of ggml.
#[derive(Clone, Copy, Debug)]
struct Memory {
    data: *mut c_void,
    buffer: *mut ggml_backend_buffer,
}

impl Memory {
    const NONE: Self = Self { data: std::ptr::null_mut(), buffer: std::ptr::null_mut() };
}

impl LiveGraph {
    /// Builds the graph of `snapshot`. External memory gets its own buffer, as weights have one.
    ///
    /// # Errors
    /// When this ggml does not know an operation or a type, or sees a tensor otherwise than the file does.
    pub fn build(allocators: &'static Allocators, snapshot: &Snapshot) -> Result<Self> {
        let ggml = &allocators.ggml;
        let graph = &snapshot.graph;
        let size = graph.leafs().len().max(graph.nodes().len()).max(1);
        let context = Context::new(ggml, snapshot.tensors.len(), size)?;
        let ids: Vec<TensorId> = (0..).take(snapshot.tensors.len()).collect();
        let tensors: Result<Vec<*mut ggml_tensor>> = ids.iter().map(|&id| new_tensor(&context, snapshot, id)).collect();
        let tensors = tensors?;
        let outside = ids.iter().map(|&id| context.memory_before(snapshot, id)).collect();
        // SAFETY: the context has room for a graph of this size.
        let cgraph = unsafe { (ggml.functions.new_graph_custom)(context.raw, size, false) };
        let mut live = Self { context, graph: cgraph, tensors, outside, fresh: false };
        ids.iter().for_each(|&id| live.connect(snapshot, id));
        live.list(graph.leafs(), graph.nodes());
        live.reset();
        Ok(live)
    }

    /// Takes back all memory that an allocator has given, so that the graph can be allocated again.
    pub fn reset(&mut self) {
        for (&tensor, &memory) in self.tensors.iter().zip(&self.outside) {
            // SAFETY: a tensor of our context, whose fields nothing else reads meanwhile.
            unsafe { (*tensor).data = memory.data };
            // SAFETY: as above.
            unsafe { (*tensor).buffer = memory.buffer };
        }
        self.fresh = true;
    }

    /// Writes to each page of the first buffer, of `size` bytes, that the graph was allocated in.
    pub fn touch_pages(&mut self, size: Bytes) {
        assert!(!self.fresh, "the graph must be allocated");
        // SAFETY: tensors of our context.
        let buffers = self.tensors.iter().map(|&tensor| unsafe { (*tensor).buffer });
        let is_allocated = |(buffer, outside): &(*mut ggml_backend_buffer, &Memory)| *buffer != outside.buffer;
        let (buffer, _) = buffers.zip(&self.outside).find(is_allocated).expect("a tensor that was allocated");
        // SAFETY: a live buffer.
        let base = unsafe { (self.context.ggml.functions.buffer_base)(buffer) }.cast::<u8>();
        for offset in (0..usize::try_from(size).expect("it is in memory")).step_by(4096) {
            // SAFETY: in the buffer, whose size this is.
            let page = unsafe { base.add(offset) };
            // SAFETY: memory of a graph that is never computed.
            unsafe { page.write(1) };
        }
    }

    /// Makes it another graph, as far as an allocator can see: the flags of the first node that no ggml knows become a
    /// number that they never were.
    pub fn make_new(&mut self) {
        // SAFETY: the graph is ours, and nothing else uses it.
        let nodes = unsafe { (*self.graph).nodes };
        // SAFETY: every graph of these tests has a node.
        let first = unsafe { *nodes };
        // SAFETY: a tensor of our context.
        let flags = unsafe { &mut (*first).flags };
        *flags = flags.wrapping_add(1 << UNKNOWN_FLAGS);
    }

    /// Moves the last source of every tensor to the last slot, which leaves gaps before it.
    pub fn leave_gaps(&mut self) {
        for &tensor in &self.tensors {
            // SAFETY: a tensor of our context.
            let sources = unsafe { &mut (*tensor).src };
            let count = sources.iter().take_while(|source| !source.is_null()).count();
            let last = sources.len() - 1;
            if count > 0 {
                sources.swap(count - 1, last);
            }
        }
    }

    /// Flags a tensor as an output, which keeps its memory to the end: that makes another graph of this one.
    pub fn keep(&mut self, id: TensorId) {
        let tensor = self.tensors[id as usize];
        // SAFETY: a tensor of our context.
        unsafe { (*tensor).flags |= Flags::OUTPUT.0.cast_signed() };
    }

    /// Sets the sources and the view root of a tensor.
    fn connect(&mut self, snapshot: &Snapshot, id: TensorId) {
        let tensor = self.tensors[id as usize];
        // SAFETY: a tensor of our context.
        let sources = unsafe { &mut (*tensor).src };
        for (slot, &source) in sources.iter_mut().zip(snapshot.graph.sources(id)) {
            *slot = self.tensors[source as usize];
        }
        if let Some(view) = snapshot.graph.tensor(id).view {
            // SAFETY: as above.
            unsafe { (*tensor).view_src = self.tensors[view.root as usize] };
            let offset = usize::try_from(view.offset).unwrap_or(usize::MAX);
            // SAFETY: as above.
            unsafe { (*tensor).view_offs = offset };
        }
    }

    /// Fills the lists of the graph.
    fn list(&mut self, leafs: &[TensorId], nodes: &[TensorId]) {
        // SAFETY: the graph is ours, and nothing else uses it.
        let graph = unsafe { &mut *self.graph };
        for (list, count, ids) in [(graph.leafs, &mut graph.n_leafs, leafs), (graph.nodes, &mut graph.n_nodes, nodes)] {
            // SAFETY: the list has room for as many tensors as the longer of both.
            let list = unsafe { std::slice::from_raw_parts_mut(list, ids.len()) };
            for (entry, &id) in list.iter_mut().zip(ids) {
                *entry = self.tensors[id as usize];
            }
            *count = i32::try_from(ids.len()).expect("fewer than 2^31 tensors");
        }
    }

    /// By id, the bytes between the start of its buffer and a tensor that an allocator has given memory to.
    ///
    /// # Safety
    /// The buffers that the tensors lie in are valid.
    unsafe fn offsets(&self) -> Vec<Option<Offset>> {
        let offset = |(&tensor, outside): (&*mut ggml_tensor, &Memory)| {
            // SAFETY: a tensor of our context.
            let &ggml_tensor { data, buffer, .. } = unsafe { &*tensor };
            if data.is_null() || buffer.is_null() || !outside.data.is_null() {
                return None;
            }
            // SAFETY: the buffers of the tensors are valid, as the caller guarantees.
            let base = unsafe { (self.context.ggml.functions.buffer_base)(buffer) };
            Some((data.addr() - base.addr()) as Offset)
        };
        self.tensors.iter().zip(&self.outside).map(offset).collect()
    }
}

/// The tensor with this id, without sources and memory.
fn new_tensor(context: &Context, snapshot: &Snapshot, id: TensorId) -> Result<*mut ggml_tensor> {
    let Context { raw, ggml, .. } = *context;
    let (plain, layout) = (snapshot.graph.tensor(id), snapshot.graph.layout(id));
    let info = &snapshot.tensors[id as usize];
    let number = |numbers: &std::collections::HashMap<String, u32>, name: &str| {
        numbers.get(name).copied().ok_or_else(|| format!("tensor {}: this ggml does not know {name}", info.id))
    };
    let (element, op) = (number(&ggml.types, &info.element)?, number(&ggml.ops, &info.op)?);
    // SAFETY: the context has room for all tensors, and four extents are given.
    let tensor = unsafe { (ggml.functions.new_tensor)(raw, element, 4, layout.ne.as_ptr()) };
    // SAFETY: a tensor of our context, which nothing else uses.
    let fields = unsafe { &mut *tensor };
    fields.nb = layout.nb.map(|stride| usize::try_from(stride).unwrap_or(usize::MAX));
    fields.op = op;
    fields.flags = plain.flags.0.cast_signed();
    let room = fields.name.len() - 1;
    for (to, byte) in fields.name[..room].iter_mut().zip(info.name.bytes()) {
        *to = byte.cast_signed();
    }
    // SAFETY: takes any number.
    let listed = unsafe { (ggml.functions.op_can_inplace)(op) };
    if listed != plain.in_place.is_listed() {
        return Err(format!(
            "tensor {}: in this ggml {} may be computed in place, or not, unlike in the file",
            info.id, info.op
        ));
    }
    let size = context.alloc_size(tensor);
    if size != info.size {
        return Err(format!("tensor {}: ggml needs {size} bytes for it, the file has {}", info.id, info.size));
    }
    Ok(tensor)
}

/// A `ggml_context`, and a buffer for tensors that have memory before it is allocated.
#[derive(Debug)]
struct Context {
    ggml: &'static Ggml,
    raw: *mut ggml_context,
    outside: Memory,
}

impl Context {
    /// Room for `tensors` tensors and one graph of `size` nodes and leafs.
    fn new(ggml: &'static Ggml, tensors: usize, size: usize) -> Result<Self> {
        let functions = &ggml.functions;
        // SAFETY: takes nothing.
        let tensor_size = unsafe { (functions.tensor_overhead)() };
        // SAFETY: takes any size.
        let graph_size = unsafe { (functions.graph_overhead_custom)(size, false) };
        let mem_size = tensors * tensor_size + graph_size;
        // SAFETY: ggml allocates the memory by itself.
        let raw =
            unsafe { (functions.init)(InitParams { mem_size, mem_buffer: std::ptr::null_mut(), no_alloc: true }) };
        // SAFETY: takes nothing.
        let buffer_type = unsafe { (functions.cpu_buffer_type)() };
        // SAFETY: a live buffer type. Nothing is ever read from or written to this buffer.
        let buffer = unsafe { (functions.alloc_buffer)(buffer_type, tensor_size) };
        if raw.is_null() || buffer.is_null() {
            return Err(format!("not enough memory for a graph of {tensors} tensors"));
        }
        // SAFETY: a live buffer.
        let data = unsafe { (functions.buffer_base)(buffer) };
        Ok(Self { ggml, raw, outside: Memory { data, buffer } })
    }

    /// The memory that a tensor has from the start. A view of a tensor with memory knows its address before it gets a
    /// buffer, as ggml's views do.
    fn memory_before(&self, snapshot: &Snapshot, id: TensorId) -> Memory {
        let tensor = snapshot.graph.tensor(id);
        let root = snapshot.graph.tensor(snapshot.graph.root(id));
        match tensor.view {
            None if tensor.external => self.outside,
            Some(view) if root.external => {
                let offset = usize::try_from(view.offset).unwrap_or(usize::MAX);
                Memory { data: self.outside.data.cast::<u8>().wrapping_add(offset).cast(), ..Memory::NONE }
            }
            _ => Memory::NONE,
        }
    }

    /// Bytes that the CPU's buffer type requires for a tensor.
    fn alloc_size(&self, tensor: *const ggml_tensor) -> Bytes {
        // SAFETY: takes nothing.
        let buffer_type = unsafe { (self.ggml.functions.cpu_buffer_type)() };
        // SAFETY: a live buffer type and a live tensor.
        unsafe { (self.ggml.functions.alloc_size)(buffer_type, tensor) as Bytes }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the buffer is ours, and the tensors in it are no longer used.
        unsafe { (self.ggml.functions.buffer_free)(self.outside.buffer) };
        // SAFETY: the context is ours, and so is everything in it.
        unsafe { (self.ggml.functions.free)(self.raw) };
    }
}
