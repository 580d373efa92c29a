//! Which tensors of a live graph belong to which part.

use std::ops::Range;

use crate::graph::steps::{CutError, Owner, PartPlanner, StepwisePlan, check_parts, choose_cuts, parts_of, plan_parts};
use crate::graph::{BufferIndex, Effect, Graph, Requests, TensorId};
use crate::placement::{Bytes, Step};

use crate::ggml::USAGE_COMPUTE;
use crate::ggml::context::PendingTensors;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::outputs::check::check_outputs;
use crate::ggml::process::settings::settings;
use crate::ggml::read::requested::Requested;
use crate::ggml::read::{ReadGraph, read};

use super::error::StepsError;

/// Where a graph is cut.
#[derive(Clone, Debug)]
pub enum Cutting<'g> {
    /// After each of these nodes.
    After(Vec<TensorRef<'g>>),
    /// Into this number of tiles, so that the peak is lowest.
    Into(usize),
}

/// An owner of memory, and its views.
#[derive(Clone, Debug)]
pub struct OwnerTensors<'g> {
    /// The tensor that owns the memory.
    pub root: TensorRef<'g>,
    /// The views of it, in the order of their ids.
    pub views: Vec<TensorRef<'g>>,
    /// The part that touches it first, and the one that touches it last.
    pub parts: Range<usize>,
    /// True if it is filled by the program, and no node computes it.
    pub is_input: bool,
}

/// A graph that was read and cut.
#[derive(Debug)]
pub struct StepwiseLayout<'g> {
    /// The plan of the parts.
    pub plan: StepwisePlan,
    /// Bytes of a plan of the graph as a whole.
    pub whole: Bytes,
    /// By id.
    pub tensors: Vec<TensorRef<'g>>,
    /// Tensors kept for the whole run.
    pub kept: Vec<OwnerTensors<'g>>,
    /// Tensors that cross cuts.
    pub crossing: Vec<OwnerTensors<'g>>,
    /// By part, what only it touches.
    pub inside: Vec<Vec<OwnerTensors<'g>>>,
}

/// Reads `graph`, cuts it, and plans the parts for memory of `buffer_type`.
///
/// # Errors
/// [`StepsError`].
pub fn layout<'g>(
    runtime: &'static Runtime,
    graph: GraphRef<'g>,
    buffer_type: BufferType,
    cutting: &Cutting<'g>,
) -> Result<StepwiseLayout<'g>, StepsError> {
    check_parts(graph.nodes.len(), 1).map_err(StepsError::Cut)?;
    PendingTensors::in_graph(graph).realize().map_err(StepsError::NotRealized)?;
    check_unallocated(runtime, graph)?;
    check_outputs(runtime, graph, |_| Some(buffer_type)).map_err(StepsError::Output)?;
    let (types, requested) = ([buffer_type], Requested::default());
    let reading = read(runtime, &types, graph, &requested);
    let settings = settings();
    let buffers = [buffer_type.spec(&settings.rules, settings.effort)];
    let of_all = requested.of_all(&reading.graph);
    let requests = Requests { leafs: &of_all.leafs, nodes: &of_all.nodes };
    let mut sizes = |id: TensorId, buffer: BufferIndex| reading.alloc_size(&types, &requested, id, buffer);
    let mut planner = PartPlanner::new(&reading.graph, &buffers, requests, &mut sizes);
    let cuts = cuts(graph, cutting, &mut planner)?;
    let parts = parts_of(graph.nodes.len(), &cuts).map_err(|why| at_node(why, cutting))?;
    let plan = plan_parts(&mut planner, &parts)?;
    place_outside_views(runtime, &reading)?;
    let whole = planner.plan_whole()?.buffers.iter().map(|buffer| buffer.placement.size()).sum();
    #[cfg(debug_assertions)]
    check_plans(runtime, &reading, &mut planner, &parts);
    let sorter = Sorter { reading: &reading, parts: &parts };
    let (kept, crossing, inside) = sorter.sort(planner.owners());
    Ok(StepwiseLayout { plan, whole, kept, crossing, inside, tensors: reading.tensors })
}

/// Checks that no allocator has placed a result of the graph.
fn check_unallocated(runtime: &'static Runtime, graph: GraphRef<'_>) -> Result<(), StepsError> {
    let is_allocated = |node: TensorRef<'_>| {
        let is_computed = !matches!(runtime.operations.effect(node.op()), Effect::Nothing | Effect::View);
        let is_in_compute_buffer = |buffer| runtime.usage(buffer) == USAGE_COMPUTE;
        is_computed && node.view_source().is_none() && node.buffer_ref().is_some_and(is_in_compute_buffer)
    };
    match graph.nodes.iter().find(|&&node| is_allocated(node)) {
        Some(node) => Err(StepsError::AlreadyAllocated { tensor: node.name() }),
        None => Ok(()),
    }
}

