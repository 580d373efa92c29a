//! Live tensors and graphs, read through the layout that the probe has confirmed.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::graph::LayoutRef;

use crate::ggml::bindings::{ggml_backend_buffer, ggml_cgraph, ggml_tensor};

/// The consecutive fields of a tensor that describe it, as raw words: extents, strides, operation, parameters, flags,
/// sources, and the tensor that it is a view of. Only its element type, its memory and its name are not among them.
#[derive(Debug)]
pub struct Image([u64; IMAGE_WORDS]);

/// `GGML_MAX_SRC`.
pub const MAX_SOURCES: usize = 10;

/// Most tensors have at most this many sources.
const FEW_SOURCES: usize = 3;
const _: () = assert!(size_of::<Option<TensorRef<'_>>>() == size_of::<*mut ggml_tensor>());

const IMAGE_START: usize = std::mem::offset_of!(ggml_tensor, ne);
const IMAGE_END: usize = std::mem::offset_of!(ggml_tensor, view_offs) + size_of::<usize>();
const IMAGE_WORDS: usize = (IMAGE_END - IMAGE_START) / size_of::<u64>();
const _: () = assert!(IMAGE_START + IMAGE_WORDS * size_of::<u64>() == IMAGE_END);

/// The layout of the parameters of an operation that calls a function of the program.
#[repr(C)]
struct FunctionParameters {
    function: *const c_void,
    n_tasks: std::ffi::c_int,
    userdata: *const c_void,
}

/// Start and size of the padding of [`FunctionParameters`] in an image, in bytes. ggml copies the padding from its
/// stack.
const PADDING_START: usize = std::mem::offset_of!(ggml_tensor, op_params) - IMAGE_START
    + std::mem::offset_of!(FunctionParameters, n_tasks)
    + size_of::<std::ffi::c_int>();
const PADDING_BYTES: usize = std::mem::offset_of!(FunctionParameters, userdata)
    - std::mem::offset_of!(FunctionParameters, n_tasks)
    - size_of::<std::ffi::c_int>();
const PADDING_WORD: usize = PADDING_START / size_of::<u64>();
const _: () = assert!((PADDING_START + PADDING_BYTES - 1) / size_of::<u64>() == PADDING_WORD);

impl Image {
    /// Returns the fields as words.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// Returns a copy with zero padding, for a tensor whose operation calls a function of the program.
    pub fn without_padding(&self) -> Self {
        let mut words = self.0;
        let mut bytes = words[PADDING_WORD].to_ne_bytes();
        bytes[PADDING_START % size_of::<u64>()..][..PADDING_BYTES].fill(0);
        words[PADDING_WORD] = u64::from_ne_bytes(bytes);
        Self(words)
    }
}

/// A tensor that lives at least for `'g`. Equal references are the same tensor. The memory layout is that of C's
/// pointer.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorRef<'g> {
    tensor: NonNull<ggml_tensor>,
    lives: PhantomData<&'g ggml_tensor>,
}

/// Reads one field of a tensor or a graph.
macro_rules! field {
    ($pointer:expr, $field:ident) => {{
        let object = $pointer.as_ptr();
        // SAFETY: live (see `TensorRef::new` and `GraphRef::new`), and the probe has confirmed the offset of the field.
        unsafe { (&raw const (*object).$field).read() }
    }};
}

impl<'g> TensorRef<'g> {
    /// # Safety
    /// `tensor` is null, or points to a tensor that lives for `'g` and that no other thread changes meanwhile, and so
    /// do the tensors that it refers to.
    pub unsafe fn new(tensor: *mut ggml_tensor) -> Option<Self> {
        // SAFETY: not null, so the tensor lives for `'g` unchanged, as the caller guarantees.
        NonNull::new(tensor).map(|tensor| unsafe { Self::from_non_null(tensor) })
    }

    /// # Safety
    /// `tensor` points to a tensor that lives for `'g` and that no other thread changes meanwhile, and so do the
    /// tensors that it refers to.
    pub unsafe fn from_non_null(tensor: NonNull<ggml_tensor>) -> Self {
        Self { tensor, lives: PhantomData }
    }

    /// Returns the tensor as C's pointer.
    pub fn as_ptr(self) -> *mut ggml_tensor {
        self.tensor.as_ptr()
    }

    pub(super) fn as_non_null(self) -> NonNull<ggml_tensor> {
        self.tensor
    }

    /// Returns the address of the tensor's struct, which is never 0.
    #[inline]
    pub fn address(self) -> usize {
        self.tensor.as_ptr().addr()
    }

    /// Returns ggml's number of the element type.
    pub fn element(self) -> u32 {
        field!(self.tensor, type_)
    }

