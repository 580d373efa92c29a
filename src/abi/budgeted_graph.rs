//! What the passes that make a graph fit a budget have in common: a ggml whose plans are by lastuse, tensors to retain,
//! structs with parameters and results.

use std::ptr::NonNull;

use crate::ggml::{
    Budgeted, NotFitted, Runtime, TensorRef, abort, ggml_backend_buffer_type, ggml_cgraph, ggml_context, ggml_tensor,
};

use super::abort::{abort_on_panic, required};
use super::ggml_of_arguments::ggml_of_graph;
use super::last_error::fail;
use super::struct_size::{SizedStruct, callers_struct, required_struct};

/// Runs the body of a C function that makes a graph fit a budget: `pass` returns whether it fits, and the results.
///
/// # Safety
/// `params` and `report` point to as many bytes as their first fields, `size_t struct_size`, state; `report` may be NULL.
pub(super) unsafe fn fit<P: SizedStruct, R: SizedStruct>(
    function: &str,
    (context, graph): (*mut ggml_context, *mut ggml_cgraph),
    params: *const P,
    report: *mut R,
    pass: impl FnOnce(NonNull<ggml_context>, NonNull<ggml_cgraph>, P) -> (bool, R),
) -> bool {
    abort_on_panic(|| {
        let (context, graph) = (required(context, function, "ctx"), required(graph, function, "graph"));
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let params = unsafe { required_struct(function, "params", params.cast_mut()) }.read();
        // SAFETY: as above.
        let report = unsafe { callers_struct(function, "report", report) };
        let (fits, filled) = pass(context, graph, params);
        if let Some(report) = report {
            report.write(&filled);
        }
        fits
    })
}

/// Returns whether the graph fits, and the results; sets the last error where it does not.
pub(super) fn outcome<F: Budgeted, R: Default + for<'a> From<&'a F>>(
    function: &str,
    found: Result<F, NotFitted<F>>,
) -> (bool, R) {
    match found {
        Ok(found) => (true, R::from(&found)),
        Err(why) => {
            fail(function, &why);
            match why {
                NotFitted::OverBudget { smallest, .. } => (false, R::from(smallest.as_ref())),
                _ => (false, R::default()),
            }
        }
    }
}

/// Returns the runtime of the ggml that the arguments belong to; `None`, with the last error set, where no ggml is found
/// or ggml's own allocator does the work.
///
/// # Safety
/// `buft` is NULL or live; `graph` and its tensors are live, and no other thread uses them.
pub(super) unsafe fn served_runtime(
    function: &str,
    buft: *mut ggml_backend_buffer_type,
    graph: NonNull<ggml_cgraph>,
) -> Option<&'static Runtime> {
    // SAFETY: NULL or live, as the caller guarantees.
    let ggml = unsafe { ggml_of_graph(buft, graph) }.inspect_err(|why| fail(function, why)).ok()?;
    let runtime = ggml.served();
    if runtime.is_none() {
        fail(function, &"lastuse is not enabled, so that no plan would keep the budget");
    }
    runtime
}

/// Returns the tensors of a list named `name`; aborts where one is NULL.
///
/// # Safety
/// `list` points to as many live tensors as `count` states.
pub(super) unsafe fn tensor_list<'g>(
    function: &str,
    name: &str,
    list: *const *mut ggml_tensor,
    count: usize,
) -> Vec<TensorRef<'g>> {
    if count == 0 {
        return Vec::new();
    }
    let list = required(list.cast_mut(), function, name);
    // SAFETY: that many pointers, as the caller guarantees.
    let list = unsafe { std::slice::from_raw_parts(list.as_ptr(), count) };
    let tensor = |(at, &tensor): (usize, &*mut ggml_tensor)| {
        // SAFETY: NULL or live, as the caller guarantees.
        let tensor = unsafe { TensorRef::new(tensor) };
        tensor.unwrap_or_else(|| abort(file!(), line!(), &format!("{function}: {name}[{at}] is NULL")))
    };
    list.iter().enumerate().map(tensor).collect()
}
