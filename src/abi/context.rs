//! `lastuse_context_*`: contexts that need no size.

use std::ffi::c_int;
use std::fmt::Display;
use std::ptr::{NonNull, null_mut};

use crate::ggml::{
    BufferType, ContextKind, ContextMode, ContextOptions, NotLive, NotRealized, Runtime, abort, free_context,
};
use crate::ggml::{ggml_backend_buffer_type, ggml_context, ggml_of_type, is_freed, new_context, realize_context};

use super::abort::abort_on_panic;
use super::ggml_of_arguments::runtime_or_fail;
use super::last_error::fail;
use super::struct_size::{callers_struct, sized_struct};

/// When the tensors of a context get their memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub enum lastuse_context_kind {
    /// For weights, inputs and caches: in host memory, when they are made; or, if the parameters name a buffer type, in
    /// that, when they are first needed.
    LASTUSE_CONTEXT_IMMEDIATE = 0,
    /// For graphs: when a graph is allocated (ggml_gallocr_alloc_graph, ggml_backend_sched_alloc_graph), as with
    /// no_alloc of ggml_init.
    LASTUSE_CONTEXT_DEFERRED = 1,
}

/// Parameters of lastuse_context_new. The caller sets struct_size and zeroes the rest; zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_context_params {
    /// sizeof(struct lastuse_context_params). Later versions may add fields at the end.
    pub struct_size: usize,
    /// The buffer type of the tensors of an immediate context, which must outlive the context; NULL: host memory, in
    /// the context. NULL for a deferred context.
    pub buft: *mut ggml_backend_buffer_type,
    /// The largest size of the context in bytes of address space, rounded up to whole pages; 0: the default.
    pub address_space: usize,
    /// The usage of the buffers of buft, an enum ggml_backend_buffer_usage: GGML_BACKEND_BUFFER_USAGE_WEIGHTS for the
    /// weights of a model, so that ggml_backend_sched runs operations where their weights are; 0 otherwise.
    pub usage: c_int,
}

sized_struct!(lastuse_context_params);

/// Creates a ggml context that needs no size: it reserves address space, and takes memory only as tensors and graphs
/// are made in it. All functions of ggml work with it, except that the caller frees it with lastuse_context_free.
///
/// To empty the context for reuse, as for the next token, call ggml_reset: its pages and addresses stay.
///
/// ```c
/// struct ggml_context * graphs = lastuse_context_new(LASTUSE_CONTEXT_DEFERRED, NULL);
/// for (int token = 0; token < 3; token++) {
///     ggml_reset(graphs);
///     struct ggml_tensor * sum = ggml_new_tensor_1d(graphs, GGML_TYPE_F32, 64);
///     ggml_set_input(sum);
///     for (int layer = 0; layer < 1000; layer++) {
///         sum = ggml_add(graphs, sum, sum);
///     }
///     struct ggml_cgraph * graph = ggml_new_graph_custom(graphs, 2000, false);
///     ggml_build_forward_expand(graph, sum);
///     GGML_ASSERT(ggml_graph_n_nodes(graph) == 1000 && sum->data == NULL);
/// }
/// lastuse_context_free(graphs);
/// ```
///
/// Kinds. The tensors of a deferred context get memory from ggml_gallocr, ggml_backend_sched or
/// ggml_backend_alloc_ctx_tensors, as with no_alloc. Those of an immediate context have host memory in the context when
/// they are made. If params names a buffer type, they get memory in it when a ggml_gallocr reserves or allocates a
/// graph that reads one of them, or when the program calls lastuse_context_realize. That memory is never part of a
/// compute buffer.
///
/// Address space. The default is 4 GiB for contexts that hold no data (368 bytes a tensor: eleven million tensors), and
/// the memory of the machine for those that do; but at most a 128th of what all contexts together leave of 64 TiB, or 1
/// GiB where that is more, so that thousands can exist at once. If the system provides less, a context gets less, down
/// to 64 MiB, which is logged; as much as it gets always stays free for others. A full context behaves as contexts of
/// ggml do. Where the system accounts address space strictly (vm.overcommit_memory=2), set params->address_space to
/// what is needed.
///
/// params may be NULL, and is not used after the call. Returns NULL if address space cannot be reserved, if a deferred
/// context is given a buffer type, if kind or usage has no valid value, and if lastuse does not know the layout of this
/// ggml; the reason is in lastuse_last_error and in ggml's log. Works also if lastuse is not enabled. Aborts if
/// params->struct_size is not set. Any thread may call it; one thread at a time may use the context.
///
/// # Safety
/// `params` is NULL or points to struct_size bytes, and its buffer type is NULL or outlives the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_new(
    kind: ContextKind,
    params: *const lastuse_context_params,
) -> *mut ggml_context {
    const NAME: &str = "lastuse_context_new";
    abort_on_panic(|| {
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let params = unsafe { checked_params(NAME, params) };
        // SAFETY: NULL or live, as the caller guarantees.
        let ggml = unsafe { ggml_of_type(params.buft) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return null_mut() };
        // SAFETY: NULL or outlives the context, as the caller guarantees.
        let request = unsafe { request(runtime, kind, &params) };
        let made = request.and_then(|request| new_context(runtime, request).map_err(|why| why.to_string()));
        made.inspect_err(|why| fail(NAME, why)).unwrap_or(null_mut())
    })
}