    /// Returns element type, extents and strides.
    pub fn layout(self) -> LayoutRef<'g> {
        // SAFETY: the probe has confirmed the offsets of the fields, and they are not written meanwhile.
        let ne = unsafe { self.at(std::mem::offset_of!(ggml_tensor, ne)) };
        // SAFETY: as above; a stride is a `usize`, which has 64 bits wherever the probe succeeds.
        let nb = unsafe { self.at(std::mem::offset_of!(ggml_tensor, nb)) };
        LayoutRef { element: self.element(), ne, nb }
    }

    /// Returns the extents in elements.
    pub fn ne(self) -> [i64; 4] {
        field!(self.tensor, ne)
    }

    /// Returns the strides in bytes.
    pub fn nb(self) -> [usize; 4] {
        field!(self.tensor, nb)
    }

    /// Returns ggml's number of the operation.
    pub fn op(self) -> u32 {
        field!(self.tensor, op)
    }

    /// Returns the parameters of the operation.
    pub fn parameters(self) -> [i32; 16] {
        field!(self.tensor, op_params)
    }

    /// Returns ggml's flags.
    pub fn flags(self) -> u32 {
        field!(self.tensor, flags).cast_unsigned()
    }

    /// Returns the buffer that holds the tensor, or null.
    pub fn buffer(self) -> *mut ggml_backend_buffer {
        field!(self.tensor, buffer)
    }

    /// Returns the address of its data, or null.
    pub fn data(self) -> *mut c_void {
        field!(self.tensor, data)
    }

    /// Returns the offset of a view in its root, in bytes.
    pub fn view_offset(self) -> usize {
        field!(self.tensor, view_offs)
    }

    /// Returns the root of a view: the owner of its memory.
    pub fn view_source(self) -> Option<Self> {
        let source = field!(self.tensor, view_src);
        // SAFETY: a tensor refers to tensors that live as long as itself.
        unsafe { Self::new(source) }
    }

    /// Returns the sources in the order of their slots. Sources may follow an empty slot.
    #[inline]
    pub fn sources(self) -> impl Iterator<Item = Self> {
        let (first, others) = self.used_slots();
        first.iter().chain(others.unwrap_or_default()).copied().flatten()
    }

    /// Returns the first source slots, and the others unless all of those are empty, as in most tensors.
    #[inline]
    pub fn used_slots(self) -> (&'g [Option<Self>; FEW_SOURCES], Option<&'g [Option<Self>]>) {
        let slots = self.source_slots();
        let (first, others) = (slots.first_chunk().expect("there are ten slots"), &slots[FEW_SOURCES..]);
        (first, (!are_empty(others)).then_some(others))
    }

    /// Returns the source in one of the ten slots.
    pub fn source(self, slot: usize) -> Option<Self> {
        self.source_slots()[slot]
    }

    /// Returns all source slots.
    pub fn source_slots(self) -> &'g [Option<Self>; MAX_SOURCES] {
        // SAFETY: a pointer, null or not, is what an `Option<TensorRef>` is in memory, and a tensor refers to tensors
        // that live as long as itself; the slots are not written meanwhile.
        unsafe { self.at(std::mem::offset_of!(ggml_tensor, src)) }
    }

    /// Returns `true` if it has memory and neither sources nor a root, as weights do.
    #[inline]
    pub fn is_constant(self) -> bool {
        self.has_memory() && are_empty(self.source_slots()) && self.view_source().is_none()
    }

    /// Returns `true` if it has an address, or a buffer that will assign one.
    pub fn has_memory(self) -> bool {
        !self.data().is_null() || !self.buffer().is_null()
    }

    /// Returns the fields that describe the tensor.
    pub fn image(self) -> &'g Image {
        // SAFETY: these bytes lie inside the tensor, aligned as the tensor is, and any bytes are valid words; they are
        // not written meanwhile.
        unsafe { self.at(IMAGE_START) }
    }

    /// # Safety
    /// A `T` lies `offset` bytes from the start of the tensor, and is not written for `'g`.
    unsafe fn at<T>(self, offset: usize) -> &'g T {
        let part = self.tensor.as_ptr().cast::<u8>().wrapping_add(offset).cast::<T>();
        // SAFETY: a `T` that is not written for `'g` lies there, as the caller guarantees; the tensor lives for `'g`.
        unsafe { &*part }
    }

    /// Returns its name. Invalid UTF-8 is replaced by U+FFFD.
    pub fn name(self) -> String {
        self.with_name(|name| name.to_string_lossy().into_owned())
    }

    /// Calls `read` with its name, without a copy.
    pub fn with_name<T>(self, read: impl FnOnce(&CStr) -> T) -> T {
        let name = self.tensor.as_ptr().cast::<u8>().wrapping_add(std::mem::offset_of!(ggml_tensor, name));
        // SAFETY: `name` follows the last probed field in every ggml, and ends in NUL.
        read(unsafe { CStr::from_ptr(name.cast()) })
    }
}

