//! The functions of ggml that read and write tensors. Those in stand-ins are read and written here, since the backend that a
//! buffer is said to be of would use memory of its device.

use std::ffi::{CStr, c_char, c_void};
use std::ops::Range;

use crate::contents::{self, contains, is_kept};
use crate::end::{End, end};
use crate::wrapped::of_ggml;

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
    // SAFETY: a live tensor, whose name ends in NUL.
    unsafe { CStr::from_ptr(name(tensor)) }.to_string_lossy().into_owned()
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

/// Reads bytes of a tensor in a stand-in.
///
/// # Safety
/// The bytes lie in the tensor, and there is room for as many at `to`.
unsafe fn read(tensor: Tensor, to: *mut c_void, offset: usize, size: usize) {
    let from = data(tensor) + offset;
    require(tensor, &(from..from + size));
    // SAFETY: readable memory of a stand-in, and writable memory: see "# Safety".
    unsafe { to.cast::<u8>().copy_from(std::ptr::with_exposed_provenance(from), size) };
}

/// Reads or writes `copies` pieces of a tensor, which are `stride` bytes apart there and `data_stride` in the program's memory.
fn pieces(copies: usize, stride: usize, data_stride: usize, mut each: impl FnMut(usize, usize)) {
    (0..copies).for_each(|copy| each(copy * stride, copy * data_stride));
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
    if !is_stand_in(to) || size <= contents::KEPT {
        require(from, &(source..source + size));
    }
    // SAFETY: memory of the tensors, which is the host's.
    unsafe { contents::write(target, std::ptr::with_exposed_provenance(source), size) };
    true
}

/// Wraps functions of ggml: does it here where `$tensor` is in a stand-in.
macro_rules! wrap {
    ($($name:ident($($argument:ident: $type:ty),+ $(,)?) $tensor:ident => $act:expr;)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            #[allow(unused_variables, reason = "a backend is not asked")]
            pub unsafe extern "C" fn $name($($argument: $type),+) {
                const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name without NUL"),
                };
                if is_stand_in($tensor) {
                    return $act;
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
    // SAFETY: bytes of the tensor, and as many of the program, as ggml's function requires; so below.
    ggml_backend_tensor_set(tensor: Tensor, from: *const c_void, offset: usize, size: usize)
        tensor => unsafe { contents::write(data(tensor) + offset, from, size) };
    // SAFETY: as above.
    ggml_backend_tensor_set_async(backend: Backend, tensor: Tensor, from: *const c_void, offset: usize, size: usize)
        tensor => unsafe { contents::write(data(tensor) + offset, from, size) };
    // SAFETY: as above.
    ggml_backend_tensor_get(tensor: Tensor, to: *mut c_void, offset: usize, size: usize)
        tensor => unsafe { read(tensor, to, offset, size) };
    // SAFETY: as above.
    ggml_backend_tensor_get_async(backend: Backend, tensor: Tensor, to: *mut c_void, offset: usize, size: usize)
        tensor => unsafe { read(tensor, to, offset, size) };
    // SAFETY: as above.
    ggml_backend_tensor_memset(tensor: Tensor, value: u8, offset: usize, size: usize)
        tensor => unsafe { contents::fill(&(data(tensor) + offset..data(tensor) + offset + size), value) };
    ggml_backend_tensor_set_2d(
        tensor: Tensor, from: *const c_void, offset: usize, size: usize, copies: usize, stride: usize, data_stride: usize
    ) tensor => pieces(copies, stride, data_stride, |at, of| {
        // SAFETY: as above.
        unsafe { contents::write(data(tensor) + offset + at, from.wrapping_byte_add(of), size) };
    });
    ggml_backend_tensor_get_2d(
        tensor: Tensor, to: *mut c_void, offset: usize, size: usize, copies: usize, stride: usize, data_stride: usize
    ) tensor => pieces(copies, stride, data_stride, |at, of| {
        // SAFETY: as above.
        unsafe { read(tensor, to.wrapping_byte_add(of), offset + at, size) };
    });
    ggml_backend_tensor_set_2d_async(
        backend: Backend, tensor: Tensor, from: *const c_void, offset: usize, size: usize, copies: usize, stride: usize,
        data_stride: usize
    ) tensor => pieces(copies, stride, data_stride, |at, of| {
        // SAFETY: as above.
        unsafe { contents::write(data(tensor) + offset + at, from.wrapping_byte_add(of), size) };
    });
    ggml_backend_tensor_get_2d_async(
        backend: Backend, tensor: Tensor, to: *mut c_void, offset: usize, size: usize, copies: usize, stride: usize,
        data_stride: usize
    ) tensor => pieces(copies, stride, data_stride, |at, of| {
        // SAFETY: as above.
        unsafe { read(tensor, to.wrapping_byte_add(of), offset + at, size) };
    });
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
