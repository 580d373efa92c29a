//! `lastuse_accounting_new`: what devices hold.

use std::ffi::CString;
use std::ptr::{NonNull, null_mut};

use crate::devices::accounting::Accounting;
use crate::ggml::{AccountingRequest, BufferRef, Ggml, GraphRef, NoGgml, account, ggml_of_caller, ggml_of_object};
use crate::ggml::{ggml_backend, ggml_backend_buffer, ggml_backend_sched, ggml_cgraph, ggml_context};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::last_error::fail;
use super::struct_size::{required_struct, sized_struct};

/// What devices hold at a moment: made by lastuse_accounting_new.
// Without repr(C): the header then declares a struct that is never defined, and an array of length 0 is no C.
#[derive(Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_accounting([u8; 0]);

/// What a `lastuse_accounting` points to.
pub(super) struct Held {
    /// The accounting.
    pub accounting: Accounting,
    /// The names of the devices.
    pub names: Vec<CString>,
}

/// Parameters of lastuse_accounting_new. The caller sets struct_size and zeroes the rest, then sets what it has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_accounting_params {
    /// sizeof(struct lastuse_accounting_params). Later versions may add fields at the end.
    pub struct_size: usize,
    /// Graphs that were allocated. The buffers that their tensors lie in are counted, with the tensors.
    pub graphs: *const *mut ggml_cgraph,
    /// The length of graphs.
    pub n_graphs: usize,
    /// Contexts of weights and caches. The buffers that their tensors lie in are counted, also those that no graph reads.
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

/// Returns what the devices hold now, to the byte: the buffers that lastuse has allocated, those that the tensors of the
/// given graphs and contexts lie in, and those that are given. The caller frees it with lastuse_accounting_free.
///
/// ```c
/// ggml_set_no_alloc(ctx, true);
/// struct ggml_tensor * w     = ggml_set_name(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, 64), "w");
/// struct ggml_tensor * x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// struct ggml_init_params size = { 2 * ggml_tensor_overhead(), NULL, true };
/// struct ggml_context * weights = ggml_init(size);
/// struct ggml_tensor * kept  = ggml_new_tensor_1d(weights, GGML_TYPE_F32, 100);
/// ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(weights, backend);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_set_input(x);
/// ggml_set_input(w);
/// ggml_build_forward_expand(graph, ggml_mul_mat(ctx, w, x));
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
///
/// struct lastuse_accounting_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.graphs      = &graph;
/// params.n_graphs    = 1;
/// params.contexts    = &weights;
/// params.n_contexts  = 1;
/// params.backend     = backend;
/// struct lastuse_accounting * accounting = lastuse_accounting_new(&params);
/// GGML_ASSERT(accounting != NULL && lastuse_accounting_device_count(accounting) == 1);
/// struct lastuse_device_sums sums;
/// memset(&sums, 0, sizeof(sums));
/// sums.struct_size = sizeof(sums);
/// GGML_ASSERT(lastuse_accounting_device(accounting, 0, &sums));
/// printf("%s: %zu weights, %zu compute, %zu free\n", sums.name, sums.weights, sums.compute, sums.device_free);
/// GGML_ASSERT(sums.weights == ggml_nbytes(kept) && sums.compute >= ggml_nbytes(w));
/// GGML_ASSERT(sums.total == ggml_backend_buffer_get_size(buffer) + ggml_gallocr_get_buffer_size(galloc, 0));
/// lastuse_accounting_free(accounting);
/// ggml_gallocr_free(galloc);
/// ggml_backend_buffer_free(buffer);
/// ggml_free(weights);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// A buffer of the program is found by the tensors in it. If the process records what it allocates (lastuse_set_accounting),
/// and the buffers of the program are noted (lastuse_buffer_note, or liblastuse_guard.so), those are counted too, found or
/// not, and without graphs the recorded ones are listed. A buffer without known tensors is counted as what
/// ggml_backend_buffer_set_usage has set, or else as other.
///
/// Returns NULL, with the reason in lastuse_last_error and in ggml's log, if a buffer in buffers combines several, or if
/// lastuse does not know the layout of this ggml. Works also if lastuse is not enabled; ggml's own graph allocators are
/// found by their tensors then. Aborts if params or an entry of a list is NULL, or params->struct_size is not set.
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
