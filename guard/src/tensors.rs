//! The functions of ggml that read and write tensors. With `LASTUSE_VERIFY=memory` lastuse checks first that the memory of
//! the tensors was not freed: a program that keeps a graph sets its inputs before it computes it again. With `LASTUSE_ARENA` they
//! may lie where another graph is still computed, so that a write waits for that.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use crate::functions::is_enabled;
use crate::turns::wait_for_turn;
use crate::wrapped::{c_name, of_ggml, of_lastuse_if_there};

type Tensor = *mut c_void;
type Tensors = *const Tensor;
type CheckTensor = unsafe extern "C" fn(Tensor, bool) -> *mut c_void;

/// Returns the function of lastuse that checks a tensor, and returns the buffer that it is in.
fn check_tensor() -> Option<CheckTensor> {
    static FOUND: OnceLock<Option<CheckTensor>> = OnceLock::new();
    // SAFETY: its type in lastuse.h.
    *FOUND.get_or_init(|| unsafe { of_lastuse_if_there(c"lastuse_guard_check_tensor") })
}

/// Checks tensors that the program reads or writes, if that is enabled: arrays of `count` tensors.
///
/// # Safety
/// The tensors are null or live.
unsafe fn check(arrays: &[Tensors], count: usize, is_written: bool) {
    let Some(check) = check_tensor().filter(|_| is_enabled()) else { return };
    for (array, at) in arrays.iter().flat_map(|array| (0..count).map(move |at| (array, at))) {
        // SAFETY: inside of the array, which has `count` tensors.
        let tensor = unsafe { array.wrapping_add(at).read() };
        if !tensor.is_null() {
            // SAFETY: a live tensor.
            unsafe { check(tensor, is_written) };
        }
    }
}

/// Wraps functions of ggml: checks the first tensors of these arrays before, and waits for what is computed before a write.
macro_rules! wrap {
    ($($name:ident($($argument:ident: $type:ty),+) $count:tt reads [$($read:expr),*] writes [$($written:expr),*];)+) => {
        $(
            /// Wraps ggml's function.
            ///
            /// # Safety
            /// The requirements of ggml's function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),+) {
                const NAME: &CStr = c_name(concat!(stringify!($name), "\0"));
                let (read, written): (&[Tensors], &[Tensors]) = (&[$($read),*], &[$($written),*]);
                if !written.is_empty() {
                    wait_for_turn();
                }
                // SAFETY: live tensors, as ggml's function requires.
                unsafe { check(read, $count, false) };
                // SAFETY: as above.
                unsafe { check(written, $count, true) };
                // SAFETY: its type in ggml-backend.h.
                let function: unsafe extern "C" fn($($type),+) = unsafe { of_ggml(NAME) };
                // SAFETY: the caller's arguments, forwarded.
                unsafe { function($($argument),+) }
            }
        )+
    };
}

wrap! {
    ggml_backend_tensor_set(tensor: Tensor, data: *const c_void, offset: usize, size: usize)
        1 reads [] writes [&raw const tensor];
    ggml_backend_tensor_get(tensor: Tensor, data: *mut c_void, offset: usize, size: usize)
        1 reads [&raw const tensor] writes [];
    ggml_backend_tensor_memset(tensor: Tensor, value: u8, offset: usize, size: usize)
        1 reads [] writes [&raw const tensor];
    ggml_backend_tensor_copy(from: Tensor, to: Tensor)
        1 reads [&raw const from] writes [&raw const to];
    ggml_backend_tensor_set_async(backend: *mut c_void, tensor: Tensor, data: *const c_void, offset: usize, size: usize)
        1 reads [] writes [&raw const tensor];
    ggml_backend_tensor_get_async(backend: *mut c_void, tensor: Tensor, data: *mut c_void, offset: usize, size: usize)
        1 reads [&raw const tensor] writes [];
    ggml_backend_tensor_copy_async(from_backend: *mut c_void, to_backend: *mut c_void, from: Tensor, to: Tensor)
        1 reads [&raw const from] writes [&raw const to];
    ggml_backend_tensor_set_2d(
        tensor: Tensor, data: *const c_void, offset: usize, size: usize, copies: usize, stride: usize, data_stride: usize
    ) 1 reads [] writes [&raw const tensor];
    ggml_backend_tensor_get_2d(
        tensor: Tensor, data: *mut c_void, offset: usize, size: usize, copies: usize, stride: usize, data_stride: usize
    ) 1 reads [&raw const tensor] writes [];
    ggml_backend_tensor_set_2d_async(
        backend: *mut c_void, tensor: Tensor, data: *const c_void, offset: usize, size: usize, copies: usize, stride: usize,
        data_stride: usize
    ) 1 reads [] writes [&raw const tensor];
    ggml_backend_tensor_get_2d_async(
        backend: *mut c_void, tensor: Tensor, data: *mut c_void, offset: usize, size: usize, copies: usize, stride: usize,
        data_stride: usize
    ) 1 reads [&raw const tensor] writes [];
    ggml_backend_tensor_set_n(
        tensors: Tensors, data: *const c_void, offsets: *const usize, sizes: *const usize, data_offsets: *const usize,
        count: usize
    ) count reads [] writes [tensors];
    ggml_backend_tensor_get_n(
        tensors: Tensors, data: *mut c_void, offsets: *const usize, sizes: *const usize, data_offsets: *const usize,
        count: usize
    ) count reads [tensors] writes [];
    ggml_backend_tensor_copy_n(from: Tensors, to: Tensors, count: usize) count reads [from] writes [to];
}
