//! Applies an edit to a live graph: its tensors, their views and sources, its lists, and the counts of uses.

use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;

use crate::graph::{Flags, Graph, TensorId};
use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_cgraph, ggml_context};
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, MAX_SOURCES, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::live::visited::UseCounts;
use crate::ggml::outputs::redirect::ORDERED_OUTPUT_SLOT;

/// Where a tensor of an edited graph comes from.
#[derive(Clone, Copy, Debug)]
pub struct LiveOrigin<'g> {
    /// The live tensor that it is, or is made from.
    pub tensor: TensorRef<'g>,
    /// Whether it is to be made.
    pub is_new: bool,
    /// ggml's number of its operation, if that is another one than the live tensor has.
    pub operation: Option<u32>,
}

/// An edited graph, and the live tensors that it comes from.
pub struct LiveEdit<'e, 'g> {
    pub runtime: &'static Runtime,
    /// The edited graph.
    pub graph: &'e Graph,
    /// By tensor of it.
    pub origins: Vec<LiveOrigin<'g>>,
    /// Returns the name of a new tensor, from that of the tensor that it is made from.
    pub name: &'e dyn Fn(TensorId, &str) -> String,
    /// Returns a parameter of the operation of a new tensor that is another one: its index and its value.
    pub parameter: &'e dyn Fn(TensorId) -> Option<(usize, i32)>,
}

