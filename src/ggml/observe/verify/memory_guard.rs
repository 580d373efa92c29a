//! Compares memory while a graph runs node by node.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use crate::graph::Effect;
use crate::placement::Step;

use super::Violation;
use super::buffer_copy::{BufferCopy, Changes};
use super::places::check_places_of_node;
use super::stale_inputs::{end_run, start_run};
use super::stray_write::StrayWrite;
use super::watched_graph::{Registration, WatchedGraph};
use crate::ggml::USAGE_WEIGHTS;
use crate::ggml::bindings::ggml_tensor;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::settings::Verify;

/// A callback of the program that the guard calls as the scheduler would.
#[derive(Clone, Copy, Debug)]
pub struct NextCallback {
    /// The function.
    pub function: unsafe extern "C" fn(*mut ggml_tensor, bool, *mut c_void) -> bool,
    /// The last argument.
    pub user_data: *mut c_void,
}

/// Keeps copies of all buffers that a graph uses, to detect which bytes each node changes.
#[derive(Debug)]
pub struct MemoryGuard {
    runtime: &'static Runtime,
    mode: Verify,
    next: Option<NextCallback>,
    /// Whether the next callback requested the node that is computed.
    is_requested_by_next: bool,
    /// The graph that is running, if it is registered.
    graph: Option<Arc<WatchedGraph>>,
    copies: Vec<BufferCopy>,
    /// The copies of buffers that are compared for the node that is computed.
    in_use: Vec<usize>,
    /// Buffers that are not guarded, which was logged.
    unguarded: HashSet<BufferRef>,
}

impl MemoryGuard {
    /// Creates a guard without copies.
    pub fn new(runtime: &'static Runtime, mode: Verify, next: Option<NextCallback>) -> Self {
        Self {
            runtime,
            mode,
            next,
            is_requested_by_next: false,
            graph: None,
            copies: Vec::new(),
            in_use: Vec::new(),
            unguarded: HashSet::new(),
        }
    }

    /// The callback of a scheduler: before a node is computed (`ask`) and after. Returns `true` to have the node
    /// computed alone, or to continue.
    ///
    /// # Errors
    /// A write of the node outside of its result, or memory that was freed before.
    pub fn eval(&mut self, tensor: TensorRef<'_>, ask: bool) -> Result<bool, Violation> {
        if ask {
            check_places_of_node(tensor)?;
            self.is_requested_by_next = self.call_next(tensor, true);
            let graph = Registration::find(tensor);
            self.before(tensor, graph);
            return Ok(true);
        }
        self.after(tensor)?;
        let continues = !self.is_requested_by_next || self.call_next(tensor, false);
        self.clear_after(tensor);
        Ok(continues)
    }

    fn call_next(&self, tensor: TensorRef<'_>, ask: bool) -> bool {
        // SAFETY: the program's own function, called as ggml would call it.
        self.next.is_some_and(|next| unsafe { (next.function)(tensor.as_ptr(), ask, next.user_data) })
    }

