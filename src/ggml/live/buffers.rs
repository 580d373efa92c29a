//! Buffer types and the buffers that they allocate, through ggml's public accessors: its interface structs change
//! often.

use std::ffi::CStr;
use std::ptr::NonNull;

use crate::graph::tiling::TileKernels;
use crate::graph::{BufferSpec, Device, RuleSetting, Rules};
use crate::placement::{Bytes, Effort};

use crate::ggml::STATUS_SUCCESS;
use crate::ggml::USAGE_COMPUTE;
use crate::ggml::bindings::{ggml_backend_buffer, ggml_backend_buffer_type, ggml_backend_device, ggml_tallocr};
use crate::ggml::linking::functions::Functions;
use crate::ggml::live::buffer_interface::BufferInterface;
use crate::ggml::live::buffer_ref::{
    BufferRef, OwnedBuffer, note_allocated, note_freed, note_given, note_used, own_allocation,
};
use crate::ggml::live::remote_sizes::{is_remote, remote_size};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;

/// ggml's number of a device that is the CPU.
pub const DEVICE_CPU: u32 = 0;
const DEVICE_META: u32 = 4;

/// The first version of ggml whose kernels for devices other than the CPU were tested or read.
const FIRST_WITH_KNOWN_KERNELS: [u32; 3] = [0, 26, 0];

/// A live buffer type, which allocates buffers.
#[derive(Clone, Copy, Debug)]
pub struct BufferType {
    runtime: &'static Runtime,
    buffer_type: NonNull<ggml_backend_buffer_type>,
    /// True for ggml's own buffer type of the CPU.
    is_plain: bool,
}

impl PartialEq for BufferType {
    fn eq(&self, other: &Self) -> bool {
        self.buffer_type == other.buffer_type
    }
}

impl BufferType {
    /// # Safety
    /// `buffer_type` is a buffer type of this ggml and outlives the value.
    pub unsafe fn new(runtime: &'static Runtime, buffer_type: NonNull<ggml_backend_buffer_type>) -> Self {
        // SAFETY: takes nothing.
        let plain = runtime.functions.ggml_backend_cpu_buffer_type.map(|plain| unsafe { plain() });
        Self { runtime, buffer_type, is_plain: plain == Some(buffer_type.as_ptr()) }
    }

