//! Writes the values of tensors after a run.

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_cgraph;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::observe::dump::{Dumped, NoPattern, dumps};
use crate::ggml::process::ggml::Ggml;

/// Flags the nodes that will be dumped as outputs until [`dump_graph`].
///
/// # Errors
/// [`NoPattern`].
///
/// # Safety
/// `graph` and its tensors are live, and no other thread uses them.
pub unsafe fn begin_dump(graph: NonNull<ggml_cgraph>) -> Result<(), NoPattern> {
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    let nodes = unsafe { GraphRef::new(graph) };
    // SAFETY: there are no references into the tensors, which no other thread uses.
    unsafe { dumps().begin(nodes, graph.as_ptr().addr()) }
}

/// Writes the values of the tensors of a graph that has run, and reports it.
///
/// # Errors
/// [`NoPattern`].
///
/// # Safety
/// `graph`, its tensors and their buffers are live, and no other thread and no backend uses them.
pub unsafe fn dump_graph(
    ggml: &'static Ggml,
    runtime: &'static Runtime,
    graph: NonNull<ggml_cgraph>,
) -> Result<Dumped, NoPattern> {
    // SAFETY: a live graph that no other thread uses, as the caller guarantees.
    let nodes = unsafe { GraphRef::new(graph) };
    // SAFETY: there are no references into the tensors, which are in live buffers that no backend uses.
    let dumped = unsafe { dumps().dump(runtime, nodes, graph.as_ptr().addr()) }?;
    if let (Some(events), Some(folder)) = (&ggml.events, dumps().folder()) {
        events.write_dump(&folder, &dumped);
    }
    Ok(dumped)
}
