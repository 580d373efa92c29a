//! Checks memory while a graph runs node by node.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use crate::graph::order::Effect;
use crate::placement::Step;

use super::Violation;
use super::mode::Verify;
use super::shadow::{Changes, Shadow};
use super::stray::Stray;
use super::watch::{Registration, Watch};
use crate::ggml::USAGE_WEIGHTS;
use crate::ggml::bindings::ggml_tensor;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

/// A callback of the program that is called as the guard is, with what it is called with.
#[derive(Clone, Copy, Debug)]
pub struct NextCallback {
    /// The function.
    pub function: unsafe extern "C" fn(*mut ggml_tensor, bool, *mut c_void) -> bool,
    /// Its last argument.
    pub user_data: *mut c_void,
}

/// Keeps a copy of all memory that a graph uses, and sees by it which bytes a node has changed.
#[derive(Debug)]
pub struct Guard {
    runtime: &'static Runtime,
    mode: Verify,
    next: Option<NextCallback>,
    /// Does the next callback want to see the node that is computed?
    next_wants: bool,
    /// The graph that is running, where it is known.
    watch: Option<Arc<Watch>>,
    shadows: Vec<Shadow>,
    /// Of the shadows, those of the node that is computed.
    in_use: Vec<usize>,
    /// Buffers that are left out, and were told.
    left_out: HashSet<BufferRef>,
}

impl Guard {
    /// A guard that has seen nothing yet.
    pub fn new(runtime: &'static Runtime, mode: Verify, next: Option<NextCallback>) -> Self {
        Self {
            runtime,
            mode,
            next,
            next_wants: false,
            watch: None,
            shadows: Vec::new(),
            in_use: Vec::new(),
            left_out: HashSet::new(),
        }
    }

    /// What ggml asks its callback for: before a node is computed, and after. True: compute this one alone; and go on.
    ///
    /// # Errors
    /// What the node has done to memory that is not its own.
    pub fn eval(&mut self, tensor: TensorRef<'_>, ask: bool) -> Result<bool, Violation> {
        if ask {
            self.next_wants = self.call_next(tensor, true);
            let watch = Registration::find(tensor);
            self.before(tensor, watch);
            return Ok(true);
        }
        self.after(tensor)?;
        let goes_on = !self.next_wants || self.call_next(tensor, false);
        self.clear_after(tensor);
        Ok(goes_on)
    }

    fn call_next(&self, tensor: TensorRef<'_>, ask: bool) -> bool {
        // SAFETY: the program's own function, called as ggml would call it.
        self.next.is_some_and(|next| unsafe { (next.function)(tensor.as_ptr(), ask, next.user_data) })
    }

    /// Records memory before `tensor` is computed, in the graph of `watch` where that is known.
    pub fn before(&mut self, tensor: TensorRef<'_>, watch: Option<Arc<Watch>>) {
        let is_new = match (&self.watch, &watch) {
            (Some(old), Some(new)) => !Arc::ptr_eq(old, new),
            (None, None) => false,
            _ => true,
        };
        let buffers = match &watch {
            Some(watch) => watch.buffers.clone(),
            None => buffers_of(tensor),
        };
        if is_new {
            let runtime = self.runtime;
            self.shadows.retain(|shadow| buffers.iter().any(|&buffer| shadow.is_of(runtime, buffer)));
        }
        self.in_use = buffers.into_iter().filter_map(|buffer| self.shadow(buffer)).collect();
        self.watch = watch;
        if is_new && let Some(watch) = self.watch.clone() {
            watch.free_at_start().for_each(|(buffer, range)| self.poison(buffer, range));
        }
    }

    /// The shadow of a buffer as the buffer is, or `None` when it is left out.
    fn shadow(&mut self, buffer: BufferRef) -> Option<usize> {
        if let Some(known) = self.shadows.iter().position(|shadow| shadow.is_of(self.runtime, buffer)) {
            self.shadows[known].refresh();
            return Some(known);
        }
        if self.left_out.contains(&buffer) {
            return None;
        }
        let why = if !self.runtime.is_host(buffer) {
            "is no host memory"
        } else if self.runtime.usage(buffer) == USAGE_WEIGHTS && !self.mode.weights {
            "is marked as weights (LASTUSE_VERIFY=weights guards them too)"
        } else if let Some(shadow) = Shadow::new(self.runtime, buffer) {
            self.shadows.push(shadow);
            return Some(self.shadows.len() - 1);
        } else {
            "is too large: there is no memory for a copy"
        };
        self.left_out.insert(buffer);
        let (name, bytes) = (self.runtime.name_of(buffer), self.runtime.extent(buffer).1);
        self.runtime.log_warning(&format!("lastuse: a {name} buffer of {bytes} bytes is not guarded: it {why}\n"));
        None
    }