impl<'g> LiveEdit<'_, 'g> {
    /// Makes `graph` the edited one. New tensors are in `context`. Returns the live tensors by id.
    ///
    /// # Safety
    /// `context` and `graph` are live and have room for the new tensors and nodes, and no other thread uses them or the
    /// graph's tensors. No [`GraphRef`] of the graph is used afterwards.
    pub unsafe fn apply(&self, context: NonNull<ggml_context>, graph: NonNull<ggml_cgraph>) -> Vec<TensorRef<'g>> {
        let live = (0..).zip(&self.origins).map(|(id, origin)| match origin.is_new {
            // SAFETY: a live context with room, which no other thread uses: see "# Safety".
            true => unsafe { self.add(context, id, *origin) },
            false => origin.tensor,
        });
        let tensors: Vec<TensorRef<'g>> = live.collect();
        self.change_tensors(&tensors);
        // SAFETY: a live graph with room, which no other thread uses, and of which no `GraphRef` is used: see "# Safety".
        unsafe { self.list(graph, &tensors) };
        tensors
    }

    /// Changes the tensors of a graph that gets no new ones and keeps its lists.
    pub fn change(&self) {
        let tensors: Vec<TensorRef<'g>> = self.origins.iter().map(|origin| origin.tensor).collect();
        self.change_tensors(&tensors);
    }

    /// Adds a tensor without memory. It has the sources of the one that it is made from, in their slots, if it has its
    /// operation.
    ///
    /// # Safety
    /// `context` is live, has room for a tensor, and no other thread uses it.
    unsafe fn add(&self, context: NonNull<ggml_context>, id: TensorId, origin: LiveOrigin<'g>) -> TensorRef<'g> {
        let LiveOrigin { tensor: given, operation, .. } = origin;
        let functions = &self.runtime.functions;
        // SAFETY: a live context with room for a tensor, and a live tensor.
        let new = unsafe { (functions.ggml_view_tensor)(context.as_ptr(), given.as_ptr()) };
        // SAFETY: a new tensor in a live context.
        let new = unsafe { TensorRef::new(new) }.expect("the context has room, which was checked");
        let name = CString::new((self.name)(id, &given.name())).unwrap_or_default();
        // SAFETY: a live tensor, and a string that ggml copies as far as there is room.
        unsafe { (functions.ggml_set_name)(new.as_ptr(), name.as_ptr()) };
        // SAFETY: the tensor is new, and no reference into it is held.
        let mut writer = unsafe { TensorMut::new(new) };
        writer.clear_view();
        if operation.is_none() {
            writer.set_operation_of(given);
        }
        if let Some((index, value)) = (self.parameter)(id) {
            writer.set_parameter(index, value);
        }
        writer.set_flags(self.graph.tensor(id).flags.0);
        writer.set_extents(self.graph.layout(id).ne);
        for slot in 0..MAX_SOURCES {
            match given.source(slot).filter(|_| operation.is_none()) {
                Some(source) => writer.set_source(slot, source),
                None => writer.clear_source(slot),
            }
        }
        new
    }

    fn change_tensors(&self, tensors: &[TensorRef<'g>]) {
        for ((id, &tensor), origin) in (0..).zip(tensors).zip(&self.origins) {
            self.set_sources(tensor, *origin, id, tensors);
            let edited = self.graph.tensor(id);
            let nb = |nb: [Bytes; 4]| nb.map(|stride| usize::try_from(stride).expect("addressable"));
            let nb = self.graph.has_layout(id).then(|| nb(self.graph.layout(id).nb)).filter(|nb| *nb != tensor.nb());
            let flags = tensor.flags();
            // SAFETY: no reference into the tensor is held.
            let mut writer = unsafe { TensorMut::new(tensor) };
            if let Some(operation) = origin.operation {
                writer.set_operation(operation);
            }
            if let Some(nb) = nb {
                writer.set_strides(nb);
            }
            if edited.flags.has(Flags::OUTPUT) {
                writer.set_flags(flags | Flags::OUTPUT.0);
            }
            self.set_view(tensor, id, tensors);
        }
    }

    /// Sets the sources. A node that keeps its operation keeps its slots, some of which may be empty before others; one
    /// more source is the tensor in whose memory it is computed.
    fn set_sources(&self, tensor: TensorRef<'g>, origin: LiveOrigin<'g>, id: TensorId, tensors: &[TensorRef<'g>]) {
        let slots: Vec<usize> = (0..MAX_SOURCES).filter(|&slot| tensor.source(slot).is_some()).collect();
        let sources: Vec<TensorRef<'g>> = self.graph.sources(id).iter().map(|&id| tensors[id as usize]).collect();
        if tensor.sources().eq(sources.iter().copied()) {
            return;
        }
        // SAFETY: no reference into the tensor is held.
        let mut writer = unsafe { TensorMut::new(tensor) };
        if origin.operation.is_some() {
            slots.iter().for_each(|&slot| writer.clear_source(slot));
            (0..).zip(sources).for_each(|(slot, source)| writer.set_source(slot, source));
        } else {
            let slots = slots.into_iter().chain([ORDERED_OUTPUT_SLOT]);
            slots.zip(sources).for_each(|(slot, source)| writer.set_source(slot, source));
        }
    }

    /// Makes a tensor a view, or the owner of its memory. As in a view that ggml creates, the address is set at once if
    /// the root has one; the buffer is left to allocators and schedulers.
    fn set_view(&self, tensor: TensorRef<'g>, id: TensorId, tensors: &[TensorRef<'g>]) {
        let old = tensor.view_source().map(|root| (root, tensor.view_offset()));
        let view = self.graph.tensor(id).view;
        let new = view.map(|view| (tensors[view.root as usize], usize::try_from(view.offset).expect("addressable")));
        if new == old {
            return;
        }
        // SAFETY: no reference into the tensor is held.
        let mut writer = unsafe { TensorMut::new(tensor) };
        let Some((root, offset)) = new else { return writer.clear_view() };
        writer.set_view(root, offset);
        let start = root.data();
        if !start.is_null() {
            writer.set_memory(std::ptr::null_mut(), start.wrapping_byte_add(offset));
        }
    }

    /// Lists the edited graph, and counts the uses of new tensors as backends expect it. A new tensor has at least the uses
    /// that ggml counted of the one that it is made from, so that backends fuse it only where they would have fused that:
    /// other kernels may round differently.
    ///
    /// # Safety
    /// `graph` is live, has room, and no other thread uses it; no [`GraphRef`] of it is used afterwards.
    unsafe fn list(&self, graph: NonNull<ggml_cgraph>, tensors: &[TensorRef<'g>]) {
        let (leafs, nodes) = (self.graph.leafs().len(), self.graph.nodes());
        let live = |node: &TensorId| tensors[*node as usize];
        let is_new = |node: &&TensorId| self.origins[**node as usize].is_new;
        let kept: Vec<TensorRef<'g>> = nodes.iter().filter(|node| !is_new(node)).map(live).collect();
        // SAFETY: a live graph that no other thread uses, as the caller guarantees; it gets no more nodes than it had.
        unsafe { GraphRef::replace_lists(graph, &kept, leafs) };
        for node in nodes.iter().filter(is_new) {
            // SAFETY: a live graph with room, and a live tensor whose sources are in the graph.
            unsafe { (self.runtime.functions.ggml_build_forward_expand)(graph.as_ptr(), live(node).as_ptr()) };
        }
        let order: Vec<TensorRef<'g>> = nodes.iter().map(live).collect();
        // SAFETY: a live graph that no other thread uses, as the caller guarantees; it has room, which was checked.
        unsafe { GraphRef::replace_lists(graph, &order, leafs) };
        // SAFETY: a live graph of this ggml and of this thread.
        let Some(mut counts) = (unsafe { UseCounts::of(self.runtime, graph) }) else { return };
        let mut uses: HashMap<usize, i32> = HashMap::new();
        for source in order.iter().flat_map(|node| node.sources()) {
            *uses.entry(source.address()).or_default() += 1;
        }
        for (&tensor, origin) in tensors.iter().zip(&self.origins).filter(|(_, origin)| origin.is_new) {
            let own = uses.get(&tensor.address()).copied().unwrap_or(0);
            counts.set(tensor, own.max(counts.of_tensor(origin.tensor)));
        }
    }
}
