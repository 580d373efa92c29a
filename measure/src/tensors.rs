//! The functions of ggml that read and write tensors. Those in stand-ins are read and written here, since the backend that a
//! buffer is said to be of would use memory of its device.

use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;

use crate::contents::{self, contains, is_kept};
use crate::end::{End, end};
use crate::wrapped::{c_name, of_ggml};

type Tensor = *mut c_void;
type Backend = *mut c_void;

/// Returns the first address of a tensor.
fn data(tensor: Tensor) -> usize {
    // SAFETY: its type in ggml.h.
    let data: unsafe extern "C" fn(Tensor) -> *mut c_void = unsafe { of_ggml(c"ggml_get_data") };
    // SAFETY: a live tensor.
    unsafe { data(tensor) }.expose_provenance()
}

fn name(tensor: Tensor) -> String {
    // SAFETY: its type in ggml.h.
    let name: unsafe extern "C" fn(Tensor) -> *const c_char = unsafe { of_ggml(c"ggml_get_name") };
    // SAFETY: a live tensor.
    let name = unsafe { name(tensor) };
    // SAFETY: the name of a tensor ends in NUL.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Returns `true` for a tensor in a stand-in.
fn is_stand_in(tensor: Tensor) -> bool {
    !tensor.is_null() && contains(data(tensor))
}

/// Ends the dry run if some of these bytes of a tensor were left out.
fn require(tensor: Tensor, addresses: &Range<usize>) {
    if !is_kept(addresses) {
        let what = format!("it reads the tensor {:?}, whose bytes a dry run leaves out", name(tensor));
        end(End::Unknown, &what);
    }
}

/// Copies a tensor to one of the same size, if one of them is in a stand-in.
///
/// # Safety
/// Live tensors, which nothing else uses.
unsafe fn copy(from: Tensor, to: Tensor) -> bool {
    if !is_stand_in(from) && !is_stand_in(to) {
        return false;
    }
    // SAFETY: its type in ggml.h.
    let nbytes: unsafe extern "C" fn(Tensor) -> usize = unsafe { of_ggml(c"ggml_nbytes") };
    // SAFETY: a live tensor.
    let size = unsafe { nbytes(from) };
    let (source, target) = (data(from), data(to));
    let source_bytes = std::ptr::with_exposed_provenance::<u8>(source);
    if !is_stand_in(to) {
        require(from, &(source..source + size));
        // SAFETY: memory of the tensors, which is the host's where it is none of a stand-in.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(target).copy_from(source_bytes, size) };
        return true;
    }
    if !is_kept(&(source..source + size)) {
        contents::leave_out(&(target..target + size));
        return true;
    }
    // SAFETY: memory of the tensors, as above.
    unsafe { contents::write(target, source_bytes.cast(), size) };
    true
}

/// Bytes of a tensor in a stand-in: `copies` pieces of `size`, which are `stride` bytes apart there, and `data_stride` in the
/// program's memory.
#[derive(Clone, Copy)]
struct Pieces {
    tensor: Tensor,
    offset: usize,
    size: usize,
    copies: usize,
    stride: usize,
    data_stride: usize,
}

impl Pieces {
    fn one(tensor: Tensor, offset: usize, size: usize) -> Self {
        Self { tensor, offset, size, copies: 1, stride: 0, data_stride: 0 }
    }

    /// # Safety
    /// The bytes lie in the tensor, and as many are at `from`.
    unsafe fn write(self, from: *const c_void) {
        for copy in 0..self.copies {
            let to = data(self.tensor) + self.offset + copy * self.stride;
            // SAFETY: as the caller guarantees.
            unsafe { contents::write(to, from.wrapping_byte_add(copy * self.data_stride), self.size) };
        }
    }

    /// # Safety
    /// The bytes lie in the tensor, and there is room for as many at `to`.
    unsafe fn read(self, to: *mut c_void) {
        for copy in 0..self.copies {
            let from = data(self.tensor) + self.offset + copy * self.stride;
            require(self.tensor, &(from..from + self.size));
            let to = to.cast::<u8>().wrapping_add(copy * self.data_stride);
            // SAFETY: readable memory of a stand-in, and writable memory, as the caller guarantees.
            unsafe { to.copy_from(std::ptr::with_exposed_provenance(from), self.size) };
        }
    }

    /// # Safety
    /// The bytes lie in the tensor.
    unsafe fn fill(self, value: u8) {
        let start = data(self.tensor) + self.offset;
        // SAFETY: as the caller guarantees.
        unsafe { contents::fill(&(start..start + self.size), value) };
    }
}

/// Wraps functions of ggml: does it here where the tensor is in a stand-in.
macro_rules! wrap {
    ($($name:ident($($argument:ident: $type:ty),+ $(,)?) $pieces:expr => $act:ident($value:ident);)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            #[allow(unused_variables, reason = "a backend is not asked")]
            pub unsafe extern "C" fn $name($($argument: $type),+) {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                let pieces: Pieces = $pieces;
                if is_stand_in(pieces.tensor) {
                    // SAFETY: bytes of the tensor, and as many of the program, as ggml's function requires.
                    unsafe { pieces.$act($value) };
                    return;
                }
                // SAFETY: its type in ggml-backend.h.
                let function: unsafe extern "C" fn($($type),+) = unsafe { of_ggml(NAME) };
                // SAFETY: the caller's arguments, forwarded.
                unsafe { function($($argument),+) }
            }
        )+
    };
}

