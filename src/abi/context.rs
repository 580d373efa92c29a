//! `lastuse_context_*`: contexts that need no size.

use std::ffi::c_int;
use std::fmt::Display;
use std::ptr::{NonNull, null_mut};

use crate::ggml::{BufferType, ContextKind, Kind, NotAlive, NotRealized, Runtime, Wanted, abort, free_context};
use crate::ggml::{ggml_backend_buffer_type, ggml_context, ggml_of_type, is_freed, new_context, realize_context};

use super::guard;
use super::refusal::{ggml_for, refuse};

/// When the tensors of a context get their memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub enum lastuse_context_kind {
    /// At once: for weights, inputs, caches. In host memory when they are made; or, when the parameters name a buffer
    /// type, there, when they are first needed.
    LASTUSE_CONTEXT_IMMEDIATE = 0,
    /// When a graph is allocated (ggml_gallocr_alloc_graph, ggml_backend_sched_alloc_graph): for graphs. The same as
    /// no_alloc of ggml_init.
    LASTUSE_CONTEXT_DEFERRED = 1,
}

/// What lastuse_context_new may be told. The caller sets struct_size and zeroes the rest, which then means the default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_context_params {
    /// sizeof(struct lastuse_context_params): which fields there are. Later versions may add some at the end.
    pub struct_size: usize,
    /// Where the tensors of an immediate context get their memory; NULL: in host memory, with the context. It must
    /// outlive the context. For a deferred context NULL.
    pub buft: *mut ggml_backend_buffer_type,
    /// Bytes of address space, rounded up to whole pages; 0: as much as makes sense. The context can never take more.
    pub address_space: usize,
    /// What the buffers of buft are marked with, an enum ggml_backend_buffer_usage: GGML_BACKEND_BUFFER_USAGE_WEIGHTS
    /// for the weights of a model, so that ggml_backend_sched runs operations where their weights are; 0 for all else.
    pub usage: c_int,
}

/// A genuine ggml context that needs no size: it reserves address space and takes memory only as tensors and graphs are
/// made in it. Everything of ggml works with it, except that lastuse_context_free frees it. To empty it and use it
/// again, as for the next token, call ggml_reset: that costs a few stores, the pages stay, and so do the addresses.
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
/// they are made; when params names a buffer type, they get memory there when a graph that reads one of them is
/// reserved or allocated by a ggml_gallocr, or when lastuse_context_realize is called: see there for when a program
/// should. That memory is never part of a compute buffer.
///
/// Address space. The default is 4 GiB for contexts that hold no data (368 bytes a tensor: eleven million tensors), and
/// the memory of the machine for those that do; but at most a 128th of what all contexts together leave of 64 TiB, or 1
/// GiB where that is more, so that thousands can be alive at once. When the system gives less, a context gets less,
/// down to 64 MiB, and ggml's log says so; as much as it gets always stays free for others. A context that is full does
/// what contexts of ggml do then. Where the system accounts address space strictly (vm.overcommit_memory=2), say in
/// params.address_space what is needed.
///
/// NULL, with the reason in lastuse_last_error and in ggml's log, when address space cannot be had, when a deferred
/// context is given a buffer type, when kind or usage is no such value, and when lastuse does not know the layout of
/// this ggml. Aborts when params has a struct_size that is too small. params may be NULL. Any thread may call it; the
/// context itself is for one thread at a time, as all of ggml's.
///
/// # Safety
/// `params` is NULL or has struct_size bytes, and its buffer type is NULL or alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_new(
    kind: ContextKind,
    params: *const lastuse_context_params,
) -> *mut ggml_context {
    const NAME: &str = "lastuse_context_new";
    guard(|| {
        // SAFETY: the caller's promise.
        let params = unsafe { checked_params(NAME, params) };
        // SAFETY: the caller's promise.
        let ggml = unsafe { ggml_of_type(params.buft) };
        let Some(runtime) = ggml_for(NAME, ggml) else { return null_mut() };
        // SAFETY: the caller's promise.
        let wanted = unsafe { wanted(runtime, kind, &params) };
        let made = wanted.and_then(|wanted| new_context(runtime, wanted).map_err(|why| why.to_string()));
        made.unwrap_or_else(|why| {
            refuse(NAME, &why);
            null_mut()
        })
    })
}

