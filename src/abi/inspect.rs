//! Sizes, and what explains them: `lastuse_gallocr_report`, `lastuse_gallocr_explain`, `lastuse_graph_measure`.

use std::ffi::{c_char, c_int};
use std::ptr::{NonNull, null, null_mut};

use crate::ggml::{BufferType, Ggml, GraphRef, Need, forward_to, measure};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_gallocr, ggml_of_type};
use crate::report::explain::{DEFAULT_TOP, explanation_text};

use super::arguments::{BufferIds, checked_buffer_id};
use super::c_types::sized_struct;
use super::call::{Call, Failed, call, size};
use super::process::c_string;

/// The bytes of one buffer of an allocator: lastuse_gallocr_report.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_gallocr_sizes {
    /// sizeof(struct lastuse_gallocr_sizes).
    pub struct_size: usize,
    /// Bytes that are allocated: ggml_gallocr_get_buffer_size.
    pub size: usize,
    /// Bytes that the latest plan requires, even if they could not be allocated: how much to free, after
    /// ggml_gallocr_reserve has returned false.
    pub plan_size: usize,
    /// The lower bound of the latest plan: no plan with the same live ranges is smaller.
    pub lower_bound: usize,
}

sized_struct!(lastuse_gallocr_sizes);

/// Fills in the bytes of a buffer: 0 for an id that repeats the buffer type of an earlier one, and before the first
/// plan. Returns false if lastuse has not created galloc. Aborts if galloc has no buffer with this id.
///
/// # Safety
/// `galloc` is a live allocator that no other thread uses; `report` points to struct_size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_report(
    galloc: *mut ggml_gallocr,
    buffer_id: c_int,
    report: *mut lastuse_gallocr_sizes,
) -> bool {
    call("lastuse_gallocr_report", |call| {
        // SAFETY: NULL or of its stated size: see "# Safety".
        let report = unsafe { call.report(report) };
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let allocator = unsafe { call.allocator(galloc) }?;
        let id = checked_buffer_id(call, allocator, buffer_id);
        let need = allocator.need(id);
        report.write(&lastuse_gallocr_sizes {
            struct_size: 0,
            size: size(allocator.buffer_size(id)),
            plan_size: size(need.size),
            lower_bound: size(need.lower_bound),
        });
        Ok(true)
    })
}

/// Returns a text that explains why a graph needs the memory that it needs, as this allocator would plan it: for each
/// buffer the tensors that are live at the peak, and the changes that would lower it most (docs/explain.md). The caller
/// frees the string with lastuse_string_free.
///
/// The graph may be reserved or allocated already; nothing is allocated or changed. With several buffers, ids are those
/// of the latest ggml_gallocr_reserve_n of a graph with as many leafs and nodes, or else 0. Takes some tenths of a
/// second for thousands of nodes. Returns NULL if the graph cannot be planned, or lastuse has not created galloc.
///
/// # Safety
/// `galloc`, `graph` and its tensors are live, and no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_gallocr_explain(galloc: *mut ggml_gallocr, graph: *mut ggml_cgraph) -> *mut c_char {
    call("lastuse_gallocr_explain", |call| {
        let graph = call.required("graph", graph);
        // SAFETY: NULL, or live and of this thread: see "# Safety".
        let allocator = unsafe { call.allocator(galloc) }?;
        // SAFETY: a live graph of this thread: see "# Safety".
        let explained = call.done(allocator.explain(unsafe { GraphRef::new(graph) }, None, None))?;
        Ok(c_string(&explanation_text(&explained, DEFAULT_TOP)))
    })
}

/// Measures the compute buffers of graphs that use the same buffers one after the other, such as those of a prompt and
/// of a single token: the most bytes that ggml_gallocr_reserve_n would allocate for any of them. Allocates no buffers
/// and does not change the graphs. The ids hold a list for each graph, which names one of the n_bufs buffer types for
/// each node or leaf; NULL instead of a list, or of all lists, means that all ids are 0. sizes, and lower_bounds unless
/// it is NULL, get n_bufs numbers of bytes: 0 for an id that repeats the type of an earlier one. Returns false if another
/// argument is NULL, a count is 0, an id is out of range, sizes overflow, or ggml_gallocr_reserve would refuse a graph.
/// Where lastuse is not enabled: docs/api.md.
///
/// # Safety
/// The graphs, their tensors and the buffer types are live; no other thread uses the graphs; `graphs` and the lists of
/// ids have n_graphs entries, each list of ids one for each node or leaf, and `bufts`, `sizes` and `lower_bounds`
/// n_bufs entries, where they are not NULL.
#[unsafe(no_mangle)]
#[allow(
    clippy::too_many_arguments,
    reason = "the graphs and the buffers, each with their number and ids, and two results"
)]
pub unsafe extern "C" fn lastuse_graph_measure(
    graphs: *const *mut ggml_cgraph,
    n_graphs: usize,
    bufts: *const *mut ggml_backend_buffer_type,
    n_bufs: usize,
    node_buffer_ids: *const *const c_int,
    leaf_buffer_ids: *const *const c_int,
    sizes: *mut usize,
    lower_bounds: *mut usize,
) -> bool {
    call("lastuse_graph_measure", |call| {
        // SAFETY: NULL, or `n_bufs` live buffer types: see "# Safety".
        let target = unsafe { target(call, bufts, n_bufs) }?;
        // SAFETY: NULL, or lists of `n_graphs` entries: see "# Safety".
        let graphs = unsafe { graphs_with_ids(graphs, n_graphs, node_buffer_ids, leaf_buffer_ids) };
        // SAFETY: live, with lists that are long enough: see "# Safety".
        let needs = call.done(graphs.and_then(|graphs| unsafe { measure_all(&target, &graphs) }))?;
        if sizes.is_null() {
            return Err(call.refuse(&"sizes is NULL"));
        }
        // SAFETY: room for `n_bufs` numbers: see "# Safety".
        unsafe { write_needs(&needs, sizes, lower_bounds) };
        Ok(true)
    })
}

