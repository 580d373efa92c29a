//! A live context in reserved address space, and the memory of its tensors.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use super::address_space::{AddressSpace, NoAddressSpace};
use super::default_size::{ContextContents, default_size};
use super::realize::TensorMemory;
use crate::ggml::bindings::{ggml_context, ggml_init_params};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::refusal::Refusal;

/// Bytes of small pages at the start of a context that holds data. Huge pages follow: after this many bytes, the unused
/// part of the last one is negligible.
const SMALL_PAGES: usize = 32 << 20;

/// When the tensors of a context are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextMode {
    /// When they are created, or, in a buffer type, when they are first needed.
    Immediate,
    /// With the graph that uses them.
    Deferred,
}

/// Options for a new context.
#[derive(Clone, Copy, Debug)]
pub struct ContextOptions {
    /// When its tensors are allocated.
    pub kind: ContextMode,
    /// The buffer type of the tensors' data, and the usage of its buffers; `None` keeps data in the context itself.
    pub memory: Option<(BufferType, u32)>,
    /// Bytes of address space; `None` for the default.
    pub address_space: Option<usize>,
}

/// A context that [`super::new_context`] created.
#[derive(Debug)]
pub struct LiveContext {
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    kind: ContextMode,
    buffer_type: Option<BufferType>,
    // Declared before the address space: backends may read the tensors while their buffers are freed.
    memory: Option<Mutex<TensorMemory>>,
    space: AddressSpace,
    /// Bytes that were passed to ggml, also after the address space was shortened.
    length: usize,
}

// SAFETY: ggml's pointers belong to the whole process. The memory of the tensors has a lock; the rest is never changed.
unsafe impl Send for LiveContext {}
// SAFETY: as above.
unsafe impl Sync for LiveContext {}

impl LiveContext {
    /// Creates a context without tensors.
    ///
    /// # Errors
    /// [`NoAddressSpace`].
    pub fn new(runtime: &'static Runtime, options: ContextOptions) -> Result<Self, NoAddressSpace> {
        let ContextOptions { kind, memory, address_space } = options;
        let holds_data = kind == ContextMode::Immediate && memory.is_none();
        let space = match address_space {
            Some(length) => AddressSpace::reserve(length)?,
            None => {
                reserve_default(runtime, if holds_data { ContextContents::Data } else { ContextContents::Descriptors })?
            }
        };
        space.use_small_pages(if holds_data { SMALL_PAGES } else { usize::MAX });
        let params = ggml_init_params { mem_size: space.length(), mem_buffer: space.start(), no_alloc: !holds_data };
        // SAFETY: the memory outlives the context, which is freed before it.
        let context = unsafe { (runtime.functions.ggml_init)(params) };
        let context = NonNull::new(context).expect("ggml_init returns a context or aborts");
        let length = space.length();
        let buffer_type = memory.map(|(buffer_type, _)| buffer_type);
        let memory = memory.map(|(buffer_type, usage)| Mutex::new(TensorMemory::new(buffer_type, usage)));
        Ok(Self { runtime, context, kind, buffer_type, memory, space, length })
    }

    /// The context as a C pointer.
    pub fn as_ptr(&self) -> *mut ggml_context {
        self.context.as_ptr()
    }

    /// When its tensors are allocated.
    pub fn kind(&self) -> ContextMode {
        self.kind
    }

    /// The addresses of the context, with everything in it.
    pub fn addresses(&self) -> Range<usize> {
        self.space.addresses()
    }

    /// The buffer type of its tensors' data; `None` if that lies in the context, or is left to graphs.
    pub fn buffer_type(&self) -> Option<BufferType> {
        self.buffer_type
    }

    /// Allocates the pending tensors in the buffer type of the context; does nothing if there is none.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] or [`Refusal::InitFailed`]; tensors allocated so far keep their memory, and the next call
    /// continues.
    pub fn realize(&self) -> Result<(), Refusal> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: live, since it is removed from the registry before it is freed; C callers promise that no other
        // thread uses it.
        unsafe { memory.realize(self.context) }
    }

    /// Returns `false` if ggml's struct no longer belongs to this context: `ggml_free` was called on it by mistake.
    pub fn is_intact(&self) -> bool {
        let functions = &self.runtime.functions;
        // SAFETY: live, or freed memory that the C library keeps mapped: a mistake of the program, which this read
        // detects in practice.
        let start = unsafe { (functions.ggml_get_mem_buffer)(self.as_ptr()) };
        // SAFETY: as above.
        let length = unsafe { (functions.ggml_get_mem_size)(self.as_ptr()) };
        start == self.space.start() && length == self.length
    }

    /// Frees its memory and keeps ggml's struct and the first addresses, so that they are not reused.
    #[cfg(debug_assertions)]
    pub fn retire(&mut self) {
        self.memory = None;
        self.space.forbid();
    }
}

impl Drop for LiveContext {
    fn drop(&mut self) {
        if self.is_intact() {
            // SAFETY: created by this type, freed once, and not used afterwards.
            unsafe { (self.runtime.functions.ggml_free)(self.as_ptr()) };
        }
    }
}

/// Reserves the default range, or as much of it as there is; logs a warning when that is less.
fn reserve_default(runtime: &Runtime, contents: ContextContents) -> Result<AddressSpace, NoAddressSpace> {
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