    fn functions(&self) -> &'static Functions {
        &self.runtime.functions
    }

    /// Returns the buffer type as C's pointer.
    pub fn as_ptr(self) -> *mut ggml_backend_buffer_type {
        self.buffer_type.as_ptr()
    }

    /// Returns the ggml that the buffer type belongs to.
    pub fn runtime(self) -> &'static Runtime {
        self.runtime
    }

    /// Returns the name that ggml's messages use.
    pub fn name(self) -> String {
        self.c_name().to_string_lossy().into_owned()
    }

    /// Returns the names that it has in settings: its own, and that of its device.
    pub fn names(self) -> Vec<String> {
        let device = self.device_of_type();
        let name = self.functions().ggml_backend_dev_name.filter(|_| !device.is_null());
        // SAFETY: a live device.
        let name = name.map(|name| unsafe { name(device) });
        // SAFETY: names end in NUL, and live as long as their device.
        let name = name.map(|name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned());
        [self.name()].into_iter().chain(name).collect()
    }

    fn c_name(&self) -> &CStr {
        // SAFETY: a live buffer type.
        let name = unsafe { (self.functions().ggml_backend_buft_name)(self.as_ptr()) };
        // SAFETY: names end in NUL, and live as long as their buffer type.
        unsafe { CStr::from_ptr(name) }
    }

    /// Returns what planning needs to know about buffers of this type.
    pub fn spec(self, rules: &RuleSetting, effort: Effort) -> BufferSpec {
        BufferSpec { alignment: self.alignment(), max_chunk: self.max_size(), rules: self.rules(rules), effort }
    }

    /// Returns the in-place and aliasing rules that `setting` allows in it.
    pub fn rules(self, setting: &RuleSetting) -> Rules {
        setting.rules_on(self.device())
    }

    /// Returns the power of two that addresses and sizes are multiples of.
    pub fn alignment(self) -> Bytes {
        // SAFETY: a live buffer type.
        unsafe { (self.functions().ggml_backend_buft_get_alignment)(self.as_ptr()) as Bytes }
    }

    /// Returns the bytes of the largest buffer, if there is a limit.
    pub fn max_size(self) -> Option<Bytes> {
        // SAFETY: a live buffer type.
        let max_size = unsafe { (self.functions().ggml_backend_buft_get_max_size)(self.as_ptr()) };
        (max_size != usize::MAX).then_some(max_size as Bytes)
    }

    /// Returns the device that computes the nodes in it.
    pub fn device(self) -> Device {
        if self.belongs_to_cpu() {
            Device::Cpu
        } else if self.places_tensors_itself() {
            Device::Several
        } else if self.is_host() || self.runtime.number.is_none_or(|number| number < FIRST_WITH_KNOWN_KERNELS) {
            Device::Gpu
        } else {
            Device::named(&self.name())
        }
    }

    /// Returns the kernels that compute tiles in it, with the bits of the whole; `None` if it is in parts on several devices.
    pub fn tile_kernels(self) -> Option<TileKernels> {
        match self.device() {
            Device::Cpu => Some(TileKernels::Cpu),
            Device::Several => None,
            device => Some(TileKernels::Device { device, alignment: self.alignment(), has_same_bits: true }),
        }
    }

    /// Returns `true` if its device can run the operation of `tensor`, as far as it says so. Types without a device are host memory.
    pub fn supports(self, tensor: TensorRef<'_>) -> bool {
        let device = self.device_of_type();
        let Some(supports_op) = self.functions().ggml_backend_dev_supports_op else { return true };
        // SAFETY: a device of this ggml, and a live tensor.
        device.is_null() || unsafe { supports_op(device, tensor.as_ptr()) }
    }

    /// Returns the device of the type, or null.
    pub fn device_of_type(self) -> *mut ggml_backend_device {
        // SAFETY: a live buffer type.
        self.functions().ggml_backend_buft_get_device.map_or(std::ptr::null_mut(), |get| unsafe { get(self.as_ptr()) })
    }

    /// Returns `true` for memory of a CPU device that ggml's ordinary kernels compute in. Some buffer types of GPUs are
    /// host memory too, so the device decides; ggml's own host memory, though, has none. Buffer types of a CPU device
    /// that are not host memory have their own kernels.
    pub fn belongs_to_cpu(self) -> bool {
        self.is_host() && self.kind_of_device().is_none_or(|kind| kind == DEVICE_CPU)
    }

    /// Returns ggml's number for the kind of the device, if there is one and ggml tells.
    fn kind_of_device(self) -> Option<u32> {
        let (device, kind) = (self.device_of_type(), self.functions().ggml_backend_dev_type?);
        // SAFETY: not null, so a device of this ggml.
        (!device.is_null()).then(|| unsafe { kind(device) })
    }

    /// Returns `true` for a type that combines several others. In an old ggml it places all tensors of a context
    /// itself.
    pub fn is_meta(self) -> bool {
        // SAFETY: a live buffer type.
        self.functions().ggml_backend_buft_is_meta.is_some_and(|is_meta| unsafe { is_meta(self.as_ptr()) })
    }

    /// Returns `true` if the type has to place tensors itself, since its buffers have no addresses.
    pub fn places_tensors_itself(self) -> bool {
        self.is_meta() || self.kind_of_device() == Some(DEVICE_META)
    }

    /// Returns `true` if the CPU can read it.
    pub fn is_host(self) -> bool {
        // SAFETY: a live buffer type.
        self.functions().ggml_backend_buft_is_host.is_some_and(|is_host| unsafe { is_host(self.as_ptr()) })
    }

    /// Returns the bytes that a tensor takes in it.
    pub fn alloc_size(self, tensor: TensorRef<'_>) -> Bytes {
        // SAFETY: a live buffer type and a live tensor.
        let ask =
            || unsafe { (self.functions().ggml_backend_buft_get_alloc_size)(self.as_ptr(), tensor.as_ptr()) as Bytes };
        if !self.is_plain && is_remote(self.c_name().to_bytes()) {
            remote_size(self.as_ptr().addr(), tensor, ask)
        } else {
            ask()
        }
    }

    /// Returns `true` if every tensor takes the bytes from its first to its last element, which depend only on the
    /// layout.
    pub fn alloc_size_is_nbytes(self) -> bool {
        self.is_plain
    }

    /// Returns `true` for ggml's own buffer type of the CPU.
    pub fn is_plain_cpu(self) -> bool {
        self.is_plain
    }

    /// Allocates a buffer; `None` if there is not enough memory.
    pub fn allocate(self, size: Bytes) -> Option<Buffer> {
        let size = usize::try_from(size).ok()?;
        let allocate = own_allocation().unwrap_or(self.functions().ggml_backend_buft_alloc_buffer);
        // SAFETY: a live buffer type, and ggml's function or the program's.
        let buffer = NonNull::new(unsafe { allocate(self.as_ptr(), size) })?;
        // SAFETY: lives until `note_freed` or `note_given`.
        let reference = unsafe { BufferRef::from_non_null(buffer) };
        let (base, held) = self.runtime.extent(reference);
        note_allocated(OwnedBuffer { runtime: self.runtime, buffer: reference, asked: size as Bytes });
        Some(Buffer { runtime: self.runtime, buffer, base, size: held })
    }
}