/// Returns `true` if all slots are empty. Has no branch per slot: usually all are empty, or the first is not.
fn are_empty(slots: &[Option<TensorRef<'_>>]) -> bool {
    slots.iter().fold(0, |used, slot| used | slot.map_or(0, |it| it.as_ptr().addr())) == 0
}

/// A `ggml_cgraph` that lives at least for `'g`: its leafs and its nodes.
#[derive(Clone, Copy, Debug)]
pub struct GraphRef<'g> {
    /// Constants and inputs.
    pub leafs: &'g [TensorRef<'g>],
    /// In the order of execution.
    pub nodes: &'g [TensorRef<'g>],
}

impl<'g> GraphRef<'g> {
    /// Reads only the two lists: the other fields of the scheduler's copy of a graph are not set.
    ///
    /// # Safety
    /// `graph` points to a graph that lives for `'g`, as do its tensors (see [`TensorRef::new`]).
    pub unsafe fn new(graph: NonNull<ggml_cgraph>) -> Self {
        let (leafs, n_leafs) = (field!(graph, leafs), field!(graph, n_leafs));
        let (nodes, n_nodes) = (field!(graph, nodes), field!(graph, n_nodes));
        // SAFETY: the list holds that many pointers to live tensors.
        let leafs = unsafe { list(leafs, n_leafs) };
        // SAFETY: as above.
        let nodes = unsafe { list(nodes, n_nodes) };
        Self { leafs, nodes }
    }

    /// Returns `true` if ggml built `graph` for a program: it is neither the scheduler's copy, whose parts run on
    /// different backends, nor a view of a part of another graph.
    ///
    /// # Safety
    /// `graph` points to a live graph that no other thread changes.
    pub unsafe fn is_whole(graph: NonNull<ggml_cgraph>) -> bool {
        // Versions of ggml that do not count uses have the size of the hash set there: all have one of the two, which the
        // probe has confirmed. The scheduler leaves it 0.
        field!(graph, size) > 0 && !field!(graph, use_counts).is_null()
    }

    /// Reorders the nodes of `graph`: `nodes` is a permutation of them.
    ///
    /// # Safety
    /// The promise of [`GraphRef::new`]; the list is not read meanwhile, and no [`GraphRef`] of this graph is used
    /// afterwards.
    pub unsafe fn set_nodes(graph: NonNull<ggml_cgraph>, nodes: &[TensorRef<'_>]) {
        let (list, count) = (field!(graph, nodes), field!(graph, n_nodes));
        assert!(usize::try_from(count).unwrap_or(0) == nodes.len(), "the graph keeps all of its nodes");
        for (at, node) in nodes.iter().enumerate() {
            // SAFETY: the list holds that many pointers, and nothing else reads them.
            unsafe { list.wrapping_add(at).write(node.as_ptr()) };
        }
    }

    /// Lists `nodes`, for which there is room, as the nodes of `graph`, and only the first `leafs` of its leafs.
    ///
    /// # Safety
    /// The promise of [`GraphRef::new`]; the lists are not read meanwhile, and no [`GraphRef`] of this graph is used
    /// afterwards.
    pub unsafe fn replace_lists(graph: NonNull<ggml_cgraph>, nodes: &[TensorRef<'_>], leafs: usize) {
        // SAFETY: a live graph, as the caller guarantees.
        assert!(nodes.len() <= unsafe { Self::capacity(graph) }, "the graph has room for its nodes");
        let count = |count: usize| std::ffi::c_int::try_from(count).expect("fewer than 2^31 tensors");
        let pointer = graph.as_ptr();
        // SAFETY: a graph of this thread; the probe has confirmed the offset of the field.
        unsafe { (*pointer).n_leafs = count(leafs) };
        // SAFETY: as above.
        unsafe { (*pointer).n_nodes = count(nodes.len()) };
        // SAFETY: as many nodes as the list has now, of a graph that the caller lends.
        unsafe { Self::set_nodes(graph, nodes) };
    }

    /// Returns how many nodes `graph` has room for.
    ///
    /// # Safety
    /// `graph` points to a live graph that no other thread changes.
    pub unsafe fn capacity(graph: NonNull<ggml_cgraph>) -> usize {
        usize::try_from(field!(graph, size)).unwrap_or(0)
    }
}

/// # Safety
/// `tensors` holds `count` pointers to tensors that live for `'g`.
unsafe fn list<'g>(tensors: *mut *mut ggml_tensor, count: std::ffi::c_int) -> &'g [TensorRef<'g>] {
    match usize::try_from(count) {
        // SAFETY: a `TensorRef` is a pointer that is not null, as are those in the list.
        Ok(count) if count > 0 => unsafe { std::slice::from_raw_parts(tensors.cast(), count) },
        _ => &[],
    }
}
