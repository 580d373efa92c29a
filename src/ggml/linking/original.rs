//! ggml's own allocator, where lastuse is interposed before it, or linked together with it: every call can be forwarded.

use std::ffi::{CStr, c_int, c_void};

use crate::ggml::bindings::{ggml_backend, ggml_backend_buffer, ggml_backend_buffer_type, ggml_cgraph, ggml_context};
use crate::ggml::bindings::{ggml_tallocr, ggml_tensor};
use crate::ggml::linking::functions::name;
use crate::ggml::platform::weak_table;

/// The target of a `ggml_gallocr_t`: an allocator of lastuse or of ggml, opaque to the other.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "ggml's name")]
pub struct ggml_gallocr([u8; 0]);

/// The name of a function for C.
macro_rules! c_name {
    ($name:ident) => {
        name(concat!(stringify!($name), "\0"))
    };
}

/// The name of a function where lastuse is put into a ggml: `packaging/cmake/original-names.h` gives it.
macro_rules! renamed {
    ($name:ident) => {
        concat!("lastuse_original_", stringify!($name))
    };
}

macro_rules! original {
    (
        always { $($field:ident = $name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)* }
        later { $($late:ident = $late_name:ident: fn($($late_argument:ty),*) $(-> $late_result:ty)?;)* }
    ) => {
        /// The functions of `ggml-alloc.h` as ggml itself defines them.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "named and documented by ggml")]
        pub struct Original {
            $(pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $(pub $late: Option<unsafe extern "C" fn($($late_argument),*) $(-> $late_result)?>,)*
        }

        const NAMES: &[&CStr] = &[$(c_name!($name),)* $(c_name!($late_name),)*];

        // ggml's own functions under the names that a build of ggml with lastuse inside gives them; null elsewhere. They are
        // hidden: no other library defines them.
        weak_table!(hidden "lastuse_original_functions": $(renamed!($name),)* $(renamed!($late_name),)*);

        impl Original {
            /// Looks up each function; `None` if one is missing that every ggml has.
            pub fn find(symbol: impl Fn(&CStr) -> *const c_void) -> Option<Self> {
                Some(Self {
                    $($field: {
                        type Function = unsafe extern "C" fn($($argument),*) $(-> $result)?;
                        // SAFETY: null becomes `None`, else the function of that name has this type.
                        unsafe { std::mem::transmute::<*const c_void, Option<Function>>(symbol(c_name!($name))) }?
                    },)*
                    $($late: {
                        type Function = unsafe extern "C" fn($($late_argument),*) $(-> $late_result)?;
                        // SAFETY: null becomes `None`, else the function of that name has this type.
                        unsafe { std::mem::transmute::<*const c_void, Option<Function>>(symbol(c_name!($late_name))) }
                    },)*
                })
            }
        }
    };
}

original! {
    always {
        tallocr_new = ggml_tallocr_new: fn(*mut ggml_backend_buffer) -> ggml_tallocr;
        tallocr_alloc = ggml_tallocr_alloc: fn(*mut ggml_tallocr, *mut ggml_tensor) -> c_int;
        gallocr_new = ggml_gallocr_new: fn(*mut ggml_backend_buffer_type) -> *mut ggml_gallocr;
        gallocr_new_n = ggml_gallocr_new_n: fn(*mut *mut ggml_backend_buffer_type, c_int) -> *mut ggml_gallocr;
        gallocr_free = ggml_gallocr_free: fn(*mut ggml_gallocr);
        gallocr_reserve = ggml_gallocr_reserve: fn(*mut ggml_gallocr, *mut ggml_cgraph) -> bool;
        gallocr_reserve_n = ggml_gallocr_reserve_n:
            fn(*mut ggml_gallocr, *mut ggml_cgraph, *const c_int, *const c_int) -> bool;
        gallocr_alloc_graph = ggml_gallocr_alloc_graph: fn(*mut ggml_gallocr, *mut ggml_cgraph) -> bool;
        gallocr_get_buffer_size = ggml_gallocr_get_buffer_size: fn(*mut ggml_gallocr, c_int) -> usize;
        alloc_ctx_tensors = ggml_backend_alloc_ctx_tensors:
            fn(*mut ggml_context, *mut ggml_backend) -> *mut ggml_backend_buffer;
        alloc_ctx_tensors_from_buft = ggml_backend_alloc_ctx_tensors_from_buft:
            fn(*mut ggml_context, *mut ggml_backend_buffer_type) -> *mut ggml_backend_buffer;
    }
    later {
        gallocr_reserve_n_size = ggml_gallocr_reserve_n_size:
            fn(*mut ggml_gallocr, *mut ggml_cgraph, *const c_int, *const c_int, *mut usize);
        alloc_ctx_tensors_from_buft_size = ggml_backend_alloc_ctx_tensors_from_buft_size:
            fn(*mut ggml_context, *mut ggml_backend_buffer_type) -> usize;
        op_can_inplace = ggml_op_can_inplace: fn(u32) -> bool;
    }
}

impl Original {
    /// Returns ggml's own functions that are linked into the object of lastuse under other names; `None` if they are not.
    pub fn linked() -> Option<Self> {
        unsafe extern "C" {
            #[link_name = "lastuse_original_functions"]
            static LINKED: [*const c_void; NAMES.len()];
        }
        // SAFETY: the table is defined above with one pointer per name, and never written after loading.
        let linked = unsafe { &LINKED };
        let address = |wanted: &CStr| linked.iter().zip(NAMES).find(|(_, known)| **known == wanted);
        Self::find(|wanted| address(wanted).map_or(std::ptr::null(), |(&address, _)| address))
    }
}
