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
/// allocate for it. Returns true if sizes was written.
///
/// Allocates no buffers and changes nothing in the graph and its tensors, so a program can call it before it allocates
/// anything: for the graph of its largest batch, with weights that are not loaded yet.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 512, 2048);
/// ggml_set_input(input);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_soft_max(ctx, ggml_mul_mat(ctx, input, input)));
///
/// struct ggml_backend_buffer_type * type = ggml_backend_get_default_buffer_type(backend);
/// size_t size, lower_bound;
/// if (!lastuse_graph_measure(graph, &type, 1, NULL, NULL, &size, &lower_bound)) {
///     fprintf(stderr, "%s\n", lastuse_last_error());
///     abort();
/// }
/// ggml_gallocr_t galloc = ggml_gallocr_new(type);
/// GGML_ASSERT(ggml_gallocr_reserve(galloc, graph));
/// GGML_ASSERT(ggml_gallocr_get_buffer_size(galloc, 0) == size && lower_bound <= size);
/// ggml_gallocr_free(galloc);
/// ```
///
/// bufts holds n_bufs buffer types, one for each buffer id. node_buffer_ids and leaf_buffer_ids hold a buffer id for
/// each node and each leaf of the graph; NULL means that all are 0. sizes has room for n_bufs numbers, in bytes. So has
/// lower_bounds, which may be NULL: the lower bounds of the buffers, the live bytes at their peaks. Both are 0 for an
/// id that repeats the buffer type of an earlier one, so that sizes add up to what all buffers take together. Tensors
/// that have memory, or that get it from a context of lastuse_context_new, count 0.
///
/// Takes as long as planning: 0.3 to 0.5 milliseconds for a graph of 2,000 nodes.
///
/// Returns false, with nothing written and the reason in lastuse_last_error and in ggml's log, if a required argument
/// is NULL, if n_bufs is less than 1 or an id is not less than n_bufs, if the sum of the sizes overflows, if a
/// reservation would be refused whatever memory there is, and if lastuse does not know the layout of this ggml. If
/// lastuse is not enabled, sizes are those of ggml's own allocator and lower_bounds are 0; false if this ggml has no
/// ggml_gallocr_reserve_n_size, and if contexts must be realized first.
///
/// # Safety
/// `graph`, its tensors and the buffer types are live; no other thread uses the graph; and the lists have the lengths
/// given above.
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
/// largest size and the largest lower bound. Returns true if sizes was written. A program that runs prompts and single
/// tokens measures both graphs, and reserves for both.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will be in the compute buffer
/// struct ggml_cgraph * graphs[2];
/// for (int i = 0; i < 2; i++) {
///     struct ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 64, i == 0 ? 512 : 1);
///     ggml_set_input(input);
///     graphs[i] = ggml_new_graph(ctx);
///     ggml_build_forward_expand(graphs[i], ggml_soft_max(ctx, input));
/// }
/// struct ggml_backend_buffer_type * type = ggml_backend_get_default_buffer_type(backend);
/// size_t both, prompt;
/// if (lastuse_graph_measure_many(graphs, 2, &type, 1, NULL, NULL, &both, NULL)) {
///     GGML_ASSERT(lastuse_graph_measure(graphs[0], &type, 1, NULL, NULL, &prompt, NULL) && both == prompt);
/// }
/// ```
///
/// graphs holds n_graphs graphs, at least one. node_buffer_ids and leaf_buffer_ids hold a list for each graph; NULL
/// instead of a list, or of all lists, means that all ids are 0. The other arguments and the errors are as in
/// lastuse_graph_measure.
///
/// # Safety
/// The graphs, their tensors and the buffer types are live; no other thread uses the graphs; and the lists have the
/// lengths given above and in lastuse_graph_measure.
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
