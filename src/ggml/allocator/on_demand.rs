//! Memory that is given back: pages of the CPU's buffers that the graphs which are run do not need.

use crate::ggml::live::surplus::{give_back_beyond, note_graph};
use crate::ggml::process::settings::Settings;
use crate::placement::Bytes;

use super::Allocator;

/// What an allocator knows of the memory that its graphs need.
#[derive(Debug)]
pub struct Demand {
    /// Whether pages are given back by themselves.
    is_counted: bool,
    /// Bytes of each buffer that the graph allocated last needs.
    needed: Vec<Bytes>,
}

impl Demand {
    /// Creates that of a new allocator with that many buffers.
    pub fn new(settings: &Settings, buffers: usize) -> Self {
        Self { is_counted: settings.on_demand.compute, needed: vec![0; buffers] }
    }
}

impl Allocator {
    /// Notes that the plan in use has served a graph, which is run next. Only runs of a scheduler's graphs are counted: it
    /// runs no graph that was allocated before, and its programs set all inputs before each run.
    pub(super) fn note_run(&mut self, is_scheduled: bool) {
        let Self { planner, plans, chunks, demand, .. } = self;
        let Some(plan) = plans.current() else { return };
        let types = planner.types.types().iter().zip(plan.buffers()).zip(&mut demand.needed);
        for (buffer, ((buffer_type, plan), needed)) in types.enumerate() {
            *needed = plan.placement.size();
            if let Some(chunk) = chunks.only(buffer).filter(|_| demand.is_counted && buffer_type.is_plain_cpu()) {
                let needed = if is_scheduled { *needed } else { chunk.size() };
                // SAFETY: of this allocator alone, which has just allocated the graph.
                unsafe { note_graph(planner.runtime, chunk, needed) };
            }
        }
    }

    /// Gives back the pages of the CPU's buffers that the graph allocated last does not need.
    ///
    /// # Safety
    /// No graph is being run, and none but that one is read or run before it is allocated again.
    pub unsafe fn trim(&mut self) {
        let Self { planner, chunks, demand, .. } = self;
        let types = planner.types.types().iter().zip(&demand.needed).enumerate();
        for (buffer, (_, &needed)) in types.filter(|(_, (buffer_type, _))| buffer_type.is_plain_cpu()) {
            if let Some(chunk) = chunks.only(buffer) {
                // SAFETY: the graph that needs these bytes is the only one that is still used: see "# Safety".
                unsafe { give_back_beyond(chunk, needed) };
            }
        }
    }
}