/// Allocates all tensors without memory of an immediate context with a buffer type; views get the memory of their
/// roots. Returns true, at once, if there is nothing to do.
///
/// ```c
/// struct lastuse_context_params params = { sizeof(params), NULL, 0, GGML_BACKEND_BUFFER_USAGE_WEIGHTS };
/// params.buft = ggml_backend_get_default_buffer_type(backend);
/// struct ggml_context * weights = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, &params);
/// struct ggml_tensor * weight = ggml_new_tensor_2d(weights, GGML_TYPE_F32, 4, 2);
/// const float values[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
/// GGML_ASSERT(lastuse_context_realize(weights));
/// ggml_backend_tensor_set(weight, values, 0, sizeof(values));
/// struct ggml_tensor * later = ggml_dup_tensor(weights, weight);
/// GGML_ASSERT(lastuse_context_realize(weights) && later->data != NULL && later->data != weight->data);
/// lastuse_context_free(weights);
/// ```
///
/// When: before data is set, and before a graph is passed to ggml_backend_sched, which reads where tensors are before
/// it calls an allocator. A ggml_gallocr realizes the contexts that its graphs read by itself.
///
/// Memory: the first call allocates what its tensors need and no more, in one buffer, or in several if the type has a
/// limit. Later calls fill free memory and then add buffers with some room for later tensors, so that a thousand
/// tensors of one size, realized one by one, are in fewer than a hundred buffers. Free memory is at most an eighth of
/// what the tensors take, or 64 KiB where that is more, and never more than 128 MiB. After ggml_reset the buffers are
/// reused; if they are too small then, one larger buffer replaces them.
///
/// Returns false if there is not enough memory or the backend fails, and for a deferred context; the reason is in
/// lastuse_last_error and in ggml's log. Tensors that got memory keep it, and the next call continues. Returns false
/// also for a context that is NULL, freed, or not from lastuse_context_new; debug builds of lastuse abort then.
///
/// # Safety
/// No other thread uses the context or its tensors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_realize(ctx: *mut ggml_context) -> bool {
    const NAME: &str = "lastuse_context_realize";
    abort_on_panic(|| {
        // SAFETY: no other thread uses it, as the caller guarantees.
        let realized = unsafe { realize_context(ctx) };
        match &realized {
            Ok(()) => {}
            Err(NotRealized::NotLive(why)) => fail_on_misuse(NAME, why),
            Err(why) => fail(NAME, why),
        }
        realized.is_ok()
    })
}

