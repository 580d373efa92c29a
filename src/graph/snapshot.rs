//! Captured graphs: a graph with the names and sizes of its tensors and its buffers, to plan or reorder again.
//!
//! [`crate::formats`] writes them, the tool reads them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use crate::placement::{Bytes, Effort};

use super::kernels::{KernelCosts, Kernels, costs_at};
use super::order::{self, Hazards, Reordering, reorder};
use super::recompute::{Recomputation, RecomputeEffort, TrainingGraph, recompute, recompute_exactly, work_of};
use super::tiling::{self, Known, TileKernels, TileKind, TiledGraph, TilingLimits};
use super::{
    Address, BufferIndex, BufferSpec, Device, Devices, Edited, Graph, GraphPlan, NamePattern, NotChanged, PlanError,
    Requests, Retained, Retention, Rules, Sizes, TensorId, Wishes, Workspace, ggml_alloc_sizes,
};

/// A captured graph.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Free text.
    pub label: String,
    /// The buffers, one per buffer type.
    pub buffers: Vec<BufferInfo>,
    /// The graph.
    pub graph: Graph,
    /// By tensor: its id in files, its names and its sizes.
    pub tensors: Vec<TensorInfo>,
}

/// A buffer of a captured graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferInfo {
    /// ggml's name of its buffer type.
    pub name: String,
    /// Offsets and sizes are multiples of this power of two.
    pub alignment: Bytes,
    /// The largest chunk in bytes, where there is a limit.
    pub max_size: Option<Bytes>,
    /// Bytes that ggml's own allocator needed for the graph, where known.
    pub ggml_alloc_size: Option<Bytes>,
    /// The rules that the program used in it, where known.
    pub rules: Option<Rules>,
    /// The effort that the program used in it, where known.
    pub effort: Option<Effort>,
}

/// Facts about a captured tensor that the graph does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its id in files.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// ggml's name of its operation; tensors share such names.
    pub op: Arc<str>,
    /// The operation with details, such as which unary operation it is; otherwise equal to `op`.
    pub desc: Arc<str>,
    /// ggml's name of its element type.
    pub element: Arc<str>,
    /// Bytes from its first to its last element.
    pub nbytes: Bytes,
    /// Bytes that its buffer type requires, before padding.
    pub size: Bytes,
    /// The requested buffer.
    pub buffer: BufferIndex,
    /// Bytes that other buffers require for it, where they differ: a node computed in place moves to the buffer of its
    /// source.
    pub elsewhere: Vec<(BufferIndex, Bytes)>,
}

impl TensorInfo {
    /// Returns the bytes that a buffer requires for it, before padding.
    pub fn size_in(&self, buffer: BufferIndex) -> Bytes {
        self.elsewhere.iter().find(|(other, _)| *other == buffer).map_or(self.size, |(_, size)| *size)
    }
}

impl BufferInfo {
    /// Returns the buffer to plan, with the rules and effort of the program where known, otherwise with all rules that
    /// are correct on a CPU and the default effort.
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
    /// Returns the buffers to plan as the program did, see [`BufferInfo::buffer`].
    pub fn recorded_buffers(&self) -> Vec<BufferSpec> {
        self.buffers.iter().map(BufferInfo::buffer).collect()
    }

    /// Returns the buffers to plan, all with these rules and this effort.
    pub fn buffers(&self, rules: Rules, effort: Effort) -> Vec<BufferSpec> {
        self.buffers.iter().map(|buffer| BufferSpec { rules, effort, ..buffer.buffer() }).collect()
    }

    /// Returns the tensors by their ids in files.
    pub fn tensor_ids(&self) -> HashMap<u64, TensorId> {
        (0..).zip(&self.tensors).map(|(id, tensor)| (tensor.id, id)).collect()
    }

    /// Returns the label of a tensor in messages.
    pub fn tensor(&self, id: TensorId) -> String {
        let TensorInfo { id, name, op, .. } = &self.tensors[id as usize];
        format!("tensor {id} {name:?} ({op})")
    }

    /// Returns the requested buffers of the leafs and of the nodes.
    pub fn requested_buffers(&self) -> (Vec<BufferIndex>, Vec<BufferIndex>) {
        let buffers = |ids: &[TensorId]| ids.iter().map(|&id| self.tensors[id as usize].buffer).collect();
        (buffers(self.graph.leafs()), buffers(self.graph.nodes()))
    }

    /// Retains the tensors with matching names to the end, and no others. Tensors that are never planned need not be.
    pub fn retain(&mut self, names: &NamePattern) {
        let is_planned = |id: TensorId| self.graph.tensor(self.graph.root(id)).is_owned();
        let named = (0..).zip(&self.tensors).filter(|&(id, tensor)| names.matches(&tensor.name) && is_planned(id));
        let retention: Retention = named.map(|(tensor, _)| Retained { tensor, until: None }).collect();
        self.graph.set_retention(retention);
    }