/// A graph to measure and its buffer ids, as C passes them.
#[derive(Debug)]
struct MeasuredGraph {
    graph: *mut ggml_cgraph,
    node_ids: *const c_int,
    leaf_ids: *const c_int,
}

/// # Safety
/// Each list is NULL, or holds `count` entries.
unsafe fn graphs_with_ids(
    graphs: *const *mut ggml_cgraph,
    count: usize,
    node_ids: *const *const c_int,
    leaf_ids: *const *const c_int,
) -> Result<Vec<MeasuredGraph>, String> {
    // SAFETY: NULL, or `count` entries: see "# Safety".
    let graphs = unsafe { list("graphs", graphs, "n_graphs", count) }?;
    let ids = |lists: *const *const c_int, index: usize| {
        // SAFETY: `index` is below `count`, the length of `lists`.
        if lists.is_null() { null() } else { unsafe { *lists.wrapping_add(index) } }
    };
    let one = |(index, &graph)| MeasuredGraph { graph, node_ids: ids(node_ids, index), leaf_ids: ids(leaf_ids, index) };
    Ok(graphs.iter().enumerate().map(one).collect())
}

/// What graphs are measured for: buffer types of one ggml.
#[derive(Debug)]
struct Target {
    ggml: &'static Ggml,
    types: Vec<BufferType>,
}

/// Reads the buffer types.
///
/// # Errors
/// [`Failed`]: an argument is wrong, or lastuse does not know their ggml.
///
/// # Safety
/// `bufts` is NULL, or holds `count` buffer types that are NULL or live.
unsafe fn target(call: Call, bufts: *const *mut ggml_backend_buffer_type, count: usize) -> Result<Target, Failed> {
    // SAFETY: NULL, or `count` entries: see "# Safety".
    let bufts = unsafe { list("bufts", bufts, "n_bufs", count) };
    let first = bufts.as_ref().map_or(null_mut(), |bufts| bufts[0]);
    // SAFETY: NULL or live: see "# Safety".
    let ggml = unsafe { ggml_of_type(first) };
    let runtime = call.runtime(ggml)?;
    let one = |(index, &buft): (usize, &*mut ggml_backend_buffer_type)| {
        let buft = NonNull::new(buft).ok_or_else(|| format!("bufts[{index}] is NULL"))?;
        // SAFETY: not NULL, so live: see "# Safety".
        Ok(unsafe { BufferType::new(runtime, buft) })
    };
    let types = call.done(bufts.and_then(|bufts| bufts.iter().enumerate().map(one).collect()))?;
    Ok(Target { ggml: call.done(ggml)?, types })
}

/// Returns a list of C, which must not be NULL or empty.
///
/// # Errors
/// A message that names the argument.
///
/// # Safety
/// `list` is NULL, or holds `length` entries, which do not change for `'a`.
unsafe fn list<'a, T>(name: &str, list: *const T, count_name: &str, length: usize) -> Result<&'a [T], String> {
    let list = NonNull::new(list.cast_mut()).ok_or_else(|| format!("{name} is NULL"))?;
    if length == 0 {
        return Err(format!("{count_name} is 0, and at least 1 is needed"));
    }
    // SAFETY: `length` entries: see "# Safety".
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
    for (at, graph) in graphs.iter().enumerate() {
        // SAFETY: NULL or live, with lists that are long enough: see "# Safety".
        let needs = unsafe { measure_one(target, graph) }.map_err(|why| format!("graphs[{at}]{why}"))?;
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
    // SAFETY: a live graph of this thread: see "# Safety".
    let read = unsafe { GraphRef::new(graph) };
    // SAFETY: NULL, or an id for each node and each leaf: see "# Safety".
    let ids = unsafe { BufferIds::read(read, measured.node_ids, measured.leaf_ids, types.len()) };
    let ids = ids.map_err(|bad| format!(": {bad}, and n_bufs is {}", types.len()))?;
    let (nodes, leafs) = (ids.nodes.as_deref(), ids.leafs.as_deref());
    // SAFETY: a live graph of this thread: see "# Safety".
    let needs = forward_to(ggml, || unsafe { measure(ggml.original_in_use(), types, graph, nodes, leafs) });
    needs.map_err(|why| format!(": {why}"))
}

/// Writes what was measured.
///
/// # Safety
/// `sizes` has room for everything that was measured, and so has `lower_bounds` unless it is NULL.
pub(super) unsafe fn write_needs(needs: &[Need], sizes: *mut usize, lower_bounds: *mut usize) {
    for (at, need) in needs.iter().enumerate() {
        // SAFETY: there is room: see "# Safety".
        unsafe { sizes.wrapping_add(at).write(size(need.size)) };
        if !lower_bounds.is_null() {
            // SAFETY: there is room: see "# Safety".
            unsafe { lower_bounds.wrapping_add(at).write(size(need.lower_bound)) };
        }
    }
}
