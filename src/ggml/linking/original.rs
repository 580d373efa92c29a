//! ggml's own allocator, where lastuse is interposed before it: every call can be forwarded.

use std::ffi::{CStr, c_int, c_void};

use crate::ggml::bindings::{ggml_backend, ggml_backend_buffer, ggml_backend_buffer_type, ggml_cgraph, ggml_context};
use crate::ggml::bindings::{ggml_tallocr, ggml_tensor};

/// The target of a `ggml_gallocr_t`: an allocator of lastuse or of ggml, opaque to the other.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "ggml's name")]
pub struct ggml_gallocr([u8; 0]);

macro_rules! original {
    (
        always { $($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)* }
        later { $($late:ident = $late_name:literal: fn($($late_argument:ty),*) $(-> $late_result:ty)?;)* }
    ) => {
        /// The functions of `ggml-alloc.h` as ggml itself defines them.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "named and documented by ggml")]
        pub struct Original {
            $(pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub $late: Option<unsafe extern "C" fn($($late_argument),*) $(-> $late_result)?>,)*
        }

        impl Original {
            /// Looks up each function; `None` if one is missing that every ggml has.
            pub fn find(symbol: impl Fn(&CStr) -> *const c_void) -> Option<Self> {
                Some(Self {
                    $($field: {
                        type Function = unsafe extern "C" fn($($argument),*) $(-> $result)?;
                        // SAFETY: null becomes `None`, else the function of that name has this type.
                        unsafe { std::mem::transmute::<*const c_void, Option<Function>>(symbol($name)) }?
                    },)*
                    $($late: {
                        type Function = unsafe extern "C" fn($($late_argument),*) $(-> $late_result)?;
                        // SAFETY: null becomes `None`, else the function of that name has this type.
                        unsafe { std::mem::transmute::<*const c_void, Option<Function>>(symbol($late_name)) }
                    },)*
                })
            }
        }
    };
}

original! {
    always {
        tallocr_new = c"ggml_tallocr_new": fn(*mut ggml_backend_buffer) -> ggml_tallocr;
        tallocr_alloc = c"ggml_tallocr_alloc": fn(*mut ggml_tallocr, *mut ggml_tensor) -> c_int;
        gallocr_new = c"ggml_gallocr_new": fn(*mut ggml_backend_buffer_type) -> *mut ggml_gallocr;
        gallocr_new_n = c"ggml_gallocr_new_n": fn(*mut *mut ggml_backend_buffer_type, c_int) -> *mut ggml_gallocr;
        gallocr_free = c"ggml_gallocr_free": fn(*mut ggml_gallocr);
        gallocr_reserve = c"ggml_gallocr_reserve": fn(*mut ggml_gallocr, *mut ggml_cgraph) -> bool;
        gallocr_reserve_n = c"ggml_gallocr_reserve_n":
            fn(*mut ggml_gallocr, *mut ggml_cgraph, *const c_int, *const c_int) -> bool;
        gallocr_alloc_graph = c"ggml_gallocr_alloc_graph": fn(*mut ggml_gallocr, *mut ggml_cgraph) -> bool;
        gallocr_get_buffer_size = c"ggml_gallocr_get_buffer_size": fn(*mut ggml_gallocr, c_int) -> usize;
        alloc_ctx_tensors = c"ggml_backend_alloc_ctx_tensors":
            fn(*mut ggml_context, *mut ggml_backend) -> *mut ggml_backend_buffer;
        alloc_ctx_tensors_from_buft = c"ggml_backend_alloc_ctx_tensors_from_buft":
            fn(*mut ggml_context, *mut ggml_backend_buffer_type) -> *mut ggml_backend_buffer;
    }
    later {
        gallocr_reserve_n_size = c"ggml_gallocr_reserve_n_size":
            fn(*mut ggml_gallocr, *mut ggml_cgraph, *const c_int, *const c_int, *mut usize);
        alloc_ctx_tensors_from_buft_size = c"ggml_backend_alloc_ctx_tensors_from_buft_size":
            fn(*mut ggml_context, *mut ggml_backend_buffer_type) -> usize;
        op_can_inplace = c"ggml_op_can_inplace": fn(u32) -> bool;
    }
}
