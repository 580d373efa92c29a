//! One context in reserved address space, with the memory of its tensors.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::address_space::{AddressSpace, NoAddressSpace};
use super::default_size::{Contents, default_size};
use super::realize::TensorMemory;
use crate::ggml::bindings::{ggml_context, ggml_init_params};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::refusal::Refusal;

/// Where huge pages may begin in a context that holds data: so many bytes are enough that what is lost in the last huge
/// page does not count.
const SMALL_PAGES: usize = 32 << 20;

/// When tensors get their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// When they are made, or, in a buffer type, when they are first needed.
    Immediate,
    /// When a graph is allocated.
    Deferred,
}

/// What a context is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// When its tensors get their memory.
    pub kind: Kind,
    /// Where they get it, and the usage of the buffers; `None` means from the context itself.
    pub memory: Option<(BufferType, u32)>,
    /// Bytes of address space; `None` leaves it to us.
    pub address_space: Option<usize>,
}

/// A context of ours.
#[derive(Debug)]
pub struct LiveContext {
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    kind: Kind,
    buffer_type: Option<BufferType>,
    // Declared before the address space: buffers are freed while the tensors in them can still be looked at.
    memory: Option<Mutex<TensorMemory>>,
    space: AddressSpace,
    /// Bytes that ggml was given, also when fewer are left.
    length: usize,
}

// SAFETY: ggml's pointers belong to the whole process. The memory of the tensors has a lock; the rest is never changed.
unsafe impl Send for LiveContext {}
// SAFETY: as above.
unsafe impl Sync for LiveContext {}

impl LiveContext {
    /// A new context without tensors.
    ///
    /// # Errors
    /// [`NoAddressSpace`].
    pub fn new(runtime: &'static Runtime, wanted: Wanted) -> Result<Self, NoAddressSpace> {
        let Wanted { kind, memory, address_space } = wanted;
        let holds_data = kind == Kind::Immediate && memory.is_none();
        let space = match address_space {
            Some(length) => AddressSpace::reserve(length)?,
            None => reserve_default(runtime, if holds_data { Contents::Data } else { Contents::Descriptors })?,
        };
        space.use_small_pages(if holds_data { SMALL_PAGES } else { usize::MAX });
        let params = ggml_init_params { mem_size: space.length(), mem_buffer: space.start(), no_alloc: !holds_data };
        // SAFETY: the memory outlives the context, which is freed before it.
        let context = unsafe { (runtime.functions.ggml_init)(params) };
        let context = NonNull::new(context).expect("ggml_init answers with a context or aborts");
        let length = space.length();
        let buffer_type = memory.map(|(buffer_type, _)| buffer_type);
        let memory = memory.map(|(buffer_type, usage)| Mutex::new(TensorMemory::new(buffer_type, usage)));
        Ok(Self { runtime, context, kind, buffer_type, memory, space, length })
    }

    /// The context as C sees it.
    pub fn as_ptr(&self) -> *mut ggml_context {
        self.context.as_ptr()
    }

    /// When its tensors get their memory.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where all of it lies.
    pub fn addresses(&self) -> Range<usize> {
        self.space.addresses()
    }

    /// Where its tensors get their memory, if not in the context.
    pub fn buffer_type(&self) -> Option<BufferType> {
        self.buffer_type
    }

    /// Gives memory to the tensors that wait for some; nothing where they get it otherwise.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] or [`Refusal::InitFailed`]; tensors that got their memory keep it, and the next call goes
    /// on.
    pub fn realize(&self) -> Result<(), Refusal> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: alive, since whoever frees it takes it out of the registry first, and by the promise of the caller of
        // C no other thread uses it.
        unsafe { memory.realize(self.context) }
    }

    /// Is the struct of ggml still that of this context? `ggml_free`, called by mistake, has then given it to others.
    pub fn is_intact(&self) -> bool {
        let functions = &self.runtime.functions;
        // SAFETY: alive, or freed memory of the process that the C library keeps mapped: a mistake of the program,
        // which this look finds in practice.
        let start = unsafe { (functions.ggml_get_mem_buffer)(self.as_ptr()) };
        // SAFETY: as above.
        let length = unsafe { (functions.ggml_get_mem_size)(self.as_ptr()) };
        start == self.space.start() && length == self.length
    }

    /// Frees its memory and keeps ggml's struct and the first addresses, so that nobody else gets them.
    #[cfg(debug_assertions)]
    pub fn retire(&mut self) {
        self.memory = None;
        self.space.forbid();
    }
}

impl Drop for LiveContext {
    fn drop(&mut self) {
        if self.is_intact() {
            // SAFETY: made by us, freed once, and nobody uses it after.
            unsafe { (self.runtime.functions.ggml_free)(self.as_ptr()) };
        }
    }
}

/// As much as there is, up to what makes sense; says so when that is less.
fn reserve_default(runtime: &Runtime, contents: Contents) -> Result<AddressSpace, NoAddressSpace> {
    let (least, most) = default_size(contents);
    let space = AddressSpace::reserve_within(least, most)?;
    let length = space.length();
    if length < most {
        runtime.log_warning(&format!(
            "lastuse_context_new: address space is short: the context gets {length} bytes of it instead of {most}\n"
        ));
    }
    Ok(space)
}
