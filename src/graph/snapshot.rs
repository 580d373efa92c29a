//! Graphs with their names, as they are written to files: the format "lastuse-graph", version 1.
//!
//! One JSON object a line: a header, then one line a tensor. [`Snapshot::text`] writes it without a library; reading it
//! needs the feature "cli".

#[cfg(feature = "cli")]
mod check;
#[cfg(feature = "cli")]
mod file;
pub mod json;
mod of_problem;
#[cfg(feature = "cli")]
mod plan_file;
#[cfg(feature = "cli")]
mod read;
#[cfg(all(test, feature = "cli"))]
mod tests;
mod write;

use std::collections::HashMap;

use crate::placement::{Bytes, Effort};

use super::order::{self, Effect, Hazards, Reordering, reorder};
use super::{BufferIndex, BufferSpec, Graph, GraphPlan, PlanError, Requests, Rules, TensorId, sizes_by_ggml};

#[cfg(feature = "cli")]
pub use check::{Defect, Kind as DefectKind, check};
#[cfg(feature = "cli")]
pub use file::Unreadable;
#[cfg(feature = "cli")]
pub use plan_file::{MalformedPlan, PlanFile, PlannedBuffer, PlannedTensor};
#[cfg(feature = "cli")]
pub use read::Malformed;

/// The name of the format, and the only version of it so far.
const FORMAT: (&str, u64) = ("lastuse-graph", 1);

/// A graph with its names.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Free text.
    pub label: String,
    /// The buffer types.
    pub buffers: Vec<BufferInfo>,
    /// The graph; tensors have the ids of their lines, counted from 0.
    pub graph: Graph,
    /// By tensor: its id in the file, its names and its sizes.
    pub tensors: Vec<TensorInfo>,
}

/// A buffer type in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferInfo {
    /// ggml's name for it.
    pub name: String,
    /// Offsets and sizes are multiples of this power of two.
    pub alignment: Bytes,
    /// The largest buffer; no limit when absent.
    pub max_size: Option<Bytes>,
    /// What ggml's own allocator needed for the graph.
    pub ggml_alloc_size: Option<Bytes>,
    /// Which memory the program shared in it, where that is known.
    pub rules: Option<Rules>,
    /// How much the program searched, where that is known.
    pub effort: Option<Effort>,
}

/// What the planner does not need of a tensor, but people and sizes do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its id in the file.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// ggml's name of its operation.
    pub op: String,
    /// The operation for people: which of the unary ones it is, say. The same as `op` where there is no more to tell.
    pub desc: String,
    /// ggml's name of its element type.
    pub element: String,
    /// Bytes from its first to its last element.
    pub nbytes: Bytes,
    /// Bytes that its buffer type wants, before padding.
    pub size: Bytes,
    /// The buffer that was asked for.
    pub buffer: BufferIndex,
    /// What other buffers want for it, where that is another number: a node computed in place moves to the buffer of its
    /// source.
    pub elsewhere: Vec<(BufferIndex, Bytes)>,
}

impl TensorInfo {
    /// Bytes that a buffer wants for it, before padding.
    pub fn size_in(&self, buffer: BufferIndex) -> Bytes {
        self.elsewhere.iter().find(|(other, _)| *other == buffer).map_or(self.size, |(_, size)| *size)
    }
}

impl BufferInfo {
    /// What it is planned with: as the program did, where that is known, and otherwise with everything that is right on a
    /// CPU and the default effort.
    pub fn buffer(&self) -> BufferSpec {
        BufferSpec {
            alignment: self.alignment,
            max_chunk: self.max_size,
            rules: self.rules.unwrap_or(Rules::ALL),
            effort: self.effort.unwrap_or_default(),
        }
    }
}

impl Snapshot {
    /// The buffers to plan for as the program did: see [`BufferInfo::buffer`].
    pub fn recorded_buffers(&self) -> Vec<BufferSpec> {
        self.buffers.iter().map(BufferInfo::buffer).collect()
    }

    /// The buffers to plan for, all with these rules and this effort.
    pub fn buffers(&self, rules: Rules, effort: Effort) -> Vec<BufferSpec> {
        self.buffers.iter().map(|buffer| BufferSpec { rules, effort, ..buffer.buffer() }).collect()
    }

