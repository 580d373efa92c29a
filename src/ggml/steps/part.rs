//! One part of a live graph.

use std::ffi::c_int;
use std::ops::Range;
use std::ptr::NonNull;

use crate::graph::steps::PartPlan;
use crate::placement::Step;

use crate::ggml::bindings::{ggml_cgraph, ggml_cgraph_of_any_size};
use crate::ggml::live::ids::Ids;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};

use super::error::StepsError;
use super::layout::OwnerTensors;
use super::stored::clear;

/// One part of a live graph.
pub struct LivePart<'g> {
    /// Its plan.
    pub plan: PartPlan,
    /// Its nodes.
    pub nodes: Vec<TensorRef<'g>>,
    /// The tensors that only this part touches.
    pub inside: Vec<OwnerTensors<'g>>,
    /// Tensors that its nodes refer to, besides each other: sources of earlier parts, inputs and weights, and the roots
    /// of those.
    pub outside: Vec<TensorRef<'g>>,
    /// ggml's view of its nodes, which shares all but the leafs with the graph.
    view: Box<ggml_cgraph_of_any_size>,
}

impl std::fmt::Debug for LivePart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LivePart").field("plan", &self.plan).field("inside", &self.inside).finish_non_exhaustive()
    }
}

impl<'g> LivePart<'g> {
    /// Creates the part of `graph` that `plan` was made for; `nodes` are all nodes of the graph.
    ///
    /// # Errors
    /// [`StepsError::Unsupported`] if this ggml has no views of graphs.
    ///
    /// # Safety
    /// `graph` is live for `'g`, and no other thread uses it.
    pub unsafe fn new(
        runtime: &Runtime,
        graph: NonNull<ggml_cgraph>,
        nodes: &[TensorRef<'g>],
        plan: PartPlan,
        inside: Vec<OwnerTensors<'g>>,
    ) -> Result<Self, StepsError> {
        let view = runtime.functions.ggml_graph_view.ok_or(StepsError::Unsupported)?;
        let Range { start, end } = plan.nodes.clone();
        let number = |step: Step| c_int::try_from(step).map_err(|_| StepsError::Unsupported);
        let (first, last) = (number(start)?, number(end)?);
        // SAFETY: a live graph with that many nodes; the struct returned fits, whatever its size.
        let view = Box::new(unsafe { view(graph.as_ptr(), first, last) });
        let nodes = nodes[start as usize..end as usize].to_vec();
        let outside = outside(&nodes);
        let mut part = Self { plan, nodes, inside, outside, view };
        let as_graph = NonNull::new(part.as_ptr()).expect("a box is somewhere");
        // SAFETY: the view is new, and the list is freed with it.
        unsafe { GraphRef::set_leafs(as_graph, &part.outside) };
        Ok(part)
    }

    /// Returns the part as a graph of ggml.
    pub fn as_ptr(&mut self) -> *mut ggml_cgraph {
        (&raw mut *self.view).cast()
    }

    /// Takes the memory of what only this part touches away.
    pub fn clear(&self) {
        self.inside.iter().for_each(clear);
    }
}

/// Returns what `nodes` refer to beyond each other, each once.
fn outside<'g>(nodes: &[TensorRef<'g>]) -> Vec<TensorRef<'g>> {
    let known = Ids::from_tensors(nodes.to_vec());
    let mut outside = Ids::with_capacity(nodes.len());
    for &node in nodes {
        for referred in node.sources().chain([node]) {
            for tensor in [Some(referred), referred.view_source()].into_iter().flatten() {
                if !known.contains(tensor) {
                    outside.id(tensor);
                }
            }
        }
    }
    outside.into_tensors()
}