/// Places views of memory that exists, where that was allocated after they were created.
fn place_outside_views(runtime: &'static Runtime, reading: &ReadGraph<'_>) -> Result<(), StepsError> {
    for view in reading.tensors.iter().filter(|tensor| tensor.buffer().is_null()) {
        if view.view_source().is_some_and(|root| !root.buffer().is_null()) {
            runtime.place_view(*view).map_err(|_| StepsError::InitFailed { tensor: view.name() })?;
        }
    }
    Ok(())
}

fn cuts<'g>(
    graph: GraphRef<'g>,
    cutting: &Cutting<'g>,
    planner: &mut PartPlanner<'_>,
) -> Result<Vec<Step>, StepsError> {
    let nodes = match cutting {
        &Cutting::Into(parts) => {
            check_parts(graph.nodes.len(), parts).map_err(StepsError::Cut)?;
            return Ok(choose_cuts(planner, parts)?);
        }
        Cutting::After(nodes) => nodes,
    };
    let positions = Ids::from_tensors(graph.nodes.to_vec());
    let position = |(cut, &node): (usize, &TensorRef<'g>)| {
        let not_in_graph = || StepsError::NotInGraph { cut, tensor: node.name() };
        positions.known().id(node).ok_or_else(not_in_graph)
    };
    nodes.iter().enumerate().map(position).collect()
}

/// Adds the name of the node to an error about a cut.
fn at_node(why: CutError, cutting: &Cutting<'_>) -> StepsError {
    let (CutError::AtEnd { cut } | CutError::Repeated { cut } | CutError::Unordered { cut }) = why else {
        return StepsError::Cut(why);
    };
    match cutting {
        Cutting::After(nodes) => StepsError::CutAt { why, node: nodes[cut].name() },
        Cutting::Into(_) => StepsError::Cut(why),
    }
}

/// Simulates the plan of each part.
#[cfg(debug_assertions)]
fn check_plans(runtime: &Runtime, reading: &ReadGraph<'_>, planner: &mut PartPlanner<'_>, parts: &[Range<Step>]) {
    let nbytes: Vec<Bytes> = reading.tensors.iter().map(|&tensor| runtime.nbytes(tensor)).collect();
    for part in parts {
        let graph = planner.part_graph(part);
        let Ok(plan) = planner.plan_graph(&graph, part) else { continue };
        if let Err(corruption) = crate::graph::simulate(&graph, &plan, &nbytes) {
            panic!("the plan of a step is wrong: {corruption}");
        }
    }
}

struct Sorter<'a, 'g> {
    reading: &'a ReadGraph<'g>,
    parts: &'a [Range<Step>],
}

/// Kept tensors, tensors that cross cuts, and those inside each part.
type Sorted<'g> = (Vec<OwnerTensors<'g>>, Vec<OwnerTensors<'g>>, Vec<Vec<OwnerTensors<'g>>>);

impl<'g> Sorter<'_, 'g> {
    fn sort(&self, owners: &[Owner]) -> Sorted<'g> {
        let mut views = self.views_by_root();
        let (mut kept, mut crossing, mut inside) = (Vec::new(), Vec::new(), vec![Vec::new(); self.parts.len()]);
        for owner in owners {
            let found = self.tensors_of(owner, std::mem::take(&mut views[owner.tensor as usize]));
            match found.parts.clone() {
                _ if owner.is_kept => kept.push(found),
                parts if parts.len() > 1 => crossing.push(found),
                parts => inside[parts.start].push(found),
            }
        }
        (kept, crossing, inside)
    }

    fn tensors_of(&self, owner: &Owner, views: Vec<TensorRef<'g>>) -> OwnerTensors<'g> {
        let graph: &Graph = &self.reading.graph;
        let part_of = |step: Step| self.parts.partition_point(|part| part.end <= step);
        let is_marker = graph.tensor(owner.tensor).is_marker() && graph.sources(owner.tensor).is_empty();
        OwnerTensors {
            root: self.reading.tensors[owner.tensor as usize],
            views,
            parts: part_of(owner.first)..part_of(owner.last) + 1,
            is_input: is_marker,
        }
    }

    fn views_by_root(&self) -> Vec<Vec<TensorRef<'g>>> {
        let ReadGraph { graph, tensors, .. } = self.reading;
        let mut views = vec![Vec::new(); tensors.len()];
        for (tensor, &live) in graph.tensors().iter().zip(tensors) {
            if let Some(view) = tensor.view {
                views[view.root as usize].push(live);
            }
        }
        views
    }
}
