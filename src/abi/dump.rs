//! `lastuse_set_dump`, `lastuse_graph_dump_begin`, `lastuse_graph_dump`: writing the values of tensors to files.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;

use crate::ggml::{DumpSetting, begin_dump, dump_graph, dumps, ggml_cgraph, log_error};
use crate::graph::NamePattern;

use super::abort::{abort_on_panic, required};
use super::enabled::{check_enabled_or_not_loaded, is_enabled};
use super::ggml_of_arguments::{ggml_of_graph, runtime_or_fail};
use super::last_error::{fail, set_last_error};

/// Sets the names of tensors whose values are written to files after a run, and the folder of these files. The
/// environment variables LASTUSE_DUMP and LASTUSE_DUMP_DIR set them at the start.
///
/// pattern is a list of names separated by commas, in which "*" stands for any characters and "?" for one: "l_out-*,kq".
/// The tensors are retained (lastuse_set_retain) in every graph that is planned from now on, so that they can be read
/// after the run. NULL or an empty string ends that. dir is created if it is missing; NULL stands for "lastuse-dump" in
/// the working directory. The strings are copied.
///
/// ```c
/// GGML_ASSERT(!lastuse_set_dump("l_out-*", "/dev/null/dump")); // not a folder
/// printf("nothing is dumped: %s\n", lastuse_last_error());
/// GGML_ASSERT(lastuse_set_dump(NULL, NULL) == lastuse_enabled()); // no names
/// ```
///
/// Files are written by lastuse_graph_dump, which the program calls after it has computed a graph. For programs that do
/// not call it, "lastuse run --dump" does, or LD_PRELOAD with liblastuse.so and liblastuse_guard.so.
///
/// Returns false and changes nothing if pattern is not valid, the folder cannot be written to or lastuse is not enabled;
/// the reason is in lastuse_last_error and in ggml's log. Any thread may call it.
///
/// # Safety
/// `pattern` and `dir` are NULL, or strings that end in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_set_dump(pattern: *const c_char, dir: *const c_char) -> bool {
    const NAME: &str = "lastuse_set_dump";
    abort_on_panic(|| {
        if let Err(why) = check_enabled_or_not_loaded() {
            fail(NAME, &why);
            return false;
        }
        // SAFETY: a string, as the caller guarantees.
        let pattern = (!pattern.is_null()).then(|| unsafe { CStr::from_ptr(pattern) }.to_string_lossy());
        // SAFETY: a string, as the caller guarantees.
        let dir = (!dir.is_null()).then(|| OsStr::from_bytes(unsafe { CStr::from_ptr(dir) }.to_bytes()));
        // The environment, which is read once, must not override a call before the first graph.
        dumps().follow_environment(log_error);
        let setting = parse_setting(NAME, pattern.as_deref().unwrap_or_default(), dir);
        setting.map(|setting| dumps().set(setting)).is_some()
    })
}

/// Prepares a graph for lastuse_graph_dump, before it is computed: flags the tensors that will be dumped as outputs, so
/// that no backend leaves out their results, as it may when it fuses a node with the next one. lastuse_graph_dump removes
/// these flags.
///
/// ```c
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// struct ggml_tensor * t = ggml_neg(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 8));
/// ggml_build_forward_expand(graph, t);
/// GGML_ASSERT(!lastuse_graph_dump_begin(graph)); // no names are set
/// ```
///
/// Without this call, the file of a tensor that a backend has fused with the next one has other values: those that were
/// in its memory before. Where nodes are not fused, results do not depend on the call; those of a GPU may differ in the
/// last bits, as they do between versions of a backend.
///
/// Returns false if no names are set or lastuse is not enabled; lastuse_last_error has the reason. Aborts if graph is
/// NULL.
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_dump_begin(graph: *mut ggml_cgraph) -> bool {
    const NAME: &str = "lastuse_graph_dump_begin";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        // SAFETY: live, and used by this thread only, as the caller guarantees.
        let begun = || unsafe { begin_dump(graph) };
        is_enabled(NAME) && begun().inspect_err(|why| set_last_error(NAME, why)).is_ok()
    })
}