/// A buffer that lastuse owns, freed when dropped.
#[derive(Debug)]
pub struct Buffer {
    runtime: &'static Runtime,
    buffer: NonNull<ggml_backend_buffer>,
    base: *mut u8,
    size: Bytes,
}

// SAFETY: backends have buffers used and freed by any thread, one at a time.
unsafe impl Send for Buffer {}

// SAFETY: its fields never change, and backends have different tensors of a buffer placed by any thread.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Returns the buffer as C's pointer.
    pub fn as_ptr(&self) -> *mut ggml_backend_buffer {
        self.buffer.as_ptr()
    }

    /// Returns its type, if ggml tells.
    pub fn buffer_type(&self) -> Option<BufferType> {
        self.runtime.type_of(self.reference())
    }

    /// Releases ownership to the caller, which has to free the buffer.
    pub fn into_raw(self) -> *mut ggml_backend_buffer {
        note_given(self.reference());
        std::mem::ManuallyDrop::new(self).as_ptr()
    }

    /// Takes ownership of a buffer in which the type has placed all tensors; its addresses are unknown. `None` for
    /// null.
    ///
    /// # Safety
    /// `buffer` is null, or a buffer of this ggml that nothing else frees.
    pub unsafe fn filled(runtime: &'static Runtime, buffer: *mut ggml_backend_buffer) -> Option<Self> {
        let buffer = NonNull::new(buffer)?;
        let filled = Self { runtime, buffer, base: std::ptr::null_mut(), size: 0 };
        note_allocated(OwnedBuffer { runtime, buffer: filled.reference(), asked: runtime.size(filled.reference()) });
        Some(filled)
    }

    /// Returns the buffer as a reference, which callers keep no longer than this value.
    pub(super) fn reference(&self) -> BufferRef {
        // SAFETY: it lives as long as this value, and callers keep no copy.
        unsafe { BufferRef::from_non_null(self.buffer) }
    }

    /// Sets ggml's usage for intermediate results.
    pub fn use_for_compute(&self) {
        self.set_usage(USAGE_COMPUTE);
    }

    /// Sets one of ggml's usages.
    pub fn set_usage(&self, usage: u32) {
        // SAFETY: a live buffer.
        unsafe { (self.runtime.functions.ggml_backend_buffer_set_usage)(self.as_ptr(), usage) };
        note_used(self.reference());
    }

    /// Returns the size in bytes, which can be larger than requested.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Returns the first address.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Places `tensor` at `offset`, in bytes from the first address. ggml aborts if `tensor` has memory already, or
    /// would reach beyond the end.
    ///
    /// # Errors
    /// [`InitFailed`] if the backend reports a failure.
    pub fn place(&self, tensor: TensorRef<'_>, offset: Bytes) -> Result<(), InitFailed> {
        let address = self.base.wrapping_add(usize::try_from(offset).map_err(|_| InitFailed)?).cast();
        let place = self.runtime.functions.ggml_backend_tensor_alloc;
        // SAFETY: a live buffer and a live tensor; ggml checks the address.
        let status = unsafe { place(self.as_ptr(), tensor.as_ptr(), address) };
        self.runtime.check(status)
    }

    /// Places a tensor without memory that is known to take at most `alloc_size` bytes. ggml would compute that size
    /// once more, and some backends request it from another machine.
    ///
    /// # Errors
    /// [`InitFailed`] if the backend reports a failure, or the bytes do not lie in the buffer.
    pub fn place_known(&self, tensor: TensorRef<'_>, offset: Bytes, alloc_size: Bytes) -> Result<(), InitFailed> {
        let fits = offset.checked_add(alloc_size).is_some_and(|end| end <= self.size);
        if fits { self.place_planned(tensor, offset) } else { Err(InitFailed) }
    }

    /// Places a tensor without memory that is known to lie in the buffer, unless `offset` is beyond its end.
    ///
    /// # Errors
    /// [`InitFailed`] if the backend reports a failure, or the offset is beyond the end.
    pub fn place_planned(&self, tensor: TensorRef<'_>, offset: Bytes) -> Result<(), InitFailed> {
        let offset = usize::try_from(offset).ok().filter(|_| offset <= self.size).ok_or(InitFailed)?;
        // SAFETY: no reference into the tensor is held here, nor by callers, which pass it on from a list.
        let mut writer = unsafe { TensorMut::new(tensor) };
        writer.set_memory(self.as_ptr(), self.base.wrapping_add(offset).cast());
        // SAFETY: a live buffer and a live tensor in it.
        let status =
            unsafe { (self.runtime.functions.ggml_backend_buffer_init_tensor)(self.as_ptr(), tensor.as_ptr()) };
        self.runtime.check(status)
    }

    /// Returns whether its backend may keep something of each tensor in it, until it is reset.
    pub fn keeps_tensors(&self) -> bool {
        BufferInterface::of(self.runtime).is_none_or(|interface| interface.resets(self.reference()))
    }

    /// Informs the backend that the tensors in it are no longer used.
    pub fn reset(&self) {
        // SAFETY: a live buffer.
        unsafe { (self.runtime.functions.ggml_backend_buffer_reset)(self.as_ptr()) };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        note_freed(self.reference());
        // SAFETY: the buffer is ours, and nothing else frees it.
        unsafe { (self.runtime.functions.ggml_backend_buffer_free)(self.as_ptr()) };
    }
}

