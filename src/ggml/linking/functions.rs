//! The addresses of ggml's functions.
//!
//! They are resolved when the program runs, not when lastuse is linked: a preloaded library is also loaded into
//! programs without ggml (such as a shell), which must still start, and some functions exist only in some versions of
//! ggml. So one table refers to each function weakly; missing functions are null.

use std::ffi::{CStr, c_void};

use crate::ggml::bindings;
use crate::ggml::platform::{Library, weak_table};

/// Declares [`Functions`] and the table of weak symbols: required functions exist in every supported ggml, optional
/// ones in some.
macro_rules! functions {
    (required { $($required:ident)* } optional { $($optional:ident)* }) => {
        /// The functions of one ggml.
        #[derive(Clone, Copy)]
        #[allow(missing_docs, reason = "named and documented by ggml")]
        pub struct Functions {
            $(pub $required: bindings::$required,)*
            $(pub $optional: Option<bindings::$optional>,)*
        }

        const NAMES: &[&CStr] = &[$(name(concat!(stringify!($required), "\0")),)* $(name(concat!(stringify!($optional), "\0")),)*];

        // One pointer per function, null where the program has no such function.
        weak_table!("lastuse_ggml_functions": $(stringify!($required),)* $(stringify!($optional),)*);

        impl Functions {
            /// Converts addresses, in the order of `NAMES`, to functions.
            ///
            /// # Errors
            /// The name of the first required function that is missing.
            fn from_addresses(addresses: &Addresses) -> Result<Self, &'static CStr> {
                let mut next = addresses.iter().zip(NAMES);
                Ok(Self {
                    $($required: {
                        let (&address, &name) = next.next().ok_or(c"")?;
                        if address.is_null() {
                            return Err(name);
                        }
                        // SAFETY: not null, and the function of that name has this type in every supported ggml.
                        unsafe { std::mem::transmute::<*const c_void, bindings::$required>(address) }
                    },)*
                    $($optional: {
                        let (&address, _) = next.next().ok_or(c"")?;
                        // SAFETY: null becomes `None`; else the function of that name has this type.
                        unsafe { std::mem::transmute::<*const c_void, Option<bindings::$optional>>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    required {
        ggml_abort ggml_log_internal ggml_is_contiguous ggml_is_quantized ggml_nbytes ggml_op_name ggml_get_data
        ggml_get_no_alloc ggml_get_mem_buffer ggml_get_mem_size
        ggml_get_first_tensor ggml_get_next_tensor ggml_init ggml_free ggml_new_tensor_1d ggml_view_1d ggml_view_tensor ggml_neg
        ggml_set_input ggml_set_output ggml_new_graph_custom
        ggml_build_forward_expand ggml_cont ggml_tensor_overhead ggml_used_mem ggml_set_name
        ggml_backend_buft_name ggml_backend_buft_alloc_buffer ggml_backend_buft_get_alignment
        ggml_backend_buft_get_max_size ggml_backend_buft_get_alloc_size
        ggml_backend_buffer_free ggml_backend_buffer_get_base ggml_backend_buffer_get_size
        ggml_backend_buffer_get_type ggml_backend_buffer_get_alignment ggml_backend_buffer_get_alloc_size ggml_backend_buffer_reset
        ggml_backend_buffer_init_tensor ggml_backend_buffer_set_usage ggml_backend_tensor_alloc ggml_backend_view_init
        ggml_backend_get_default_buffer_type ggml_backend_multi_buffer_alloc_buffer
    }
    optional {
        ggml_version ggml_op_desc ggml_type_name ggml_log_get ggml_log_set ggml_backend_cpu_buffer_type
        ggml_backend_buft_get_device ggml_backend_dev_type ggml_backend_dev_supports_op ggml_backend_buft_is_host
        ggml_backend_dev_name ggml_backend_dev_description ggml_backend_dev_memory
        ggml_backend_buft_alloc_buffer_n ggml_backend_buft_get_alloc_size_n
        ggml_backend_buffer_get_usage ggml_backend_buffer_is_host ggml_backend_buffer_clear ggml_backend_tensor_memset
        ggml_backend_graph_compute ggml_graph_view
        ggml_backend_tensor_get ggml_backend_tensor_set ggml_get_type_traits ggml_type_size
        ggml_backend_supports_op ggml_backend_supports_buft ggml_backend_offload_op
        ggml_backend_buft_is_meta ggml_backend_meta_alloc_ctx_tensors_from_buft
        ggml_backend_sched_graph_compute ggml_backend_sched_set_eval_callback ggml_backend_sched_get_n_backends
        ggml_backend_sched_get_backend ggml_backend_sched_get_buffer_type
        ggml_backend_sched_set_tensor_backend ggml_backend_sched_get_tensor_backend ggml_backend_sched_split_graph
        ggml_backend_sched_new ggml_backend_sched_free
        ggml_backend_sched_reset ggml_backend_sched_reserve ggml_backend_sched_get_buffer_size
        ggml_backend_sched_get_n_copies ggml_backend_name ggml_backend_get_device
    }
}

type Addresses = [*const c_void; NAMES.len()];

/// Converts a literal whose only NUL is at its end to a name.
pub(super) const fn name(literal: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(literal.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name of a function has no NUL inside"),
    }
}

fn linked_addresses() -> &'static Addresses {
    unsafe extern "C" {
        #[link_name = "lastuse_ggml_functions"]
        static LINKED: Addresses;
    }
    // SAFETY: the table is defined above with one pointer per name, and never written after loading.
    unsafe { &LINKED }
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}

impl Functions {
    /// Returns the functions that the dynamic linker bound: those of the ggml that the program was linked with.
    ///
    /// # Errors
    /// The name of the first function that is missing.
    pub fn linked() -> Result<Self, &'static CStr> {
        Self::from_addresses(linked_addresses())
    }

    /// Returns the address that the dynamic linker bound to the function `name`; null if it found none.
    pub fn linked_address(name: &CStr) -> *const c_void {
        let found = linked_addresses().iter().zip(NAMES).find(|(_, known)| **known == name);
        found.map_or(std::ptr::null(), |(&address, _)| address)
    }

    /// Returns the functions of the ggml in a library.
    ///
    /// # Errors
    /// The name of the first function that is missing.
    pub fn loaded(library: &Library) -> Result<Self, &'static CStr> {
        let mut addresses = [std::ptr::null(); NAMES.len()];
        for (address, name) in addresses.iter_mut().zip(NAMES) {
            *address = library.symbol(name);
        }
        Self::from_addresses(&addresses)
    }
}
