//! ggml and lastuse in this process, side by side: two libraries that define the same names.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use lastuse::ffi::{
    ggml_backend_buffer, ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_gallocr, ggml_tensor,
};
use lastuse_vendor::Package;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};

use super::enums::enumerators;
use crate::{Build, Program, Result};

/// `struct ggml_init_params`.
#[repr(C)]
pub struct InitParams {
    pub mem_size: usize,
    pub mem_buffer: *mut c_void,
    pub no_alloc: bool,
}

/// Declares a table of functions, and how to find them in a library.
macro_rules! functions {
    (
        $(#[$attribute:meta])*
        pub struct $table:ident {
            $(fn $field:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*
        }
    ) => {
        $(#[$attribute])*
        pub struct $table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            fn find(library: &'static Library) -> Result<Self> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the library is never closed, and its function of this name has this type.
                        let symbol = unsafe { library.get($symbol) };
                        *symbol.map_err(|error| format!("{}: {error}", $symbol))?
                    },)*
                })
            }
        }
    };
}

functions! {
    /// The functions of a graph allocator in `ggml-alloc.h`.
    #[derive(Clone, Copy, Debug)]
    pub struct Api {
        fn gallocr_new = "ggml_gallocr_new" (*mut ggml_backend_buffer_type) -> *mut ggml_gallocr;
        fn gallocr_free = "ggml_gallocr_free" (*mut ggml_gallocr);
        fn gallocr_new_n = "ggml_gallocr_new_n" (*mut *mut ggml_backend_buffer_type, c_int) -> *mut ggml_gallocr;
        fn reserve = "ggml_gallocr_reserve" (*mut ggml_gallocr, *mut ggml_cgraph) -> bool;
        fn reserve_n = "ggml_gallocr_reserve_n" (*mut ggml_gallocr, *mut ggml_cgraph, *const c_int, *const c_int) -> bool;
        fn alloc_graph = "ggml_gallocr_alloc_graph" (*mut ggml_gallocr, *mut ggml_cgraph) -> bool;
        fn get_buffer_size = "ggml_gallocr_get_buffer_size" (*mut ggml_gallocr, c_int) -> usize;
    }
}

functions! {
    /// The functions of ggml that build and read a graph.
    #[derive(Clone, Copy, Debug)]
    pub struct Functions {
        fn init = "ggml_init" (InitParams) -> *mut ggml_context;
        fn free = "ggml_free" (*mut ggml_context);
        fn tensor_overhead = "ggml_tensor_overhead" () -> usize;
        fn graph_overhead_custom = "ggml_graph_overhead_custom" (usize, bool) -> usize;
        fn new_tensor = "ggml_new_tensor" (*mut ggml_context, u32, c_int, *const i64) -> *mut ggml_tensor;
        fn new_graph_custom = "ggml_new_graph_custom" (*mut ggml_context, usize, bool) -> *mut ggml_cgraph;
        fn op_name = "ggml_op_name" (u32) -> *const c_char;
        fn op_can_inplace = "ggml_op_can_inplace" (u32) -> bool;
        fn type_name = "ggml_type_name" (u32) -> *const c_char;
        fn cpu_buffer_type = "ggml_backend_cpu_buffer_type" () -> *mut ggml_backend_buffer_type;
        fn alloc_size = "ggml_backend_buft_get_alloc_size" (*mut ggml_backend_buffer_type, *const ggml_tensor) -> usize;
        fn alloc_buffer = "ggml_backend_buft_alloc_buffer" (*mut ggml_backend_buffer_type, usize) -> *mut ggml_backend_buffer;
        fn buffer_free = "ggml_backend_buffer_free" (*mut ggml_backend_buffer);
        fn buffer_base = "ggml_backend_buffer_get_base" (*mut ggml_backend_buffer) -> *mut c_void;
    }
}

/// `struct lastuse_gallocr_sizes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GallocrSizes {
    /// Its size.
    pub struct_size: usize,
    /// Bytes held.
    pub size: usize,
    /// Bytes that the latest plan requires.
    pub plan_size: usize,
    /// The lower bound of the latest plan.
    pub lower_bound: usize,
}

