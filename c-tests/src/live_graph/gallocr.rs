//! Graph allocators of both kinds.

use std::ffi::CStr;

use lastuse::ffi::ggml_gallocr;
use lastuse::placement::{Bytes, Offset};

use super::limited::LimitedType;
use super::loaded::{Api, GallocrSizes, Ggml, Own};
use super::{Allocators, LiveGraph};

/// A graph allocator: ggml's own, or lastuse. Over the CPU's buffer type, or one with a limit.
#[derive(Debug)]
pub struct Gallocr {
    api: Api,
    own: Option<Own>,
    raw: *mut ggml_gallocr,
    limited: Option<LimitedType>,
}

impl Allocators {
    /// Creates an allocator of ggml's own kind, without memory.
    pub fn upstream(&self) -> Gallocr {
        Gallocr::new(&self.ggml, self.upstream, None)
    }

    /// Creates an allocator of lastuse, without memory, with the rules of one that a scheduler uses.
    pub fn lastuse(&self) -> Gallocr {
        let allocator = self.lastuse_used_directly();
        allocator.set_rules(c"no-keep-inputs");
        allocator
    }

    /// Creates an allocator of lastuse, without memory, with the rules of one that a program uses itself.
    pub fn lastuse_used_directly(&self) -> Gallocr {
        Gallocr::new(&self.ggml, self.lastuse, Some(self.own))
    }

    /// `lastuse_set("recycle", limit)`.
    pub fn recycle(&self, limit: &CStr) {
        // SAFETY: two strings.
        let known = unsafe { (self.own.set_process)(c"recycle".as_ptr(), limit.as_ptr()) };
        assert!(known, "{limit:?} is not a limit");
    }

    /// `lastuse_graph_measure` for the CPU's buffer type, in bytes. The graph must be [reset](LiveGraph::reset).
    pub fn measure(&self, graph: &LiveGraph) -> Option<Bytes> {
        assert!(graph.fresh, "the graph must be reset before it is measured");
        // SAFETY: takes nothing.
        let buffer_type = unsafe { (self.ggml.functions.cpu_buffer_type)() };
        let (none, mut size) = (std::ptr::null(), 0);
        let (own, bounds) = (self.own, std::ptr::null_mut());
        // SAFETY: a live graph used by nothing else, one live buffer type, no ids, and room for one size.
        let done = unsafe {
            (own.graph_measure)(&raw const graph.graph, 1, &raw const buffer_type, 1, none, none, &raw mut size, bounds)
        };
        done.then_some(size as Bytes)
    }

    /// Creates an allocator of ggml's own kind over buffers of at most `max_size` bytes without real memory.
    pub fn upstream_limited(&self, alignment: Bytes, max_size: Bytes) -> Gallocr {
        Gallocr::limited(self.upstream, None, LimitedType::new(self.limited_types, alignment, max_size))
    }

    /// Creates an allocator of lastuse with `rules`, over buffers of at most `max_size` bytes without real memory.
    pub fn lastuse_limited(&self, alignment: Bytes, max_size: Bytes, rules: &CStr) -> Gallocr {
        let limited = LimitedType::new(self.limited_types, alignment, max_size);
        let allocator = Gallocr::limited(self.lastuse, Some(self.own), limited);
        allocator.set_rules(rules);
        allocator
    }
}

impl Gallocr {
    fn new(ggml: &Ggml, api: Api, own: Option<Own>) -> Self {
        // SAFETY: takes nothing.
        let buffer_type = unsafe { (ggml.functions.cpu_buffer_type)() };
        // SAFETY: a live buffer type.
        let raw = unsafe { (api.gallocr_new)(buffer_type) };
        Self { api, own, raw, limited: None }
    }

    fn limited(api: Api, own: Option<Own>, limited: LimitedType) -> Self {
        // SAFETY: a live buffer type, which is dropped after the allocator.
        let raw = unsafe { (api.gallocr_new)(limited.as_ggml()) };
        Self { api, own, raw, limited: Some(limited) }
    }

    /// Sets the rules of an allocator of lastuse.
    fn set_rules(&self, rules: &CStr) {
        // SAFETY: an allocator of lastuse, and strings.
        let known = self.own.is_some_and(|own| unsafe { (own.set)(self.raw, c"rules".as_ptr(), rules.as_ptr()) });
        assert!(known, "{rules:?} are not rules");
    }

    /// Returns the number of its limited buffers and the sum of their bytes.
    pub fn chunks(&self) -> (usize, Bytes) {
        self.limited.as_ref().map_or((0, 0), LimitedType::held)
    }

    /// `ggml_gallocr_reserve`. The graph must be [reset](LiveGraph::reset).
    pub fn reserve(&mut self, graph: &LiveGraph) -> bool {
        assert!(graph.fresh, "the graph must be reset before it is planned");
        // SAFETY: both are valid and used by nothing else.
        unsafe { (self.api.reserve)(self.raw, graph.graph) }
    }

    /// `ggml_gallocr_alloc_graph`. The graph must be [reset](LiveGraph::reset).
    pub fn allocate(&mut self, graph: &mut LiveGraph) -> bool {
        // Addresses of an earlier allocation may point into freed buffers.
        assert!(std::mem::replace(&mut graph.fresh, false), "the graph must be reset before it is allocated again");
        // SAFETY: both are valid and used by nothing else.
        unsafe { (self.api.alloc_graph)(self.raw, graph.graph) }
    }

    /// Allocates, and returns by id the offset in the buffer of each tensor that had no memory before; `None` when the
    /// allocator fails.
    pub fn place(&mut self, graph: &mut LiveGraph) -> Option<Vec<Option<Offset>>> {
        graph.reset();
        let done = self.allocate(graph);
        // SAFETY: the graph was reset before, so all memory of its tensors belongs to this allocator.
        done.then(|| unsafe { graph.offsets() })
    }

    /// `ggml_gallocr_get_buffer_size`.
    pub fn buffer_size(&self) -> Bytes {
        // SAFETY: the allocator is valid and has one buffer.
        unsafe { (self.api.get_buffer_size)(self.raw, 0) as Bytes }
    }

    /// The lower bound of the last plan; `None` for ggml's own allocator, which has none.
    pub fn lower_bound(&self) -> Option<Bytes> {
        let own = self.own?;
        let mut sizes = GallocrSizes { struct_size: size_of::<GallocrSizes>(), ..GallocrSizes::default() };
        // SAFETY: the allocator is valid, lastuse's own, and has one buffer; the struct has its size.
        let is_filled = unsafe { (own.report)(self.raw, 0, &raw mut sizes) };
        is_filled.then_some(sizes.lower_bound as Bytes)
    }
}

impl Drop for Gallocr {
    fn drop(&mut self) {
        // SAFETY: the allocator is ours.
        unsafe { (self.api.gallocr_free)(self.raw) };
    }
}