    /// Plans the graph as the program did, with the recorded rules and effort.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] when sizes overflow.
    pub fn plan_as_recorded(&self) -> Result<GraphPlan, PlanError> {
        self.plan_in(&self.recorded_buffers())
    }

    /// Plans the graph with the default effort.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] when sizes overflow.
    pub fn plan(&self, rules: Rules) -> Result<GraphPlan, PlanError> {
        self.plan_with(rules, Effort::default())
    }

    /// Plans the graph with these rules and this effort in each buffer.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] when sizes overflow.
    pub fn plan_with(&self, rules: Rules, effort: Effort) -> Result<GraphPlan, PlanError> {
        self.plan_in(&self.buffers(rules, effort))
    }

    /// Plans the graph with `buffers` in place of the recorded ones, one each.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] when sizes overflow.
    pub fn plan_in(&self, buffers: &[BufferSpec]) -> Result<GraphPlan, PlanError> {
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let sizes: &mut dyn Sizes = &mut |id, buffer| self.size(id, buffer);
        let devices = Devices {
            of: &|buffer| self.device(buffer),
            graph: &|| Cow::Borrowed(&self.graph),
            desc: &|id| self.desc(id),
            nbytes: &|id| self.tensors[id as usize].nbytes,
        };
        let wishes = Wishes { devices: Some(&devices), ..Wishes::default() };
        super::plan(&self.graph, buffers, requests, sizes, wishes, &mut Workspace::default())
    }

    /// Returns the device of a buffer, as far as its name tells.
    fn device(&self, buffer: BufferIndex) -> Device {
        Device::named(&self.buffers[buffer as usize].name)
    }

    fn desc(&self, id: TensorId) -> Arc<str> {
        Arc::clone(&self.tensors[id as usize].desc)
    }

    /// Returns what addresses cost the device of `buffer`, for each function that returns those of roots; `None` where
    /// they cost nothing, or nothing is known of the device.
    pub fn kernel_costs<const N: usize>(
        &self,
        buffer: BufferIndex,
        addresses: [&dyn Fn(TensorId) -> Option<Address>; N],
    ) -> Option<[KernelCosts; N]> {
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let on = (buffer, self.device(buffer), self.buffers[buffer as usize].alignment);
        let kernels = Kernels::find(&self.graph, requests, on, &|id| self.desc(id))?;
        let nbytes = |id: TensorId| self.tensors[id as usize].nbytes;
        Some(addresses.map(|address| costs_at(&kernels, &self.graph, &nbytes, address)))
    }

    /// Plans the graph as ggml's own allocator does.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] when sizes overflow.
    pub fn plan_as_ggml(&self) -> Result<GraphPlan, PlanError> {
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        super::plan_as_ggml(&self.graph, &self.recorded_buffers(), requests, &mut |id, buffer| self.size(id, buffer))
    }

    /// Records in each buffer the bytes that ggml's own allocator takes.
    pub fn add_ggml_alloc_sizes(&mut self) {
        let found = self.ggml_alloc_sizes();
        for (buffer, size) in self.buffers.iter_mut().zip(found.into_iter().flatten()) {
            buffer.ggml_alloc_size = Some(size);
        }
    }

    /// Returns, by buffer, the bytes that ggml's own allocator takes. `None` when sizes overflow.
    pub fn ggml_alloc_sizes(&self) -> Option<Vec<Bytes>> {
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        ggml_alloc_sizes(&self.graph, &self.recorded_buffers(), requests, &mut |id, buffer| self.size(id, buffer))
    }