functions! {
    /// lastuse's own entry points.
    #[derive(Clone, Copy, Debug)]
    pub struct Own {
        fn enabled = "lastuse_enabled" () -> bool;
        fn report = "lastuse_gallocr_report" (*mut ggml_gallocr, c_int, *mut GallocrSizes) -> bool;
        fn set_process = "lastuse_set" (*const c_char, *const c_char) -> bool;
        fn set = "lastuse_gallocr_set" (*mut ggml_gallocr, *const c_char, *const c_char) -> bool;
        fn graph_measure = "lastuse_graph_measure"
            (*const *mut ggml_cgraph, usize, *const *mut ggml_backend_buffer_type, usize, *const *const c_int,
            *const *const c_int, *mut usize, *mut usize) -> bool;
    }
}

/// A `struct dummy_buft`.
#[repr(C)]
#[derive(Debug)]
pub struct DummyBuft([u8; 0]);

functions! {
    /// The functions of `limited_type.h`.
    #[derive(Clone, Copy, Debug)]
    pub struct LimitedTypes {
        fn new = "limited_type_new" (usize, usize) -> *mut DummyBuft;
        fn free = "limited_type_free" (*mut DummyBuft);
        fn get = "limited_type_get" (*mut DummyBuft) -> *mut ggml_backend_buffer_type;
        fn buffers = "limited_type_buffers" (*const DummyBuft) -> usize;
        fn bytes = "limited_type_bytes" (*const DummyBuft) -> usize;
    }
}

/// A `struct fake_backends`.
#[repr(C)]
#[derive(Debug)]
pub struct FakeBackends([u8; 0]);

/// `struct fake_setup`.
#[repr(C)]
#[derive(Debug)]
pub struct FakeSetup {
    pub n_types: c_int,
    pub n_backends: c_int,
    pub n_tensors: c_int,
    pub alignments: *const usize,
    pub is_host: *const u8,
    pub pads_rows: *const u8,
    pub backend_types: *const c_int,
    pub supports_types: *const u8,
    pub supports_ops: *const u8,
    pub offloads_ops: *const u8,
    pub op_offload: bool,
    pub parallel: bool,
    pub current_copy: c_int,
    pub optimizes: bool,
}

functions! {
    /// The functions of `fake_backends.h`.
    #[derive(Clone, Copy, Debug)]
    pub struct FakeSchedulers {
        fn new = "fake_backends_new" (*const FakeSetup, *const *mut ggml_tensor) -> *mut FakeBackends;
        fn free = "fake_backends_free" (*mut FakeBackends);
        fn place = "fake_backends_place" (*mut FakeBackends, *mut ggml_tensor, c_int, bool);
        fn assign = "fake_backends_assign" (*mut FakeBackends, *mut ggml_tensor, c_int);
        fn schedule = "fake_backends_schedule" (*mut FakeBackends, *mut ggml_cgraph) -> bool;
        fn backend = "fake_backends_backend" (*mut FakeBackends, *mut ggml_tensor) -> c_int;
        fn splits = "fake_backends_splits" (*mut FakeBackends) -> c_int;
        fn copies = "fake_backends_copies" (*mut FakeBackends) -> c_int;
        fn graph = "fake_backends_graph" (*mut FakeBackends) -> *mut ggml_cgraph;
        fn node_ids = "fake_backends_node_ids" (*mut FakeBackends) -> *const c_int;
        fn leaf_ids = "fake_backends_leaf_ids" (*mut FakeBackends) -> *const c_int;
        fn buffer_type = "fake_backends_type" (*mut FakeBackends, c_int) -> *mut ggml_backend_buffer_type;
    }
}

/// The loaded ggml.
#[derive(Debug)]
pub struct Ggml {
    pub(super) functions: Functions,
    /// The numbers of the operations, by name.
    pub(super) ops: HashMap<String, u32>,
    /// The numbers of the element types, by name.
    pub(super) types: HashMap<String, u32>,
}

/// ggml's own allocator and lastuse, both for one ggml in this process.
#[derive(Debug)]
pub struct Allocators {
    /// From `libggml-base.so`.
    pub(super) upstream: Api,
    /// From `liblastuse.so`.
    pub(super) lastuse: Api,
    pub(super) own: Own,
    pub(super) ggml: Ggml,
    pub(super) limited_types: LimitedTypes,
    /// Loaded before ggml, for [`Allocators::open_with_fake_backends`].
    pub(super) fake_schedulers: Option<FakeSchedulers>,
}

static OPEN: OnceLock<Result<Allocators>> = OnceLock::new();

