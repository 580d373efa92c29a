//! `lastuse_graph_measure*`: the sizes of the compute buffers that graphs need.

use std::ffi::c_int;
use std::ptr::{NonNull, null, null_mut};

use crate::ggml::{BufferType, Ggml, GraphRef, Need, forward_to, measure};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_of_type};

use super::abort::abort_on_panic;
use super::buffer_ids::BufferIds;
use super::ggml_of_arguments::runtime_or_fail;
use super::last_error::fail;

/// Measures the compute buffers of a graph: exactly the bytes that ggml_gallocr_reserve or ggml_gallocr_reserve_n would
/// allocate for it. Allocates no buffers and does not change the graph. Returns true if sizes was written.
///
/// The ids name one of the n_bufs buffer types for each node and each leaf; NULL means that all are 0. sizes, and
/// lower_bounds unless it is NULL, have room for n_bufs numbers of bytes: 0 for an id that repeats the type of an
/// earlier one. Returns false if a required argument is NULL, an id or n_bufs is out of range, sizes overflow, or
/// ggml_gallocr_reserve would refuse the graph. Where lastuse is not enabled: docs/api.md.
///
/// # Safety
/// `graph`, its tensors and the buffer types are live; no other thread uses the graph; `bufts`, `sizes` and
/// `lower_bounds` have n_bufs entries, and the ids one for each node and each leaf, where they are not NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_graph_measure(
    graph: *mut ggml_cgraph,
    bufts: *const *mut ggml_backend_buffer_type,
    n_bufs: c_int,
    node_buffer_ids: *const c_int,
    leaf_buffer_ids: *const c_int,
    sizes: *mut usize,
    lower_bounds: *mut usize,
) -> bool {
    const NAME: &str = "lastuse_graph_measure";
    abort_on_panic(|| {
        let argument = "graph".to_owned();
        let one = MeasuredGraph { argument, graph, node_ids: node_buffer_ids, leaf_ids: leaf_buffer_ids };
        // SAFETY: NULL, or `n_bufs` live buffer types, as the caller guarantees.
        let Some(target) = (unsafe { target(NAME, bufts, n_bufs) }) else { return false };
        // SAFETY: live, with lists that are long enough, as the caller guarantees.
        let needs = target.and_then(|target| unsafe { measure_all(&target, &[one]) });
        // SAFETY: NULL, or room for `n_bufs` numbers, as the caller guarantees.
        unsafe { write_needs(NAME, needs, sizes, lower_bounds) }
    })
}

/// Measures the compute buffers of several graphs that use the same buffers one after the other: for each buffer, the
/// largest size and the largest lower bound. A program that runs prompts and single tokens measures both graphs. graphs
/// holds n_graphs graphs, at least one. The ids hold a list for each graph; NULL instead of a list, or of all lists,
/// means that all ids are 0. The other arguments and the errors are those of lastuse_graph_measure.
///
/// # Safety
/// `graphs` has n_graphs entries, and so have the lists of ids, where they are not NULL; for each graph, and for
/// `bufts`, `sizes` and `lower_bounds`, what lastuse_graph_measure requires.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "those of lastuse_graph_measure, and the number of graphs")]
pub unsafe extern "C" fn lastuse_graph_measure_many(
    graphs: *const *mut ggml_cgraph,
    n_graphs: c_int,
    bufts: *const *mut ggml_backend_buffer_type,
    n_bufs: c_int,
    node_buffer_ids: *const *const c_int,
    leaf_buffer_ids: *const *const c_int,
    sizes: *mut usize,
    lower_bounds: *mut usize,
) -> bool {
    const NAME: &str = "lastuse_graph_measure_many";
    abort_on_panic(|| {
        // SAFETY: NULL, or `n_bufs` live buffer types, as the caller guarantees.
        let Some(target) = (unsafe { target(NAME, bufts, n_bufs) }) else { return false };
        // SAFETY: NULL, or lists of `n_graphs` entries, as the caller guarantees.
        let graphs = unsafe { graphs_with_ids(graphs, n_graphs, node_buffer_ids, leaf_buffer_ids) };
        // SAFETY: live, with lists that are long enough, as the caller guarantees.
        let needs = graphs.and_then(|graphs| unsafe { measure_all(&target?, &graphs) });
        // SAFETY: NULL, or room for `n_bufs` numbers, as the caller guarantees.
        unsafe { write_needs(NAME, needs, sizes, lower_bounds) }
    })
}

/// A graph to measure and its buffer ids, as C passes them.
#[derive(Debug)]
struct MeasuredGraph {
    /// The name of the argument, for messages.
    argument: String,
    graph: *mut ggml_cgraph,
    node_ids: *const c_int,
    leaf_ids: *const c_int,
}

/// # Safety
/// Each list is NULL, or holds `count` entries.
unsafe fn graphs_with_ids(
    graphs: *const *mut ggml_cgraph,
    count: c_int,
    node_ids: *const *const c_int,
    leaf_ids: *const *const c_int,
) -> Result<Vec<MeasuredGraph>, String> {
    // SAFETY: NULL, or `count` entries, as the caller guarantees.
    let graphs = unsafe { list("graphs", graphs, "n_graphs", count) }?;
    let ids = |lists: *const *const c_int, index: usize| {
        // SAFETY: `index` is below `count`, the length of `lists`.
        if lists.is_null() { null() } else { unsafe { *lists.wrapping_add(index) } }
    };
    let one = |(index, &graph)| MeasuredGraph {
        argument: format!("graphs[{index}]"),
        graph,
        node_ids: ids(node_ids, index),
        leaf_ids: ids(leaf_ids, index),
    };
    Ok(graphs.iter().enumerate().map(one).collect())
}