    /// Replaces the graph by one that computes forward results again in the backward pass, so that its plan fits `budget`,
    /// a number of bytes for all buffers together. External tensors are assumed not to alias. The copy of a tensor has
    /// its name with " (again)" behind, and an id that no other has. `buffers` are for the plans, see [`Self::plan_in`];
    /// `progress` is called with the part of the effort that is used, and cancels the search by returning `false`.
    ///
    /// # Errors
    /// [`NotChanged`]; the graph is then as before.
    pub fn recompute(
        &mut self,
        buffers: &[BufferSpec],
        budget: Bytes,
        effort: RecomputeEffort,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Recomputation, NotChanged> {
        let search =
            |subject: TrainingGraph<'_>, sizes: &mut dyn Sizes| recompute(subject, sizes, budget, effort, progress);
        let found = self.recomputation(buffers, search)?;
        self.take_copies(&found.edited);
        Ok(found)
    }

    /// Replaces the graph by one that computes the forward results `dropped` again in the backward pass, except for those
    /// that must not be, with whatever else they need; see [`Self::recompute`].
    ///
    /// # Errors
    /// [`NotChanged`]; the graph is then as before.
    pub fn recompute_exactly(
        &mut self,
        buffers: &[BufferSpec],
        dropped: &[TensorId],
    ) -> Result<Recomputation, NotChanged> {
        let search = |subject: TrainingGraph<'_>, sizes: &mut dyn Sizes| recompute_exactly(subject, sizes, dropped);
        let found = self.recomputation(buffers, search)?;
        self.take_copies(&found.edited);
        Ok(found)
    }

    fn recomputation(
        &self,
        buffers: &[BufferSpec],
        search: impl FnOnce(TrainingGraph<'_>, &mut dyn Sizes) -> Result<Recomputation, NotChanged>,
    ) -> Result<Recomputation, NotChanged> {
        let roots: Vec<TensorId> = (0..).take(self.tensors.len()).collect();
        let work: Vec<u64> = (0..).take(self.tensors.len()).map(|id| work_of(&self.graph, id)).collect();
        let kept = vec![false; self.tensors.len()];
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let subject =
            TrainingGraph { graph: &self.graph, buffers, requests, same_memory: &roots, work: &work, kept: &kept };
        search(subject, &mut |id, buffer| self.size(id, buffer))
    }

    /// Takes a graph with copies of nodes, with names and ids for them.
    fn take_copies(&mut self, edited: &Edited) {
        let mut next_id = self.tensors.iter().map(|tensor| tensor.id).max().map_or(0, |id| id.saturating_add(1));
        let info = |(id, &origin): (TensorId, &TensorId)| {
            let mut info = self.tensors[origin as usize].clone();
            if edited.is_new(id) {
                info.name.push_str(" (again)");
                info.id = next_id;
                next_id = next_id.saturating_add(1);
            }
            info
        };
        let tensors = (0..).zip(&edited.origins).map(info).collect();
        (self.tensors, self.graph) = (tensors, edited.graph.clone());
    }

    /// Replaces the graph by one in tiles, so that its plan fits a budget; it stays as it is
    /// where it fits. Nodes that the program computes in place are tiled as others are. External tensors are assumed not to
    /// alias. New tensors have the names of those that they are parts of, with which part they are behind, and ids that no
    /// others have. `buffers` are for the plans, see [`Self::plan_in`]; `progress` is called with the part of the effort that
    /// is used, and cancels the search by returning `false`.
    ///
    /// # Errors
    /// [`NotChanged`]; the graph is then as before.
    pub fn tile(
        &mut self,
        buffers: &[BufferSpec],
        limits: TilingLimits,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<TiledGraph, NotChanged> {
        let kinds: Vec<TileKind> = self.graph.tensors().iter().map(|tensor| tensor.op.tiles()).collect();
        let infos = (0..).zip(&kinds).zip(&self.tensors);
        let known = infos.map(|((id, &kind), info)| Known::of_given(id, kind, info.nbytes)).collect();
        let (leafs, nodes) = self.requested_buffers();
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let detached = tiling::detached(&self.graph, &kinds);
        let subject = tiling::TileableGraph { graph: self.graph.clone(), detached, known, kernels: TileKernels::Cpu };
        let mut sizes = |id, buffer| self.size(id, buffer);
        let found = tiling::tile(&subject, buffers, requests, &mut sizes, limits, progress)?;
        if found.is_changed {
            self.take_tiled(&found);
        }
        Ok(found)
    }

    /// Takes the cut graph, with names and ids for the new tensors.
    fn take_tiled(&mut self, found: &TiledGraph) {
        let mut next_id = self.tensors.iter().map(|tensor| tensor.id).max().map_or(0, |id| id.saturating_add(1));
        let mut infos = Vec::with_capacity(found.draft.known.len());
        for (id, &Known { origin, nbytes, .. }) in (0..).zip(&found.draft.known) {
            let given = &self.tensors[origin.tensor as usize];
            let mut info = given.clone();
            if let Some(op) = origin.role.op() {
                (info.op, info.desc) = (op.name().into(), op.name().into());
            }
            if let Some(name) = found.draft.name(id, &given.name) {
                (info.name, info.id, info.nbytes) = (name, next_id, nbytes);
                let own = |size: Bytes| nbytes.saturating_add(size.saturating_sub(given.nbytes));
                info.size = own(given.size);
                info.elsewhere = given.elsewhere.iter().map(|&(buffer, size)| (buffer, own(size))).collect();
                next_id = next_id.saturating_add(1);
            }
            infos.push(info);
        }
        (self.tensors, self.graph) = (infos, found.draft.graph.clone());
    }

    /// Puts the nodes into an order with a lower peak, where one is found. External tensors are assumed not to alias:
    /// captures do not record it. `buffers` are for the plans, see [`Self::plan_in`]; `effort` is for the search for an
    /// order.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] when sizes overflow.
    pub fn reorder(&mut self, buffers: &[BufferSpec], effort: order::ReorderEffort) -> Result<Reordering, PlanError> {
        let roots: Vec<TensorId> = (0..).take(self.tensors.len()).collect();
        let hazards = Hazards::new(&self.graph, &roots);
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