impl Allocators {
    /// Builds and loads both, once in a process. They are never unloaded.
    ///
    /// # Errors
    /// When something does not build or load, or when lastuse hands its calls over to ggml.
    pub fn open() -> Result<&'static Self> {
        OPEN.get_or_init(|| Self::load(Package::LlamaCpp, false)).as_ref().map_err(Clone::clone)
    }

    /// Builds and loads both for the ggml of a package, in a process whose schedulers allocate nothing: for
    /// [`RealScheduler`](super::RealScheduler). A process has either these or those of [`Allocators::open`].
    ///
    /// # Errors
    /// When something does not build or load.
    pub fn open_with_fake_backends(package: Package) -> Result<&'static Self> {
        OPEN.get_or_init(|| Self::load(package, true)).as_ref().map_err(Clone::clone)
    }

    fn load(package: Package, with_fake_backends: bool) -> Result<Self> {
        let vendored = lastuse_vendor::ggml(package)?;
        let fake_schedulers = with_fake_backends.then(|| load_fake_backends(&vendored)).transpose()?;
        // Visible to all: lastuse refers to ggml's functions without naming their library.
        let base = open(&vendored.libraries.join("libggml-base.so"), RTLD_GLOBAL)?;
        let ggml = Ggml::new(Functions::find(base)?, &vendored.sources.join("include/ggml.h"))?;
        let sources = ["support/limited_type.c"];
        let limited = open(&Program::build_shared("limited-type.so", &sources, &vendored, &[])?, RTLD_LOCAL)?;
        let shared = open(&crate::lastuse(Build::Release)?.shared, RTLD_LOCAL)?;
        let (own, lastuse) = (Own::find(shared)?, Api::find(shared)?);
        // Calls of this process are bound to neither library: lastuse learns from the first that it is reached.
        // SAFETY: takes nothing.
        let cpu = unsafe { (ggml.functions.cpu_buffer_type)() };
        // SAFETY: a buffer type, which is never freed.
        let galloc = unsafe { (lastuse.gallocr_new)(cpu) };
        // SAFETY: made above.
        unsafe { (lastuse.gallocr_free)(galloc) };
        // SAFETY: takes nothing.
        if !unsafe { (own.enabled)() } {
            return Err("lastuse is switched off: is the variable LASTUSE set?".to_owned());
        }
        let limited_types = LimitedTypes::find(limited)?;
        Ok(Self { upstream: Api::find(base)?, lastuse, own, ggml, limited_types, fake_schedulers })
    }
}

/// Loads the fake backends, and ggml behind them: calls of ggml to what both define go to the former.
fn load_fake_backends(ggml: &lastuse_vendor::Ggml) -> Result<FakeSchedulers> {
    let libraries = ggml.libraries.display();
    let (folder, path) = (format!("-L{libraries}"), format!("-Wl,-rpath,{libraries}"));
    let flags = [&folder, "-lggml-base", &path];
    let name = format!("fake-backends-{}.so", ggml.version);
    let library = Program::build_shared(&name, &["support/fake_backends.c"], ggml, &flags)?;
    FakeSchedulers::find(open(&library, RTLD_GLOBAL)?)
}

fn open(path: &Path, visibility: c_int) -> Result<&'static Library> {
    // SAFETY: what these libraries do when they are loaded needs nothing from us.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | visibility) };
    let library = library.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Box::leak(Box::new(library)))
}

impl Ggml {
    /// ggml returns the names of operations and types without a bounds check: the header has their number.
    fn new(functions: Functions, header: &Path) -> Result<Self> {
        let text = fs::read_to_string(header).map_err(|error| format!("{}: {error}", header.display()))?;
        let numbers = |prefix: &str| {
            let count = format!("{prefix}_COUNT");
            let all = enumerators(&text, &prefix.to_lowercase()).into_iter();
            let known: Vec<u32> = all.filter(|(name, _)| *name != count).map(|(_, number)| number).collect();
            if known.is_empty() {
                Err(format!("{} lacks the numbers of {prefix}", header.display()))
            } else {
                Ok(known)
            }
        };
        let ops = numbers("GGML_OP")?.into_iter().map(|op| {
            // SAFETY: the number of an operation.
            (text_of(unsafe { (functions.op_name)(op) }), op)
        });
        let types = numbers("GGML_TYPE")?.into_iter().map(|kind| {
            // SAFETY: the number of an element type.
            (text_of(unsafe { (functions.type_name)(kind) }), kind)
        });
        Ok(Self { functions, ops: ops.collect(), types: types.collect() })
    }
}

/// One of ggml's names.
fn text_of(name: *const c_char) -> String {
    assert!(!name.is_null(), "ggml has a name for each of its numbers");
    // SAFETY: ggml's names end in NUL and are never freed.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}
