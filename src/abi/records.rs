//! What lastuse writes down while a program runs: `lastuse_accounting_json`, `lastuse_buffer_note*`, of what devices hold;
//! `lastuse_graph_dump*`, of the values of tensors.

use std::ffi::c_char;
use std::ptr::null_mut;

use crate::accounting::Moment;
use crate::ggml::{BufferRef, Runtime, begin_dump, dump_graph, note_buffer_allocated, note_buffer_freed, recorder};
use crate::ggml::{ggml_backend_buffer, ggml_cgraph, ggml_of_object};

use super::arguments::ggml_of_graph;
use super::call::{Call, Failed, call};
use super::process::c_string;

/// Returns what the devices hold, to the byte, as JSON in the format lastuse-accounting (docs/accounting.md): now or, with
/// at_peak, for each device at the moment when it held the most. Counts the buffers that lastuse has allocated since
/// recording began, those in which tensors of planned graphs lie, and those that are noted. The caller frees the string
/// with lastuse_string_free. Returns NULL if nothing is recorded (lastuse_set: accounting).
#[unsafe(no_mangle)]
pub extern "C" fn lastuse_accounting_json(at_peak: bool) -> *mut c_char {
    call("lastuse_accounting_json", |call| {
        let json = recorder().json(if at_peak { Moment::Largest } else { Moment::Now });
        json.map(|json| c_string(&json)).map_err(|why| call.refuse_silently(&why))
    })
}

/// Notes a buffer that the program has allocated by functions that lastuse does not replace, such as
/// ggml_backend_alloc_buffer or ggml_backend_cpu_buffer_from_ptr. The program also notes when it frees them. asked are
/// the bytes that the buffer type was asked for; is_mapped is true for memory that was made a buffer, such as a mapped
/// file. Returns false if nothing is recorded, or lastuse does not know the layout of this ggml.
///
/// # Safety
/// `buffer` is live, and no other thread frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_buffer_note(buffer: *mut ggml_backend_buffer, asked: usize, is_mapped: bool) -> bool {
    call("lastuse_buffer_note", |call| {
        // SAFETY: NULL or live: see "# Safety".
        let (runtime, buffer) = unsafe { noted(call, buffer, note_buffer_allocated) }?;
        let noted = recorder().note_buffer(runtime, buffer, asked as u64, is_mapped);
        noted.map(|()| true).map_err(|why| call.refuse_silently(&why))
    })
}

/// Notes that the program is about to free a buffer, whether or not it was noted. Returns false if nothing is recorded,
/// or lastuse does not know the layout of this ggml.
///
/// # Safety
/// `buffer` is live, and no other thread frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_buffer_note_free(buffer: *mut ggml_backend_buffer) -> bool {
    call("lastuse_buffer_note_free", |call| {
        // SAFETY: NULL or live: see "# Safety".
        let (runtime, buffer) = unsafe { noted(call, buffer, note_buffer_freed) }?;
        recorder().note_freed(runtime, buffer).map(|()| true).map_err(|why| call.refuse_silently(&why))
    })
}

/// Notes a buffer for checks of memory, which need no layout, and returns it with its runtime.
///
/// # Safety
/// `buffer` is NULL, or live and not freed meanwhile.
unsafe fn noted(
    call: Call,
    buffer: *mut ggml_backend_buffer,
    note: fn(usize),
) -> Result<(&'static Runtime, BufferRef), Failed> {
    let buffer = call.required("buffer", buffer);
    note(buffer.as_ptr().addr());
    // SAFETY: a live buffer: see "# Safety".
    let runtime = call.runtime(unsafe { ggml_of_object(buffer.as_ptr().cast_const()) })?;
    // SAFETY: live, and not freed meanwhile: see "# Safety".
    Ok((runtime, unsafe { BufferRef::from_non_null(buffer) }))
}

/// Prepares a graph for lastuse_graph_dump, before it is computed: flags the tensors that will be dumped as outputs, so
/// that no backend leaves out their results, as it may when it fuses a node with the next one. Without this call, files
/// of fused tensors have what was in their memory before. lastuse_graph_dump removes the flags. Returns false if no
/// names are set or lastuse is not enabled.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_dump_begin(graph: *mut ggml_cgraph) -> bool {
    call("lastuse_graph_dump_begin", |call| {
        let graph = call.required("graph", graph);
        call.enabled()?;
        // SAFETY: live, and used by this thread only: see "# Safety".
        unsafe { begin_dump(graph) }.map(|()| true).map_err(|why| call.refuse_silently(&why))
    })
}

/// Writes the values of the tensors of a graph that has been computed, as arrays for numpy.load: of the nodes and
/// inputs whose names lastuse_set("dump", ...) selects. Each call writes to the next free folder, "run-00001" and so on, with
/// an "index.jsonl" (docs/values.md). Asynchronous backends must be synchronized before. n_written may be NULL;
/// otherwise it gets the number of arrays. Returns false if a tensor could not be written (the others were), if no
/// names are set, and if lastuse is not enabled or does not know the layout of this ggml.
///
/// # Safety
/// `graph`, its tensors and their buffers are live, and neither another thread nor a backend uses them; `n_written` is
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_dump(graph: *mut ggml_cgraph, n_written: *mut usize) -> bool {
    call("lastuse_graph_dump", |call| {
        let graph = call.required("graph", graph);
        call.enabled()?;
        // SAFETY: a live graph of this thread: see "# Safety".
        let ggml = unsafe { ggml_of_graph(null_mut(), graph) };
        let (runtime, ggml) = (call.runtime(ggml)?, call.done(ggml)?);
        // SAFETY: live, and used by this thread only: see "# Safety".
        let dumped = unsafe { dump_graph(ggml, runtime, graph) }.map_err(|why| call.refuse_silently(&why))?;
        if let Some(why) = dumped.failure {
            return Err(call.refuse_silently(&why));
        }
        if !n_written.is_null() {
            // SAFETY: not NULL, so writable: see "# Safety".
            unsafe { n_written.write(dumped.written) };
        }
        Ok(true)
    })
}