/// Gives memory to all tensors of an immediate context with a buffer type that have none yet; views get that of their
/// roots. True, at once, when there is nothing to do.
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
/// When: before data is set, and before a graph goes to ggml_backend_sched, which looks where tensors are before it
/// asks any allocator. A ggml_gallocr alone realizes the contexts that a graph reads by itself.
///
/// Memory: the first call takes what its tensors need and no more, in one buffer, or in several where the type has a
/// limit. Later calls fill what is free and then add buffers with some room for tensors still to come, so that a
/// thousand tensors of one size, realized one by one, are in fewer than a hundred buffers. What is free is at most an
/// eighth of what the tensors take, or 64 KiB where that is more, and never more than 128 MiB. After ggml_reset the
/// buffers are filled anew; when they are too small then, one larger takes their place.
///
/// False, with the reason in lastuse_last_error and in ggml's log, when there is not enough memory or the backend
/// fails; tensors that got their memory keep it, and the next call goes on. Also for a deferred context, and for one
/// that is not alive: the latter aborts in debug builds of lastuse.
///
/// # Safety
/// No other thread uses the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_realize(ctx: *mut ggml_context) -> bool {
    const NAME: &str = "lastuse_context_realize";
    guard(|| match realize_context(ctx) {
        Ok(()) => true,
        Err(NotRealized::NotAlive(why)) => misused(NAME, &why),
        Err(why) => refused(NAME, &why),
    })
}

/// Frees a context of lastuse_context_new, with the buffers of its tensors; NULL is fine. Its tensors, and graphs that
/// read them, must not be used any more.
///
/// ```c
/// struct ggml_context * inputs = lastuse_context_new(LASTUSE_CONTEXT_IMMEDIATE, NULL);
/// ggml_set_f32(ggml_new_tensor_1d(inputs, GGML_TYPE_F32, 8), 1.0f);
/// lastuse_context_free(inputs);
/// lastuse_context_free(NULL);
/// ```
///
/// ggml_free does not do: it frees ggml's own small struct, and leaves memory and addresses behind. A context that was
/// freed already, one freed with ggml_free (of which it then frees the rest), and one that comes from elsewhere are
/// left alone, with the reason in lastuse_last_error and in ggml's log; in debug builds of lastuse that aborts. Those
/// also keep the first 2 MiB of the last 64 freed contexts unusable, so that using a tensor of one ends in a fault and
/// not in wrong numbers.
///
/// # Safety
/// No other thread uses the context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_context_free(ctx: *mut ggml_context) {
    const NAME: &str = "lastuse_context_free";
    guard(|| {
        if !ctx.is_null() {
            free_context(ctx).unwrap_or_else(|not_alive| {
                misused(NAME, &not_alive);
            });
        }
    });
}

/// Says why. Answers false.
fn refused(function: &str, why: &dyn Display) -> bool {
    refuse(function, why);
    false
}

/// A mistake of the program: debug builds end here.
fn misused(function: &str, why: &dyn Display) -> bool {
    if cfg!(debug_assertions) {
        abort(file!(), line!(), &format!("{function}: {why}"));
    }
    refused(function, why)
}

/// Debug builds end here when one of the addresses is that of a context freed lately, or of something in it.
pub fn expect_not_freed(function: &str, addresses: &[usize]) {
    if addresses.iter().any(|&address| is_freed(address)) {
        misused(function, &NotAlive::Freed);
    }
}

/// The parameters, which must have their first field; defaults for NULL.
///
/// # Safety
/// `params` is NULL or has as many bytes as its first field says.
unsafe fn checked_params(function: &str, params: *const lastuse_context_params) -> lastuse_context_params {
    let least = size_of::<lastuse_context_params>();
    let Some(params) = NonNull::new(params.cast_mut()) else {
        return lastuse_context_params { struct_size: least, buft: null_mut(), address_space: 0, usage: 0 };
    };
    // SAFETY: the first field, which tells the size, is there in every version.
    let size = unsafe { params.cast::<usize>().read() };
    if size < least {
        abort(file!(), line!(), &format!("{function}: params->struct_size is {size}, and at least {least} is needed"));
    }
    // SAFETY: all fields are there.
    unsafe { params.read() }
}

/// What the arguments ask for.
///
/// # Safety
/// The buffer type is NULL or alive.
unsafe fn wanted(
    runtime: &'static Runtime,
    kind: ContextKind,
    params: &lastuse_context_params,
) -> Result<Wanted, String> {
    let kind = match kind {
        kind if kind == lastuse_context_kind::LASTUSE_CONTEXT_IMMEDIATE as ContextKind => Kind::Immediate,
        kind if kind == lastuse_context_kind::LASTUSE_CONTEXT_DEFERRED as ContextKind => Kind::Deferred,
        other => return Err(format!("kind is {other}, which is no enum lastuse_context_kind")),
    };
    let usage = u32::try_from(params.usage).ok().filter(|&usage| usage <= 2);
    let usage = usage.ok_or_else(|| format!("params->usage is {}: no enum ggml_backend_buffer_usage", params.usage))?;
    // SAFETY: the caller's promise.
    let buft = NonNull::new(params.buft).map(|buft| unsafe { BufferType::new(runtime, buft) });
    if kind == Kind::Deferred && buft.is_some() {
        return Err("a deferred context has no memory of its own: params->buft must be NULL".to_owned());
    }
    let address_space = Some(params.address_space).filter(|&bytes| bytes > 0);
    Ok(Wanted { kind, memory: buft.map(|buft| (buft, usage)), address_space })
}
