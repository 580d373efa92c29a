//! Graph allocators of both kinds.

use lastuse::ggml::ggml_gallocr;
use lastuse::placement::{Bytes, Offset};

use super::loaded::{Api, Ggml, Own};
use super::{Allocators, LiveGraph};

/// A graph allocator over the CPU's buffer type: ggml's own, or lastuse.
#[derive(Debug)]
pub struct Gallocr {
    api: Api,
    own: Option<Own>,
    raw: *mut ggml_gallocr,
}

impl Allocators {
    /// A new allocator of ggml's own kind, without memory.
    pub fn upstream(&self) -> Gallocr {
        Gallocr::new(&self.ggml, self.upstream, None)
    }

    /// A new allocator of lastuse, without memory.
    pub fn lastuse(&self) -> Gallocr {
        Gallocr::new(&self.ggml, self.lastuse, Some(self.own))
    }
}

impl Gallocr {
    fn new(ggml: &Ggml, api: Api, own: Option<Own>) -> Self {
        // SAFETY: takes nothing.
        let buffer_type = unsafe { (ggml.functions.cpu_buffer_type)() };
        // SAFETY: a live buffer type.
        let raw = unsafe { (api.gallocr_new)(buffer_type) };
        Self { api, own, raw }
    }

    /// `ggml_gallocr_reserve`. The graph must be [reset](LiveGraph::reset).
    pub fn reserve(&mut self, graph: &LiveGraph) -> bool {
        assert!(graph.fresh, "the graph must be reset before it is planned");
        // SAFETY: both are alive, and nobody else uses them.
        unsafe { (self.api.reserve)(self.raw, graph.graph) }
    }

    /// `ggml_gallocr_alloc_graph`. The graph must be [reset](LiveGraph::reset).
    pub fn allocate(&mut self, graph: &mut LiveGraph) -> bool {
        // What is left of an earlier allocation may point into buffers that are gone.
        assert!(std::mem::replace(&mut graph.fresh, false), "the graph must be reset before it is allocated again");
        // SAFETY: both are alive, and nobody else uses them.
        unsafe { (self.api.alloc_graph)(self.raw, graph.graph) }
    }

    /// Allocates, and answers by id where in the buffer each tensor lies that did not come with memory; `None` when
    /// the allocator refuses.
    pub fn place(&mut self, graph: &mut LiveGraph) -> Option<Vec<Option<Offset>>> {
        graph.reset();
        let done = self.allocate(graph);
        // SAFETY: the graph was reset before, so all memory of its tensors is this allocator's, which is alive.
        done.then(|| unsafe { graph.offsets() })
    }

    /// `ggml_gallocr_get_buffer_size`.
    pub fn buffer_size(&self) -> Bytes {
        // SAFETY: the allocator is alive, and has one buffer.
        unsafe { (self.api.get_buffer_size)(self.raw, 0) as Bytes }
    }

    /// `lastuse_gallocr_lower_bound` of the last plan; `None` of ggml's own allocator, which knows no such thing.
    pub fn lower_bound(&self) -> Option<Bytes> {
        // SAFETY: the allocator is alive, lastuse's own, and has one buffer.
        self.own.map(|own| unsafe { (own.lower_bound)(self.raw, 0) as Bytes })
    }
}

impl Drop for Gallocr {
    fn drop(&mut self) {
        // SAFETY: the allocator is ours.
        unsafe { (self.api.gallocr_free)(self.raw) };
    }
}