    /// Checks memory after `tensor` was computed.
    ///
    /// # Errors
    /// What has changed that must not.
    pub fn after(&mut self, tensor: TensorRef<'_>) -> Result<(), Violation> {
        let allowed = self.allowed(tensor);
        for &index in &self.in_use {
            let shadow = &mut self.shadows[index];
            let Some(allowed) = &allowed else {
                shadow.refresh();
                continue;
            };
            let allowed: Vec<Range<usize>> = allowed.iter().map(|range| from_base(range, shadow.base())).collect();
            let changes = shadow.changes(&allowed);
            if changes.bytes > 0 {
                return Err(self.stray(tensor, index, &changes));
            }
            allowed.into_iter().for_each(|range| shadow.accept(range));
        }
        Ok(())
    }

    /// Poisons what nobody needs any more when `tensor` was computed.
    pub fn clear_after(&mut self, tensor: TensorRef<'_>) {
        let Some(watch) = self.watch.clone() else { return };
        if let Some(step) = watch.step(tensor) {
            watch.free_after(step).for_each(|(buffer, range)| self.poison(buffer, range));
        }
    }

    fn poison(&mut self, buffer: BufferRef, range: Range<usize>) {
        if let Some(&index) = self.in_use.iter().find(|&&index| self.shadows[index].buffer == buffer) {
            self.shadows[index].poison(range);
        }
    }

    /// The addresses that a node may write; `None` for any.
    fn allowed(&self, tensor: TensorRef<'_>) -> Option<Vec<Range<usize>>> {
        match self.runtime.operations.effect(tensor.op()) {
            Effect::Nothing | Effect::View => Some(Vec::new()),
            Effect::Anything if self.mode.trusts_custom => None,
            Effect::Result | Effect::Anything => Some(vec![self.span(tensor)]),
            Effect::Sources => Some(tensor.sources().chain([tensor]).map(|it| self.span(it)).collect()),
        }
    }

    fn span(&self, tensor: TensorRef<'_>) -> Range<usize> {
        let start = tensor.data().addr();
        let buffer = tensor.buffer_ref().filter(|_| tensor.view_source().is_none());
        let own = buffer.map_or(0, |buffer| self.runtime.alloc_size_in(buffer, tensor));
        let size = self.runtime.nbytes(tensor).max(own);
        start..start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX))
    }

    fn stray(&self, tensor: TensorRef<'_>, index: usize, changes: &Changes) -> Violation {
        let (shadow, result) = (&self.shadows[index], self.span(tensor));
        let base = shadow.base();
        let away = |place: &&Range<usize>| {
            let (start, end) = (base + place.start, base + place.end);
            start.saturating_sub(result.end).max(result.start.saturating_sub(end))
        };
        let nearest = changes.places.iter().min_by_key(away).cloned().unwrap_or(0..1);
        let place = base + nearest.start..base + nearest.end;
        let step = self.watch.as_ref().and_then(|watch| watch.step(tensor));
        let owner = match &self.watch {
            Some(watch) => watch.owner(step, &place),
            None => self.owner_among_sources(tensor, &place),
        };
        let buffer = (format!("the {} buffer", self.runtime.name_of(shadow.buffer)), base);
        let is_same_buffer = tensor.buffer() == shadow.buffer.as_ptr();
        let writer = self.at_step(tensor, step);
        let (bytes, places) = (changes.bytes, changes.places.len());
        Stray { writer, result, place, buffer, is_same_buffer, bytes, places, owner }.violation()
    }

    fn at_step(&self, tensor: TensorRef<'_>, step: Option<Step>) -> String {
        let name = self.runtime.describe(tensor);
        match (step, &self.watch) {
            (Some(step), Some(watch)) => format!("step {step} of {}, {name},", watch.steps()),
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

/// The buffers that a node and its sources lie in.
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
    /// The name of the type of a live buffer.
    fn name_of(&'static self, buffer: BufferRef) -> String {
        self.type_of(buffer).map(|buffer_type| buffer_type.name()).unwrap_or_default()
    }
}