/// The backend could not initialize a tensor.
#[derive(Clone, Copy, Debug)]
pub struct InitFailed;

impl Runtime {
    /// Returns the type of the buffer that `tensor` lies in, if any.
    pub fn buffer_type_of(&'static self, tensor: TensorRef<'_>) -> Option<BufferType> {
        tensor.buffer_ref().and_then(|buffer| self.type_of(buffer))
    }

    /// Returns the type of a buffer.
    pub fn type_of(&'static self, buffer: BufferRef) -> Option<BufferType> {
        // SAFETY: a live buffer.
        let buffer_type = unsafe { (self.functions.ggml_backend_buffer_get_type)(buffer.as_ptr()) };
        // SAFETY: a buffer type of this ggml, which its buffers do not outlive.
        Some(unsafe { BufferType::new(self, NonNull::new(buffer_type)?) })
    }

    /// Sets the address of a view from that of its root.
    ///
    /// # Errors
    /// `InitFailed` if the backend reports a failure.
    pub fn place_view(&self, view: TensorRef<'_>) -> Result<(), InitFailed> {
        // SAFETY: a live view without a buffer, whose root has one.
        let status = unsafe { (self.functions.ggml_backend_view_init)(view.as_ptr()) };
        self.check(status)
    }

    /// Places `tensor` at the next address of `talloc`, whose buffer is `buffer`. Returns ggml's status.
    ///
    /// # Errors
    /// A message if the buffer is full.
    pub fn place_next(
        &self,
        talloc: &mut ggml_tallocr,
        buffer: BufferRef,
        tensor: TensorRef<'_>,
    ) -> Result<i32, String> {
        let size = usize::try_from(self.alloc_size_in(buffer, tensor)).unwrap_or(usize::MAX);
        let (base, capacity) = self.extent(buffer);
        let available = usize::try_from(capacity).unwrap_or(usize::MAX).saturating_sub(talloc.offset);
        let size = size.checked_next_multiple_of(talloc.alignment).unwrap_or(usize::MAX);
        if size > available {
            let name = tensor.name();
            let reason = format!("not enough space in the buffer to allocate {name}");
            return Err(format!("{reason} (needed {size}, available {available})"));
        }
        let address = base.wrapping_add(talloc.offset).cast();
        talloc.offset += size;
        let place = self.functions.ggml_backend_tensor_alloc;
        // SAFETY: a live tensor without memory, and an address inside a live buffer.
        let status = unsafe { place(buffer.as_ptr(), tensor.as_ptr(), address) };
        Ok(if self.returns_status { status } else { STATUS_SUCCESS })
    }

    fn check(&self, status: i32) -> Result<(), InitFailed> {
        if status == STATUS_SUCCESS || !self.returns_status { Ok(()) } else { Err(InitFailed) }
    }
}
