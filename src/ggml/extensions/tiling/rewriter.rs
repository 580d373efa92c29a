//! Changes a live graph to one whose large intermediates are computed in tiles.

use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;

use crate::graph::TensorId;
use crate::graph::tiling::{Kind, Origin, Role, TiledGraph};

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::live::marks::mark_made_of_tiles;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::live::use_counts::UseCounts;

/// Where IM2COL has the padding above its image among its parameters.
const PADDING_ABOVE: usize = 3;

/// Returns the new tensors that a context must have room for.
pub fn tensors_needed(found: &TiledGraph) -> usize {
    found.draft.origins().filter(|origin| !origin.role.is_given()).count()
}

/// Returns the nodes that a live graph must have room for, to be changed to the one that was found.
pub fn nodes_needed(found: &TiledGraph) -> usize {
    let graph = &found.draft.graph;
    let memories = found.draft.origins().filter(|origin| origin.role == Role::Memory).count();
    // While they are added, the destinations of the tiles are among the leafs; all tensors ever in the graph stays in
    // its hash set, which has room for twice the nodes.
    let listed = (found.nodes_before + graph.leafs().len() + tensors_needed(found)).div_ceil(2);
    graph.nodes().len().max(graph.leafs().len() + memories + 1).max(listed + 1)
}

/// Changes `graph` to the one that was found: its list of nodes, and the tensors whose tiles are computed, which become
/// views. New tensors are in `context`. `given` are the tensors of the graph by id.
///
/// # Safety
/// `context` and `graph` are live, have the room that [`nodes_needed`] and [`tensors_needed`] state, and no other thread uses
/// them or the graph's tensors. No [`GraphRef`] of the graph is used afterwards.
pub unsafe fn rewrite(
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    graph: NonNull<ggml_cgraph>,
    found: &TiledGraph,
    given: &[TensorRef<'_>],
) {
    let rewriter = Rewriter { runtime, context, found, given };
    let tensors = rewriter.tensors();
    rewriter.connect(&tensors);
    // SAFETY: the graph has room, as the caller guarantees.
    unsafe { rewriter.list(graph, &tensors, found.draft.graph.leafs().len()) };
}

/// Applies a [`TiledGraph`] to a live graph.
struct Rewriter<'r, 'g> {
    runtime: &'static Runtime,
    context: NonNull<ggml_context>,
    found: &'r TiledGraph,
    /// By id in the given graph.
    given: &'r [TensorRef<'g>],
}

