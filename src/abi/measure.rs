//! `lastuse_graph_measure*`: the compute buffers that graphs would need.

use std::ffi::c_int;
use std::ptr::NonNull;

use crate::ggml::{BufferType, Ggml, GraphRef, Need, hand_to, measure};
use crate::ggml::{ggml_backend_buffer_type, ggml_cgraph, ggml_of_type};

use super::guard;
use super::ids::Ids;
use super::refusal::{ggml_for, refuse};

/// The bytes that the compute buffers of a graph would take: exactly what ggml_gallocr_reserve or ggml_gallocr_reserve_n would
/// get for it. Allocates no buffers and changes nothing in the graph and its tensors, so a program can ask before
/// it has any memory: for the graph of its largest batch, with weights that are not loaded yet.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
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
/// bufts holds n_bufs buffer types, one for each buffer id. node_buffer_ids and leaf_buffer_ids hold a buffer id for each
/// node and each leaf of the graph; NULL means that all are 0. sizes has room for n_bufs numbers, in bytes. So has
/// lower_bounds, which may be NULL: the bytes alive at the worst step, which no plan with these live ranges goes below. Both
/// are 0 for an id that repeats the buffer type of an earlier one: the sum is what all take together. Tensors that have
/// memory already, or that get theirs from a context of lastuse_context_new, take none.
///
/// It costs as much as planning: 0.3 to 0.5 milliseconds for a graph of 2,000 nodes.
///
/// False, with the reason in lastuse_last_error and in ggml's log and with nothing written, when an argument is NULL
/// that must not be, when n_bufs is less than 1 or an id is not less than n_bufs, when the tensors add up to more
/// bytes than can be addressed, when a reservation would be refused whatever memory there is, and when lastuse does not know
/// the layout of this ggml. When lastuse is not enabled, the sizes are those of ggml's own allocator, and lower_bounds are
/// 0; false where that one has no ggml_gallocr_reserve_n_size, and where contexts have to be realized first.
///
/// # Safety
/// `graph`, its tensors and the buffer types are alive, no other thread uses the graph, and the lists are as long as is
/// said above.
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
    guard(|| {
        let one = Asked { name: "graph".to_owned(), graph, node_ids: node_buffer_ids, leaf_ids: leaf_buffer_ids };
        // SAFETY: the caller's promise.
        let Some(target) = (unsafe { target(NAME, bufts, n_bufs) }) else { return false };
        // SAFETY: the caller's promise.
        let measured = target.and_then(|target| unsafe { measure_all(&target, &[one]) });
        // SAFETY: the caller's promise.
        unsafe { answer(NAME, measured, sizes, lower_bounds) }
    })
}

/// The same for several graphs that use the same buffers one after the other: the largest of each buffer. A program that
/// runs prompts and single tokens measures both, and reserves for both.
///
/// ```c
/// ggml_set_no_alloc(ctx, true); // these tensors will lie in the compute buffer
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
/// graphs holds n_graphs graphs, at least one. node_buffer_ids and leaf_buffer_ids hold a list for each graph; NULL in the
/// place of a list, or of all lists, means that all ids are 0. The rest is as in lastuse_graph_measure.
///
/// # Safety
/// As lastuse_graph_measure, for each graph.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "those of lastuse_graph_measure, and how many graphs")]
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
    guard(|| {
        // SAFETY: the caller's promise.
        let Some(target) = (unsafe { target(NAME, bufts, n_bufs) }) else { return false };
        // SAFETY: the caller's promise.
        let asked = unsafe { asked(graphs, n_graphs, node_buffer_ids, leaf_buffer_ids) };
        // SAFETY: the caller's promise.
        let measured = asked.and_then(|asked| unsafe { measure_all(&target?, &asked) });
        // SAFETY: the caller's promise.
        unsafe { answer(NAME, measured, sizes, lower_bounds) }
    })
}

/// A graph as C passes it, and its ids.
#[derive(Debug)]
struct Asked {
    /// The name of the argument, for messages.
    name: String,
    graph: *mut ggml_cgraph,
    node_ids: *const c_int,
    leaf_ids: *const c_int,
}

/// # Safety
/// The lists hold `count` entries where they are not NULL.
unsafe fn asked(
    graphs: *const *mut ggml_cgraph,
    count: c_int,
    node_ids: *const *const c_int,
    leaf_ids: *const *const c_int,
) -> Result<Vec<Asked>, String> {
    // SAFETY: the caller's promise.
    let graphs = unsafe { list("graphs", graphs, "n_graphs", count) }?;
    let ids = |lists: *const *const c_int, index: usize| {
        // SAFETY: as many lists as graphs.
        NonNull::new(lists.cast_mut()).map_or(std::ptr::null(), |it| unsafe { *it.as_ptr().wrapping_add(index) })
    };
    let one = |(index, &graph)| Asked {
        name: format!("graphs[{index}]"),
        graph,
        node_ids: ids(node_ids, index),
        leaf_ids: ids(leaf_ids, index),
    };
    Ok(graphs.iter().enumerate().map(one).collect())
}