/// Frees a context of lastuse_context_new and the buffers of its tensors; does nothing for NULL. Its tensors, and
/// graphs that read them, must not be used any more.
///
/// ```c
/// struct ggml_context * inputs = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, NULL);
/// ggml_set_f32(ggml_new_tensor_1d(inputs, GGML_TYPE_F32, 8), 1.0f);
/// lastuse_context_free(inputs);
/// lastuse_context_free(NULL);
/// ```
///
/// ggml_free is not enough: it frees only ggml's own struct, and keeps memory and address space. A context that was
/// freed before, or that is not from lastuse_context_new, is left unchanged; one that was freed with ggml_free is freed
/// completely. In each of these cases the reason is in lastuse_last_error and in ggml's log, and debug builds of
/// lastuse abort. Debug builds also keep the first 2 MiB of the last 64 freed contexts inaccessible, so that the use of
/// a freed tensor ends in a fault instead of wrong numbers.
///
/// # Safety
/// No other thread uses the context, and nothing uses it or its tensors afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_free(ctx: *mut ggml_context) {
    const NAME: &str = "lastuse_context_free";
    abort_on_panic(|| {
        if !ctx.is_null() {
            // SAFETY: no other thread uses it, and nothing does afterwards, as the caller guarantees.
            unsafe { free_context(ctx) }.unwrap_or_else(|not_live| fail_on_misuse(NAME, &not_live));
        }
    });
}

/// Reports a mistake of the program: aborts in debug builds, otherwise sets the last error and logs it.
fn fail_on_misuse(function: &str, why: &dyn Display) {
    if cfg!(debug_assertions) {
        abort(file!(), line!(), &format!("{function}: {why}"));
    }
    fail(function, why);
}

/// In debug builds, aborts if one of the addresses is in a context that was freed recently.
pub(super) fn expect_not_freed(function: &str, addresses: &[usize]) {
    if addresses.iter().any(|&address| is_freed(address)) {
        fail_on_misuse(function, &NotLive::Freed);
    }
}

/// Returns the parameters; the defaults for NULL. Aborts if the struct is too small.
///
/// # Safety
/// `params` is NULL, or points to as many bytes as its first field states.
unsafe fn checked_params(function: &str, params: *const lastuse_context_params) -> lastuse_context_params {
    // SAFETY: NULL or of its stated size, as the caller guarantees.
    let given = unsafe { callers_struct(function, "params", params.cast_mut()) };
    let defaults = || lastuse_context_params { struct_size: 0, buft: null_mut(), address_space: 0, usage: 0 };
    given.map_or_else(defaults, |params| params.read())
}

/// Returns the context that the arguments request.
///
/// # Errors
/// A message: which argument is wrong.
///
/// # Safety
/// The buffer type is NULL, or of this ggml and outlives the context.
unsafe fn request(
    runtime: &'static Runtime,
    kind: ContextKind,
    params: &lastuse_context_params,
) -> Result<ContextOptions, String> {
    let kind = match kind {
        kind if kind == lastuse_context_kind::LASTUSE_CONTEXT_IMMEDIATE as ContextKind => ContextMode::Immediate,
        kind if kind == lastuse_context_kind::LASTUSE_CONTEXT_DEFERRED as ContextKind => ContextMode::Deferred,
        other => return Err(format!("kind is {other}, which is no enum lastuse_context_kind")),
    };
    let usage = u32::try_from(params.usage).ok().filter(|&usage| usage <= 2);
    let usage = usage.ok_or_else(|| format!("params->usage is {}: no enum ggml_backend_buffer_usage", params.usage))?;
    // SAFETY: not NULL, so it outlives the context, as the caller guarantees.
    let buft = NonNull::new(params.buft).map(|buft| unsafe { BufferType::new(runtime, buft) });
    if kind == ContextMode::Deferred && buft.is_some() {
        return Err("a deferred context has no memory of its own: params->buft must be NULL".to_owned());
    }
    let address_space = Some(params.address_space).filter(|&bytes| bytes > 0);
    Ok(ContextOptions { kind, memory: buft.map(|buft| (buft, usage)), address_space })
}