    /// Copies memory before `tensor` is computed; `graph` is its graph, if registered.
    pub fn before(&mut self, tensor: TensorRef<'_>, graph: Option<Arc<WatchedGraph>>) {
        let is_new = match (&self.graph, &graph) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new),
            (None, None) => false,
            _ => true,
        };
        let buffers = match &graph {
            Some(graph) => graph.buffers.clone(),
            None => buffers_of(tensor),
        };
        if is_new {
            let runtime = self.runtime;
            self.copies.retain(|copy| buffers.iter().any(|&buffer| copy.is_of(runtime, buffer)));
        }
        self.in_use = buffers.into_iter().filter_map(|buffer| self.copy_of(buffer)).collect();
        self.graph = graph;
        if let Some(graph) = self.graph.as_ref().filter(|graph| graph.step(tensor) == Some(0)) {
            start_run(graph, &self.copies).iter().for_each(|message| self.runtime.log_warning(message));
        }
        if is_new && let Some(graph) = self.graph.clone() {
            graph.free_at_start().for_each(|(buffer, range)| self.poison(buffer, range));
        }
    }

    /// Returns the index of an up-to-date copy of a buffer, or `None` if it is not guarded.
    fn copy_of(&mut self, buffer: BufferRef) -> Option<usize> {
        if let Some(known) = self.copies.iter().position(|copy| copy.is_of(self.runtime, buffer)) {
            self.copies[known].refresh();
            return Some(known);
        }
        if self.unguarded.contains(&buffer) {
            return None;
        }
        let reason = if !self.runtime.is_host(buffer) {
            "is not host memory"
        } else if self.runtime.usage(buffer) == USAGE_WEIGHTS && !self.mode.weights {
            "is marked as weights (LASTUSE_VERIFY=weights guards them too)"
        } else if let Some(copy) = BufferCopy::new(self.runtime, buffer) {
            self.copies.push(copy);
            return Some(self.copies.len() - 1);
        } else {
            "is too large: there is no memory for a copy"
        };
        self.unguarded.insert(buffer);
        let (name, bytes) = (self.runtime.name_of(buffer), self.runtime.extent(buffer).1);
        self.runtime.log_warning(&format!("lastuse: a {name} buffer of {bytes} bytes is not guarded: it {reason}\n"));
        None
    }

    /// Compares memory after `tensor` was computed.
    ///
    /// # Errors
    /// A write outside of the result.
    pub fn after(&mut self, tensor: TensorRef<'_>) -> Result<(), Violation> {
        let allowed = self.allowed(tensor);
        for &index in &self.in_use {
            let copy = &mut self.copies[index];
            let Some(allowed) = &allowed else {
                copy.refresh();
                continue;
            };
            let allowed: Vec<Range<usize>> = allowed.iter().map(|range| from_base(range, copy.base())).collect();
            let changes = copy.changes(&allowed);
            if changes.bytes > 0 {
                return Err(self.violation(tensor, index, &changes));
            }
            allowed.into_iter().for_each(|range| copy.accept(range));
        }
        Ok(())
    }

    /// Poisons the memory that is free after `tensor` was computed.
    pub fn clear_after(&mut self, tensor: TensorRef<'_>) {
        let Some(graph) = self.graph.clone() else { return };
        if let Some(step) = graph.step(tensor) {
            graph.free_after(step).for_each(|(buffer, range)| self.poison(buffer, range));
            if step as usize + 1 == graph.steps() {
                end_run(&graph, &self.copies);
            }
        }
    }

    fn poison(&mut self, buffer: BufferRef, range: Range<usize>) {
        if let Some(&index) = self.in_use.iter().find(|&&index| self.copies[index].buffer == buffer) {
            self.copies[index].poison(range);
        }
    }

    /// Returns the addresses that a node may write; `None` for any.
    fn allowed(&self, tensor: TensorRef<'_>) -> Option<Vec<Range<usize>>> {
        let effect = self.runtime.operations.op(tensor.op()).effect();
        match effect {
            Effect::Nothing | Effect::View => Some(Vec::new()),
            Effect::Anything if self.mode.trusts_custom => None,
            Effect::Result | Effect::Anything => Some(vec![self.span(tensor)]),
            Effect::Sources(_) => {
                let sources = tensor.sources().enumerate().filter(|&(position, _)| effect.writes_source(position));
                Some(sources.map(|(_, source)| source).chain([tensor]).map(|it| self.span(it)).collect())
            }
        }
    }

    fn span(&self, tensor: TensorRef<'_>) -> Range<usize> {
        let start = tensor.data().addr();
        let buffer = tensor.buffer_ref().filter(|_| tensor.view_source().is_none());
        let own = buffer.map_or(0, |buffer| self.runtime.alloc_size_in(buffer, tensor));
        let size = self.runtime.nbytes(tensor).max(own);
        start..start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX))
    }

    fn violation(&self, tensor: TensorRef<'_>, index: usize, changes: &Changes) -> Violation {
        let (copy, result) = (&self.copies[index], self.span(tensor));
        let base = copy.base();
        let distance = |place: &&Range<usize>| {
            let (start, end) = (base + place.start, base + place.end);
            start.saturating_sub(result.end).max(result.start.saturating_sub(end))
        };
        let nearest = changes.places.iter().min_by_key(distance).cloned().unwrap_or(0..1);
        let place = base + nearest.start..base + nearest.end;
        let step = self.graph.as_ref().and_then(|graph| graph.step(tensor));
        let owner = match &self.graph {
            Some(graph) => graph.owner(step, &place),
            None => self.owner_among_sources(tensor, &place),
        };
        let buffer = (format!("the {} buffer", self.runtime.name_of(copy.buffer)), base);
        let is_same_buffer = tensor.buffer() == copy.buffer.as_ptr();
        let writer = self.at_step(tensor, step);
        let (bytes, places) = (changes.bytes, changes.places.len());
        StrayWrite { writer, result, place, buffer, is_same_buffer, bytes, places, owner }.violation()
    }

    fn at_step(&self, tensor: TensorRef<'_>, step: Option<Step>) -> String {
        let name = self.runtime.describe(tensor);
        match (step, &self.graph) {
            (Some(step), Some(graph)) => format!("step {step} of {}, {name},", graph.steps()),
            _ => name,
        }
    }

    fn owner_among_sources(&self, tensor: TensorRef<'_>, place: &Range<usize>) -> Option<String> {
        let roots = tensor.sources().chain([tensor]).map(|it| it.view_source().unwrap_or(it));
        let holds = |it: &TensorRef<'_>| {
            let span = self.span(*it);
            span.start < place.end && place.start < span.end
        };
        roots.into_iter().find(holds).map(|root| format!("belong to {}", self.runtime.describe(root)))
    }
}

/// Returns the buffers of a node and its sources.
fn buffers_of(tensor: TensorRef<'_>) -> Vec<BufferRef> {
    let mut buffers = Vec::new();
    for it in tensor.sources().chain([tensor]) {
        if let Some(buffer) = it.buffer_ref().filter(|buffer| !buffers.contains(buffer)) {
            buffers.push(buffer);
        }
    }
    buffers
}

fn from_base(range: &Range<usize>, base: usize) -> Range<usize> {
    range.start.saturating_sub(base)..range.end.saturating_sub(base)
}

impl Runtime {
    /// Returns the name of the type of a live buffer.
    fn name_of(&'static self, buffer: BufferRef) -> String {
        self.type_of(buffer).map(|buffer_type| buffer_type.name()).unwrap_or_default()
    }
}