/// What graphs are measured for.
#[derive(Debug)]
struct Target {
    ggml: &'static Ggml,
    types: Vec<BufferType>,
}

/// Nothing, after saying why, when lastuse does not know the ggml of the buffer types.
///
/// # Safety
/// `bufts` holds `count` live buffer types where it is not NULL.
unsafe fn target(
    function: &str,
    bufts: *const *mut ggml_backend_buffer_type,
    count: c_int,
) -> Option<Result<Target, String>> {
    // SAFETY: the caller's promise.
    let bufts = unsafe { list("bufts", bufts, "n_bufs", count) };
    let first = bufts.as_ref().map_or(std::ptr::null_mut(), |bufts| bufts[0]);
    // SAFETY: a live buffer type, or NULL.
    let ggml = unsafe { ggml_of_type(first) };
    let runtime = ggml_for(function, ggml)?;
    let one = |(index, &buft): (usize, &*mut ggml_backend_buffer_type)| {
        let buft = NonNull::new(buft).ok_or_else(|| format!("bufts[{index}] is NULL"))?;
        // SAFETY: a live buffer type.
        Ok(unsafe { BufferType::new(runtime, buft) })
    };
    let (ggml, types) = (ggml.ok()?, bufts.and_then(|bufts| bufts.iter().enumerate().map(one).collect()));
    Some(types.map(|types| Target { ggml, types }))
}

/// A list that must not be empty.
///
/// # Safety
/// `list` is NULL, or holds `count` entries, which stay as they are during the call.
unsafe fn list<'a, T>(name: &str, list: *const T, count_name: &str, count: c_int) -> Result<&'a [T], String> {
    let list = NonNull::new(list.cast_mut()).ok_or_else(|| format!("{name} is NULL"))?;
    let length = usize::try_from(count).ok().filter(|&length| length > 0);
    let length = length.ok_or_else(|| format!("{count_name} is {count}, and at least 1 is needed"))?;
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list.as_ptr(), length) })
}

/// By buffer id, what is enough for each of the graphs.
///
/// # Safety
/// The graphs and the buffer types are alive, and the ids are as many as the graphs have nodes and leafs.
unsafe fn measure_all(target: &Target, graphs: &[Asked]) -> Result<Vec<Need>, String> {
    let Target { ggml, types } = target;
    let mut largest = vec![Need::default(); types.len()];
    for Asked { name, graph, node_ids, leaf_ids } in graphs {
        let graph = NonNull::new(*graph).ok_or_else(|| format!("{name} is NULL"))?;
        // SAFETY: a live graph.
        let read = unsafe { GraphRef::new(graph) };
        // SAFETY: as many ids as nodes and leafs.
        let ids = unsafe { Ids::read(read, *node_ids, *leaf_ids, types.len()) };
        let ids = ids.map_err(|bad| format!("{name}: {bad}, and n_bufs is {}", types.len()))?;
        let (nodes, leafs) = (ids.nodes.as_deref(), ids.leafs.as_deref());
        // SAFETY: a live graph.
        let needs = hand_to(ggml, || unsafe { measure(ggml.original_in_use(), types, graph, nodes, leafs) });
        for (largest, need) in largest.iter_mut().zip(needs.map_err(|why| format!("{name}: {why}"))?) {
            *largest = largest.max(need);
        }
    }
    Ok(largest)
}

/// Writes what was measured; otherwise says why it was not.
///
/// # Safety
/// `sizes` and `lower_bounds` are NULL, or have room for all that was measured.
unsafe fn answer(
    function: &str,
    measured: Result<Vec<Need>, String>,
    sizes: *mut usize,
    lower_bounds: *mut usize,
) -> bool {
    let measured = measured.and_then(|needs| if sizes.is_null() { Err("sizes is NULL".to_owned()) } else { Ok(needs) });
    let needs = match measured {
        Ok(needs) => needs,
        Err(why) => {
            refuse(function, &why);
            return false;
        }
    };
    let number = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (needed, bounds): (Vec<usize>, Vec<usize>) =
        needs.iter().map(|need| (number(need.size), number(need.lower_bound))).unzip();
    for (to, numbers) in [(sizes, needed), (lower_bounds, bounds)] {
        if !to.is_null() {
            // SAFETY: the caller's promise.
            unsafe { to.copy_from_nonoverlapping(numbers.as_ptr(), numbers.len()) };
        }
    }
    true
}
