//! `lastuse_accounting_new`: what devices hold.

use std::ffi::CString;
use std::ptr::{NonNull, null_mut};

use crate::ggml::{AccountingRequest, BufferRef, Ggml, GraphRef, NoGgml, account, ggml_of_caller, ggml_of_object};
use crate::ggml::{ggml_backend, ggml_backend_buffer, ggml_backend_sched, ggml_cgraph, ggml_context};
use crate::offload::accounting::Accounting;

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::last_error::fail;
use super::struct_size::{required_struct, sized_struct};

/// What devices hold at a moment: made by lastuse_accounting_new.
// Without repr(C): the header then declares a struct that is never defined, and an array of length 0 is no C.
#[derive(Debug)]
pub struct lastuse_accounting([u8; 0]);

/// What a `lastuse_accounting` points to.
pub(super) struct Held {
    /// The accounting.
    pub accounting: Accounting,
    /// The names of the devices.
    pub names: Vec<CString>,
}

/// Parameters of lastuse_accounting_new.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct lastuse_accounting_params {
    /// sizeof(struct lastuse_accounting_params).
    pub struct_size: usize,
    /// Graphs that were allocated. The buffers that their tensors lie in are counted, with the tensors.
    pub graphs: *const *mut ggml_cgraph,
    /// The length of graphs.
    pub n_graphs: usize,
    /// Contexts of weights and caches, whose buffers are counted, also those that no graph reads.
    pub contexts: *const *mut ggml_context,
    /// The length of contexts.
    pub n_contexts: usize,
    /// Further buffers, in which no tensor of a graph or a context lies.
    pub buffers: *const *mut ggml_backend_buffer,
    /// The length of buffers.
    pub n_buffers: usize,
    /// The scheduler that has allocated the graphs, which knows the backend of each node; or NULL.
    pub sched: *mut ggml_backend_sched,
    /// The backend that computes the graphs, if there is no scheduler; or NULL.
    pub backend: *mut ggml_backend,
}

sized_struct!(lastuse_accounting_params);

/// Returns what the devices hold now, to the byte: the buffers that lastuse has allocated, those that the tensors of
/// the given graphs and contexts lie in, and those that are given; while the process records (lastuse_set: accounting),
/// also what it has recorded. The caller frees it with lastuse_accounting_free. Returns NULL if a buffer in buffers
/// combines several, or if lastuse does not know the layout of this ggml.
///
/// # Safety
/// `params` points to struct_size bytes, and the lists hold as many entries as it says, all of them live and used by no
/// other thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_accounting_new(params: *const lastuse_accounting_params) -> *mut lastuse_accounting {
    const NAME: &str = "lastuse_accounting_new";
    abort_on_panic(|| {
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let params = unsafe { required_struct(NAME, "params", params.cast_mut()) }.read();
        // SAFETY: everything is live, as the caller guarantees.
        let accounting = unsafe { accounted(NAME, &params) };
        accounting.map_or(null_mut(), |accounting| {
            let name = |name: &str| CString::new(name.replace('\0', " ")).unwrap_or_default();
            let names = accounting.devices.iter().map(|device| name(&device.name)).collect();
            Box::into_raw(Box::new(Held { accounting, names })).cast()
        })
    })
}

/// # Safety
/// What `lastuse_accounting_new` requires.
unsafe fn accounted(function: &str, params: &lastuse_accounting_params) -> Option<Accounting> {
    // SAFETY: as many entries, as the caller guarantees.
    let graphs = unsafe { list(function, "params->graphs", params.graphs, params.n_graphs) };
    // SAFETY: as above.
    let contexts = unsafe { list(function, "params->contexts", params.contexts, params.n_contexts) };
    // SAFETY: as above.
    let buffers = unsafe { list(function, "params->buffers", params.buffers, params.n_buffers) };
    // SAFETY: live, as the caller guarantees.
    let ggml = unsafe { ggml_of_accounting(params, &graphs, &buffers) };
    let runtime = runtime_or_fail(function, ggml)?;
    // SAFETY: live graphs, as the caller guarantees.
    let graphs = graphs.into_iter().map(|graph| unsafe { GraphRef::new(graph) }).collect();
    // SAFETY: live buffers, as the caller guarantees.
    let buffers = buffers.into_iter().map(|buffer| unsafe { BufferRef::from_non_null(buffer) }).collect();
    let (scheduler, backend) = (NonNull::new(params.sched), NonNull::new(params.backend));
    let request = AccountingRequest { graphs, contexts, buffers, scheduler, backend };
    // SAFETY: everything is live, as the caller guarantees.
    unsafe { account(runtime, &request) }.inspect_err(|why| fail(function, why)).ok()
}

/// Returns a list of C; aborts if an entry is NULL.
///
/// # Safety
/// `entries` holds `count` pointers, or `count` is 0.
unsafe fn list<T>(function: &str, name: &str, entries: *const *mut T, count: usize) -> Vec<NonNull<T>> {
    if count == 0 {
        return Vec::new();
    }
    let entries = required(entries.cast_mut(), function, name);
    // SAFETY: `count` pointers, as the caller guarantees.
    let entries = unsafe { std::slice::from_raw_parts(entries.as_ptr(), count) };
    let entry = |(at, &entry): (usize, &*mut T)| required(entry, function, &format!("{name}[{at}]"));
    entries.iter().enumerate().map(entry).collect()
}

/// Finds the ggml of the backend, the first buffer or the first graph; otherwise the caller's.
///
/// # Safety
/// Everything is live.
unsafe fn ggml_of_accounting(
    params: &lastuse_accounting_params,
    graphs: &[NonNull<ggml_cgraph>],
    buffers: &[NonNull<ggml_backend_buffer>],
) -> Result<&'static Ggml, NoGgml> {
    match (buffers.first(), graphs.first()) {
        // SAFETY: a live backend, as the caller guarantees.
        _ if !params.backend.is_null() => unsafe { ggml_of_object(params.backend.cast_const()) },
        // SAFETY: a live buffer, as the caller guarantees.
        (Some(buffer), _) => unsafe { ggml_of_object(buffer.as_ptr().cast_const()) },
        // SAFETY: a live graph, as the caller guarantees.
        (None, Some(&graph)) => unsafe { ggml_of_graph(null_mut(), graph) },
        (None, None) => ggml_of_caller(),
    }
}