    /// The tensors by their ids in the file.
    pub fn tensor_ids(&self) -> HashMap<u64, TensorId> {
        (0..).zip(&self.tensors).map(|(id, tensor)| (tensor.id, id)).collect()
    }

    /// What messages call a tensor.
    pub fn tensor(&self, id: TensorId) -> String {
        let TensorInfo { id, name, op, .. } = &self.tensors[id as usize];
        format!("tensor {id} {name:?} ({op})")
    }

    /// The buffer of each leaf and of each node.
    pub fn requested_buffers(&self) -> (Vec<BufferIndex>, Vec<BufferIndex>) {
        let buffers = |ids: &[TensorId]| ids.iter().map(|&id| self.tensors[id as usize].buffer).collect();
        (buffers(self.graph.leafs()), buffers(self.graph.nodes()))
    }

    /// Plans the graph as the program did, with the rules and the effort of the file.
    ///
    /// # Errors
    /// See [`super::plan`].
    pub fn plan_as_recorded(&self) -> Result<GraphPlan, PlanError> {
        self.plan_in(&self.recorded_buffers())
    }

    /// Plans the graph with the default effort.
    ///
    /// # Errors
    /// See [`super::plan`].
    pub fn plan(&self, rules: Rules) -> Result<GraphPlan, PlanError> {
        self.plan_with(rules, Effort::default())
    }

    /// Like [`Self::plan`], with as much searching for each buffer as `effort` allows.
    ///
    /// # Errors
    /// See [`super::plan`].
    pub fn plan_with(&self, rules: Rules, effort: Effort) -> Result<GraphPlan, PlanError> {
        self.plan_in(&self.buffers(rules, effort))
    }

    /// Plans the graph for buffers, one a buffer.
    ///
    /// # Errors
    /// See [`super::plan`].
    pub fn plan_in(&self, buffers: &[BufferSpec]) -> Result<GraphPlan, PlanError> {
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        super::plan(&self.graph, buffers, requests, &mut |id, buffer| self.size(id, buffer))
    }

    /// Plans the graph as ggml's own allocator does.
    ///
    /// # Errors
    /// See [`super::plan_as_ggml`].
    pub fn plan_as_ggml(&self) -> Result<GraphPlan, PlanError> {
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        super::plan_as_ggml(&self.graph, &self.recorded_buffers(), requests, &mut |id, buffer| self.size(id, buffer))
    }

    /// Finds out what ggml's own allocator takes in each buffer, and notes it there.
    pub fn add_ggml_alloc_sizes(&mut self) {
        let found = self.ggml_alloc_sizes();
        for (buffer, size) in self.buffers.iter_mut().zip(found.into_iter().flatten()) {
            buffer.ggml_alloc_size = Some(size);
        }
    }

    /// By buffer: what ggml's own allocator takes. `None` when sizes overflow.
    pub fn ggml_alloc_sizes(&self) -> Option<Vec<Bytes>> {
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        sizes_by_ggml(&self.graph, &self.recorded_buffers(), requests, &mut |id, buffer| self.size(id, buffer))
    }

    /// Puts the nodes into an order in which fewer bytes are alive at the worst step, where one is found. Tensors that
    /// have their memory already are taken to share none: the file does not say. `buffers` are for each plan that is
    /// made, as [`Self::plan_in`] takes them, `effort` is for the search for an order.
    ///
    /// # Errors
    /// See [`super::plan`].
    pub fn reorder(&mut self, buffers: &[BufferSpec], effort: order::Effort) -> Result<Reordering, PlanError> {
        let effects: Vec<Effect> = self.tensors.iter().map(|tensor| Effect::of(&tensor.op)).collect();
        let roots: Vec<TensorId> = (0..).take(self.tensors.len()).collect();
        let hazards = Hazards::new(&self.graph, &effects, &roots);
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes = |id, buffer| self.size(id, buffer);
        let found = reorder(&self.graph, buffers, requests, &mut sizes, &hazards, effort)?;
        self.graph = self.graph.in_order(&found.order);
        Ok(found)
    }

    fn size(&self, id: TensorId, buffer: BufferIndex) -> Bytes {
        self.tensors[id as usize].size_in(buffer)
    }
}