/// Writes the values of the tensors of a graph that has been computed, as arrays for numpy.load: of the nodes and inputs
/// whose names lastuse_set_dump or LASTUSE_DUMP selects.
///
/// ```c
/// GGML_ASSERT(lastuse_set_dump("square,sum", "dumped") == lastuse_enabled()); // before the graph is allocated
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64);
/// ggml_set_input(input);
/// struct ggml_tensor * square = ggml_set_name(ggml_sqr(ctx, input), "square");
/// struct ggml_cgraph * graph  = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_set_name(ggml_sum(ctx, ggml_sqrt(ctx, square)), "sum"));
/// ggml_gallocr_t galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
/// GGML_ASSERT(ggml_gallocr_alloc_graph(galloc, graph));
/// ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));
///
/// lastuse_graph_dump_begin(graph);
/// GGML_ASSERT(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
/// size_t files = 0;
/// GGML_ASSERT(lastuse_graph_dump(graph, &files) == lastuse_enabled());
/// GGML_ASSERT(files == 2 || !lastuse_enabled()); // dumped/run-00001/node-00000-square.npy, and that of the sum
/// lastuse_set_dump(NULL, NULL);
/// ggml_gallocr_free(galloc);
/// ```
///
/// Each call writes to a folder of its own, "run-00001" and so on, with the next free number: files are never
/// overwritten. The file "index.jsonl" in it has a line for each tensor: position, name, operation, type, shape, file.
/// Arrays have the shape of the tensor in reverse order, without the extents at the end that are 1. BF16 and quantized
/// types are written as F32. A value that a later node changes in place, as ggml_add_inplace does, has the last bytes;
/// "changed_by" in the index names that node.
///
/// If a scheduler or a backend runs the graph asynchronously, the program synchronizes it before the call. n_written may
/// be NULL; otherwise it gets the number of arrays, 0 if no tensor has a matching name, which is logged once.
///
/// Returns false if a tensor could not be written, the others were; if no names are set; and if lastuse is not enabled or
/// does not know the layout of this ggml. The reason is in lastuse_last_error; that of the first tensor that could not be
/// written, in ggml's log too. Aborts if graph is NULL.
///
/// # Safety
/// `graph`, its tensors and their buffers are live, and neither another thread nor a backend uses them; `n_written` is
/// NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_dump(graph: *mut ggml_cgraph, n_written: *mut usize) -> bool {
    const NAME: &str = "lastuse_graph_dump";
    abort_on_panic(|| {
        let graph = required(graph, NAME, "graph");
        if !is_enabled(NAME) {
            return false;
        }
        // SAFETY: a live graph of this thread, as the caller guarantees.
        let ggml = unsafe { ggml_of_graph(null_mut(), graph) };
        let Some(runtime) = runtime_or_fail(NAME, ggml) else { return false };
        let Ok(ggml) = ggml else { return false };
        // SAFETY: live, and used by this thread only, as the caller guarantees.
        let dumped = unsafe { dump_graph(ggml, runtime, graph) };
        let dumped =
            dumped.map_err(|why| why.to_string()).and_then(|dumped| dumped.failure.map_or(Ok(dumped.written), Err));
        if let (Ok(written), false) = (&dumped, n_written.is_null()) {
            // SAFETY: writable, as the caller guarantees.
            unsafe { n_written.write(*written) };
        }
        dumped.inspect_err(|why| set_last_error(NAME, why)).is_ok()
    })
}

/// Returns the setting, or none for an empty pattern; `None`, with the last error set and logged, if it is not valid.
fn parse_setting(function: &str, pattern: &str, dir: Option<&OsStr>) -> Option<Option<DumpSetting>> {
    let pattern: NamePattern = pattern.parse().inspect_err(|invalid| fail(function, invalid)).ok()?;
    if pattern.is_empty() {
        return Some(None);
    }
    let setting = DumpSetting::new(pattern, dir.filter(|dir| !dir.is_empty()));
    setting.inspect_err(|error| fail(function, error)).ok().map(Some)
}