/// What graphs are measured for: buffer types of one ggml.
#[derive(Debug)]
struct Target {
    ggml: &'static Ggml,
    types: Vec<BufferType>,
}

/// Reads the buffer types; `None`, with the last error set and logged, if lastuse does not know their ggml.
///
/// # Errors
/// A message: which argument is wrong.
///
/// # Safety
/// `bufts` is NULL, or holds `count` buffer types that are NULL or live.
unsafe fn target(
    function: &str,
    bufts: *const *mut ggml_backend_buffer_type,
    count: c_int,
) -> Option<Result<Target, String>> {
    // SAFETY: NULL, or `count` entries, as the caller guarantees.
    let bufts = unsafe { list("bufts", bufts, "n_bufs", count) };
    let first = bufts.as_ref().map_or(null_mut(), |bufts| bufts[0]);
    // SAFETY: NULL or live, as the caller guarantees.
    let ggml = unsafe { ggml_of_type(first) };
    let runtime = runtime_or_fail(function, ggml)?;
    let one = |(index, &buft): (usize, &*mut ggml_backend_buffer_type)| {
        let buft = NonNull::new(buft).ok_or_else(|| format!("bufts[{index}] is NULL"))?;
        // SAFETY: not NULL, so live, as the caller guarantees.
        Ok(unsafe { BufferType::new(runtime, buft) })
    };
    let (ggml, types) = (ggml.ok()?, bufts.and_then(|bufts| bufts.iter().enumerate().map(one).collect()));
    Some(types.map(|types| Target { ggml, types }))
}

/// Returns a list of C, which must not be NULL or empty.
///
/// # Errors
/// A message that names the argument.
///
/// # Safety
/// `list` is NULL, or holds `count` entries, which do not change for `'a`.
unsafe fn list<'a, T>(name: &str, list: *const T, count_name: &str, count: c_int) -> Result<&'a [T], String> {
    let list = NonNull::new(list.cast_mut()).ok_or_else(|| format!("{name} is NULL"))?;
    let length = usize::try_from(count).ok().filter(|&length| length > 0);
    let length = length.ok_or_else(|| format!("{count_name} is {count}, and at least 1 is needed"))?;
    // SAFETY: `count` entries, as the caller guarantees.
    Ok(unsafe { std::slice::from_raw_parts(list.as_ptr(), length) })
}

/// Returns by buffer id the largest needs of the graphs.
///
/// # Errors
/// A message: which graph cannot be measured, and why.
///
/// # Safety
/// The graphs are NULL or live with their tensors, no other thread uses them, and their lists of ids are NULL or hold
/// as many ids as the graph has nodes or leafs; the buffer types are live.
unsafe fn measure_all(target: &Target, graphs: &[MeasuredGraph]) -> Result<Vec<Need>, String> {
    let mut largest = vec![Need::default(); target.types.len()];
    for graph in graphs {
        // SAFETY: NULL or live, with lists that are long enough, as the caller guarantees.
        let needs = unsafe { measure_one(target, graph) }.map_err(|why| format!("{}{why}", graph.argument))?;
        for (largest, need) in largest.iter_mut().zip(needs) {
            *largest = largest.max(need);
        }
    }
    Ok(largest)
}

/// Returns the needs of one graph by buffer id.
///
/// # Errors
/// A message without the name of the argument, which it follows.
///
/// # Safety
/// The graph is NULL or live with its tensors, no other thread uses it, and its lists of ids are NULL or hold as many
/// ids as it has nodes or leafs; the buffer types are live.
unsafe fn measure_one(target: &Target, measured: &MeasuredGraph) -> Result<Vec<Need>, String> {
    let Target { ggml, types } = target;
    let graph = NonNull::new(measured.graph).ok_or(" is NULL")?;
    // SAFETY: a live graph of this thread, as the caller guarantees.
    let read = unsafe { GraphRef::new(graph) };
    // SAFETY: NULL, or an id for each node and each leaf, as the caller guarantees.
    let ids = unsafe { BufferIds::read(read, measured.node_ids, measured.leaf_ids, types.len()) };
    let ids = ids.map_err(|bad| format!(": {bad}, and n_bufs is {}", types.len()))?;
    let (nodes, leafs) = (ids.nodes.as_deref(), ids.leafs.as_deref());
    // SAFETY: a live graph of this thread, as the caller guarantees.
    let needs = forward_to(ggml, || unsafe { measure(ggml.original_in_use(), types, graph, nodes, leafs) });
    needs.map_err(|why| format!(": {why}"))
}

/// Writes what was measured; returns `false`, with the last error set and logged, if there is an error or `sizes` is
/// NULL.
///
/// # Safety
/// `sizes` and `lower_bounds` are NULL, or have room for everything that was measured.
unsafe fn write_needs(
    function: &str,
    needs: Result<Vec<Need>, String>,
    sizes: *mut usize,
    lower_bounds: *mut usize,
) -> bool {
    let needs = needs.and_then(|needs| if sizes.is_null() { Err("sizes is NULL".to_owned()) } else { Ok(needs) });
    let Ok(needs) = needs.inspect_err(|why| fail(function, why)) else { return false };
    let number = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (needed, bounds): (Vec<usize>, Vec<usize>) =
        needs.iter().map(|need| (number(need.size), number(need.lower_bound))).unzip();
    for (to, numbers) in [(sizes, needed), (lower_bounds, bounds)] {
        if !to.is_null() {
            // SAFETY: there is room for all numbers, as the caller guarantees.
            unsafe { to.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
        }
    }
    true
}