impl<'g> Rewriter<'_, 'g> {
    /// Returns the live tensors of the new graph by id; those that are new are without sources and memory.
    fn tensors(&self) -> Vec<TensorRef<'g>> {
        let origins = (0..).zip(self.found.draft.origins());
        let tensor = |(id, origin): (TensorId, Origin)| {
            let given = self.given[origin.tensor as usize];
            if origin.role.is_given() { given } else { self.add(id, given) }
        };
        origins.map(tensor).collect()
    }

    /// Adds a tensor with the type of `given` and the layout of the draft.
    fn add(&self, id: TensorId, given: TensorRef<'g>) -> TensorRef<'g> {
        let functions = &self.runtime.functions;
        let draft = &self.found.draft;
        let origin = draft.origin(id);
        // SAFETY: a live context with room for a tensor, and a live tensor.
        let new = unsafe { (functions.ggml_view_tensor)(self.context.as_ptr(), given.as_ptr()) };
        // SAFETY: a new tensor in a live context.
        let new = unsafe { TensorRef::new(new) }.expect("the context has room, which was checked");
        let name = CString::new(draft.name(id, &given.name()).unwrap_or_default()).unwrap_or_default();
        // SAFETY: a live tensor, and a string that ggml copies as far as there is room.
        unsafe { (functions.ggml_set_name)(new.as_ptr(), name.as_ptr()) };
        // SAFETY: the tensor is new, and no reference into it is held.
        let mut writer = unsafe { TensorMut::new(new) };
        writer.clear_view();
        match origin.role.operation() {
            None => writer.set_operation_of(given),
            Some(_) => writer.set_operation(self.operation(origin.role)),
        }
        writer.set_flags(draft.graph.tensor(id).flags.0);
        let layout = draft.graph.layout(id);
        writer.set_extents(layout.ne);
        writer.set_strides(layout.nb.map(|stride| usize::try_from(stride).expect("addressable")));
        if let (Kind::Im2col(Some(window)), Role::Tile) = (draft.known[id as usize].kind, origin.role) {
            writer.set_parameter(PADDING_ABOVE, i32::try_from(window.padding).expect("it was an i32"));
        }
        for slot in 0..MAX_SOURCES {
            match given.source(slot).filter(|_| origin.role == Role::Tile) {
                // Marks the slot: sources are in those of the given tensor, between which some may be empty.
                Some(source) => writer.set_source(slot, source),
                None => writer.clear_source(slot),
            }
        }
        new
    }

    fn operation(&self, role: Role) -> u32 {
        let operations = &self.runtime.operations;
        match role {
            Role::Memory => operations.none(),
            Role::Slice => operations.view(),
            _ => operations.reshape(),
        }
    }

    /// Sets the sources of new and whole tensors, and the tensor that each view refers to.
    fn connect(&self, tensors: &[TensorRef<'g>]) {
        let draft = &self.found.draft;
        for ((id, &tensor), origin) in (0..).zip(tensors).zip(draft.origins()) {
            let graph_tensor = draft.graph.tensor(id);
            if origin.role != Role::Given {
                let is_used = |&slot: &usize| origin.role != Role::Tile || tensor.source(slot).is_some();
                let slots: Vec<usize> = (0..MAX_SOURCES).filter(is_used).collect();
                if origin.role == Role::Whole {
                    mark_made_of_tiles(tensor);
                }
                // SAFETY: no reference into the tensor is held.
                let mut writer = unsafe { TensorMut::new(tensor) };
                if origin.role == Role::Whole {
                    writer.set_operation(self.runtime.operations.reshape());
                    (0..MAX_SOURCES).for_each(|slot| writer.clear_source(slot));
                }
                for (&slot, &source) in slots.iter().zip(draft.graph.sources(id)) {
                    writer.set_source(slot, tensors[source as usize]);
                }
            }
            let Some(view) = graph_tensor.view else {
                if tensor.view_source().is_some() {
                    // SAFETY: no reference into the tensor is held.
                    unsafe { TensorMut::new(tensor) }.clear_view();
                }
                continue;
            };
            let root = tensors[view.root as usize];
            if tensor.view_source() == Some(root) {
                continue;
            }
            let offset = usize::try_from(view.offset).expect("addressable");
            let data = root.data();
            // SAFETY: as above.
            let mut writer = unsafe { TensorMut::new(tensor) };
            writer.set_view(root, offset);
            if origin.role != Role::Given && !data.is_null() {
                writer.set_memory(std::ptr::null_mut(), data.wrapping_byte_add(offset));
            }
        }
    }

    /// Lists the new graph, and counts the uses of new tensors as backends expect it. A tile has at least the uses that
    /// ggml counted of the whole, so that backends fuse it only where they would have fused the whole.
    ///
    /// # Safety
    /// `graph` is live, has room, and no other thread uses it; no [`GraphRef`] of it is used afterwards.
    unsafe fn list(&self, graph: NonNull<ggml_cgraph>, tensors: &[TensorRef<'g>], leafs: usize) {
        let draft = &self.found.draft;
        let order: Vec<TensorRef<'g>> = draft.graph.nodes().iter().map(|&node| tensors[node as usize]).collect();
        let is_given = |node: &&TensorId| draft.origin(**node).role.is_given();
        let kept: Vec<TensorRef<'g>> =
            draft.graph.nodes().iter().filter(is_given).map(|&node| tensors[node as usize]).collect();
        // SAFETY: a live graph that no other thread uses, as the caller guarantees; it gets no more nodes than it had.
        unsafe { GraphRef::replace_lists(graph, &kept, leafs) };
        for &node in draft.graph.nodes().iter().filter(|node| !is_given(node)) {
            // SAFETY: a live graph with room, and a live tensor whose sources are in the graph.
            unsafe {
                (self.runtime.functions.ggml_build_forward_expand)(graph.as_ptr(), tensors[node as usize].as_ptr())
            };
        }
        // SAFETY: a live graph that no other thread uses, as the caller guarantees; it has room, which was checked.
        unsafe { GraphRef::replace_lists(graph, &order, leafs) };
        // SAFETY: a live graph of this ggml and of this thread.
        let Some(mut counts) = (unsafe { UseCounts::of(self.runtime, graph) }) else { return };
        let mut uses: HashMap<usize, i32> = HashMap::new();
        for source in order.iter().flat_map(|node| node.sources()) {
            *uses.entry(source.address()).or_default() += 1;
        }
        for (&tensor, origin) in tensors.iter().zip(draft.origins()).filter(|(_, origin)| !origin.role.is_given()) {
            let own = uses.get(&tensor.address()).copied().unwrap_or(0);
            counts.set(tensor, own.max(counts.of_tensor(self.given[origin.tensor as usize])));
        }
    }
}