wrap! {
    ggml_backend_tensor_set(tensor: Tensor, from: *const c_void, offset: usize, size: usize)
        Pieces::one(tensor, offset, size) => write(from);
    ggml_backend_tensor_set_async(backend: Backend, tensor: Tensor, from: *const c_void, offset: usize, size: usize)
        Pieces::one(tensor, offset, size) => write(from);
    ggml_backend_tensor_get(tensor: Tensor, to: *mut c_void, offset: usize, size: usize)
        Pieces::one(tensor, offset, size) => read(to);
    ggml_backend_tensor_get_async(backend: Backend, tensor: Tensor, to: *mut c_void, offset: usize, size: usize)
        Pieces::one(tensor, offset, size) => read(to);
    ggml_backend_tensor_memset(tensor: Tensor, value: u8, offset: usize, size: usize)
        Pieces::one(tensor, offset, size) => fill(value);
    ggml_backend_tensor_set_2d(
        tensor: Tensor, from: *const c_void, offset: usize, size: usize, copies: usize, stride: usize, data_stride: usize
    ) Pieces { tensor, offset, size, copies, stride, data_stride } => write(from);
    ggml_backend_tensor_get_2d(
        tensor: Tensor, to: *mut c_void, offset: usize, size: usize, copies: usize, stride: usize, data_stride: usize
    ) Pieces { tensor, offset, size, copies, stride, data_stride } => read(to);
    ggml_backend_tensor_set_2d_async(
        backend: Backend, tensor: Tensor, from: *const c_void, offset: usize, size: usize, copies: usize, stride: usize,
        data_stride: usize
    ) Pieces { tensor, offset, size, copies, stride, data_stride } => write(from);
    ggml_backend_tensor_get_2d_async(
        backend: Backend, tensor: Tensor, to: *mut c_void, offset: usize, size: usize, copies: usize, stride: usize,
        data_stride: usize
    ) Pieces { tensor, offset, size, copies, stride, data_stride } => read(to);
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_copy(from: Tensor, to: Tensor) {
    // SAFETY: live tensors, as ggml's function requires.
    if !unsafe { copy(from, to) } {
        // SAFETY: its type in ggml-backend.h.
        let function: unsafe extern "C" fn(Tensor, Tensor) = unsafe { of_ggml(c"ggml_backend_tensor_copy") };
        // SAFETY: the caller's arguments, forwarded.
        unsafe { function(from, to) };
    }
}

/// Wraps ggml's function.
///
/// # Safety
/// The requirements of ggml's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_tensor_copy_async(
    from_backend: Backend,
    to_backend: Backend,
    from: Tensor,
    to: Tensor,
) {
    // SAFETY: live tensors, as ggml's function requires.
    if !unsafe { copy(from, to) } {
        // SAFETY: its type in ggml-backend.h.
        let function: unsafe extern "C" fn(Backend, Backend, Tensor, Tensor) =
            unsafe { of_ggml(c"ggml_backend_tensor_copy_async") };
        // SAFETY: the caller's arguments, forwarded.
        unsafe { function(from_backend, to_backend, from, to) };
    }
}
