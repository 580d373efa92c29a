//! Cuts the nodes into splits, one backend each, and copies their inputs: the fifth and sixth pass of ggml's scheduler.

use std::collections::HashMap;
use std::ops::Range;

use crate::graph::{Flags, TensorId};
use crate::placement::Step;

use super::backends::{BackendIndex, Backends, Capabilities, KeptUntil};
use super::offload_error::OffloadError;
use super::options::SchedulerOptions;
use super::scheduled_graph::{Draft, Schedule, Split};

/// The most sources of a tensor in ggml; a marker that keeps more tensors live is followed by another.
const MAX_SOURCES: usize = 10;

/// Queries that all passes make.
#[derive(Clone, Copy)]
pub struct Questions<'a> {
    pub backends: &'a Backends,
    pub capabilities: &'a dyn Capabilities,
    pub options: SchedulerOptions,
}

impl Questions<'_> {
    /// Returns `true` if `backend` can use the memory that a tensor is in, or will be in.
    pub fn can_use(&self, draft: &Draft<'_>, tensor: TensorId, backend: BackendIndex) -> bool {
        let buffer_type = draft.buffer_type(tensor, self.backends);
        buffer_type.is_some_and(|buffer_type| self.capabilities.supports_buffer_type(backend, buffer_type))
    }
}

/// Nodes by position in the node list of the draft, without markers and copies.
#[derive(Debug)]
struct NodeSplit {
    backend: BackendIndex,
    nodes: Range<usize>,
    inputs: Vec<TensorId>,
}

/// Cuts the nodes of `draft`, which all have a backend, into splits.
pub fn split(draft: Draft<'_>, questions: Questions<'_>) -> Result<Schedule, OffloadError> {
    let (executes, resides) = (draft.executes.clone(), draft.resides.clone());
    let count = draft.placed.memory.len();
    let mut splitter =
        Splitter { draft, questions, splits: Vec::new(), copies: HashMap::new(), graph_inputs: Vec::new() };
    splitter.cut()?;
    splitter.copy_graph_inputs()?;
    let kept = splitter.optimize()?;
    let leafs = splitter.leafs()?;
    let (splits, nodes) = splitter.nodes(&kept);
    let scheduled = splitter.draft.finish(&leafs, &nodes);
    let of_graph = |list: Vec<Option<BackendIndex>>| list.into_iter().take(count).collect();
    Ok(Schedule { executes: of_graph(executes), resides: of_graph(resides), splits, scheduled })
}

struct Splitter<'a, 'q> {
    draft: Draft<'a>,
    questions: Questions<'q>,
    splits: Vec<NodeSplit>,
    /// The copies of a tensor on a backend, one for each copy of the pipeline.
    copies: HashMap<(TensorId, BackendIndex), Vec<TensorId>>,
    /// Inputs of the program that have a copy for each copy of the pipeline, on their own backend.
    graph_inputs: Vec<TensorId>,
}

impl Splitter<'_, '_> {
    /// Cuts the nodes, and replaces sources by copies.
    fn cut(&mut self) -> Result<(), OffloadError> {
        let nodes = self.draft.edit.nodes.clone();
        let computed = |&node: &TensorId| !self.draft.is_view_operation(node);
        let first = nodes.iter().copied().find(computed);
        let backend = first.map_or(Ok(0), |first| self.backend(first))?;
        self.splits.push(NodeSplit { backend, nodes: 0..nodes.len(), inputs: Vec::new() });
        for (position, &node) in nodes.iter().enumerate() {
            if self.draft.is_view_operation(node) {
                continue;
            }
            let backend = self.backend(node)?;
            if backend != self.split().backend || self.needs_new_split(node)? {
                self.split().nodes.end = position;
                self.splits.push(NodeSplit { backend, nodes: position..nodes.len(), inputs: Vec::new() });
            }
            for slot in 0..self.draft.edit.sources(node).len() {
                self.connect(node, slot)?;
            }
        }
        Ok(())
    }

    fn split(&mut self) -> &mut NodeSplit {
        self.splits.last_mut().expect("the first split is there from the start")
    }

    fn backend(&self, node: TensorId) -> Result<BackendIndex, OffloadError> {
        self.draft.executes[node as usize].ok_or_else(|| self.unassigned(node))
    }

    fn home(&self, tensor: TensorId) -> Result<BackendIndex, OffloadError> {
        self.draft.resides[tensor as usize].ok_or_else(|| self.unassigned(tensor))
    }

    fn unassigned(&self, tensor: TensorId) -> OffloadError {
        OffloadError::Unassigned { tensor: self.draft.placed.label(tensor) }
    }

    /// Returns `true` if `source` must be copied for a node on `backend`.
    fn must_be_copied(&self, source: TensorId, backend: BackendIndex) -> Result<bool, OffloadError> {
        Ok(self.home(source)? != backend && !self.questions.can_use(&self.draft, source, backend))
    }

    /// Returns `true` if a node begins a split although its backend does not change: the memory of weights that were
    /// copied for earlier nodes is free then, and inputs may be limited.
    fn needs_new_split(&mut self, node: TensorId) -> Result<bool, OffloadError> {
        let NodeSplit { backend, ref inputs, .. } = *self.split();
        let count = inputs.len();
        if count == 0 {
            return Ok(false);
        }
        let is_full = self.questions.options.version.max_split_inputs == Some(count);
        for &source in self.draft.edit.sources(node) {
            let is_new = || is_full && !self.copies.contains_key(&(source, backend));
            if (self.draft.is_weight(source) || is_new()) && self.must_be_copied(source, backend)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Replaces a source of a node by its copy, if the backend of the split cannot use it.
    fn connect(&mut self, node: TensorId, slot: usize) -> Result<(), OffloadError> {
        let options = self.questions.options;
        let (source, backend) = (self.draft.edit.sources(node)[slot], self.split().backend);
        let is_input = self.draft.edit.tensor(source).flags.has(Flags::INPUT);
        if is_input && options.is_parallel() && !options.version.copies_unused_inputs {
            let home = self.home(source)?;
            if !self.copies.contains_key(&(source, home)) {
                self.check_limit(self.graph_inputs.len(), source)?;
                self.add_pipeline_copies(source, home);
            }
        }
        if self.must_be_copied(source, backend)? {
            if !self.copies.contains_key(&(source, backend)) {
                let inputs = self.split().inputs.len();
                self.check_limit(inputs, node)?;
                let copies: Vec<TensorId> =
                    (0..options.copies).map(|number| self.draft.add_copy(source, backend, number)).collect();
                self.keep_if_parallel(&copies);
                self.copies.insert((source, backend), copies);
                self.split().inputs.push(source);
            }
            let copy = self.copies[&(source, backend)][options.current_copy as usize];
            self.draft.edit.replace_source(node, slot, copy);
        }
        Ok(())
    }

    fn check_limit(&self, count: usize, tensor: TensorId) -> Result<(), OffloadError> {
        match self.questions.options.version.max_split_inputs {
            Some(limit) if count >= limit => {
                Err(OffloadError::TooManyInputs { tensor: self.draft.placed.label(tensor), limit })
            }
            _ => Ok(()),
        }
    }

    /// Copies of a pipeline are live from the start to the end of the graph.
    fn keep_if_parallel(&mut self, copies: &[TensorId]) {
        if self.questions.options.is_parallel() {
            let flags = Flags(Flags::INPUT.0 | Flags::OUTPUT.0);
            copies.iter().for_each(|&copy| self.draft.edit.tensor_mut(copy).flags.0 |= flags.0);
        }
    }

    /// Adds copies of an input on its own backend; the current one is the input itself.
    fn add_pipeline_copies(&mut self, input: TensorId, home: BackendIndex) {
        let SchedulerOptions { copies, current_copy, .. } = self.questions.options;
        let draft = &mut self.draft;
        let copy = |number| if number == current_copy { input } else { draft.add_copy(input, home, number) };
        let copies: Vec<TensorId> = (0..copies).map(copy).collect();
        self.keep_if_parallel(&copies);
        self.copies.insert((input, home), copies);
        self.graph_inputs.push(input);
    }

    /// Copies the inputs of the program for pipelines, in versions that copy unused ones too.
    fn copy_graph_inputs(&mut self) -> Result<(), OffloadError> {
        let options = self.questions.options;
        if !options.is_parallel() || !options.version.copies_unused_inputs {
            return Ok(());
        }
        for &leaf in self.draft.placed.graph().leafs() {
            if self.draft.edit.tensor(leaf).flags.has(Flags::INPUT) {
                let home = self.home(leaf)?;
                if self.copies.contains_key(&(leaf, home)) {
                    self.graph_inputs.push(leaf);
                } else {
                    self.add_pipeline_copies(leaf, home);
                }
            }
        }
        Ok(())
    }

    /// Lets each backend reorder the nodes of its splits, unless results are staged: backends know no such nodes.
    /// Returns, by node, the tensors kept until then.
    fn optimize(&mut self) -> Result<HashMap<TensorId, Vec<TensorId>>, OffloadError> {
        let mut kept: HashMap<TensorId, Vec<TensorId>> = HashMap::new();
        if self.draft.edit.nodes.len() > self.draft.placed.graph().nodes().len() {
            return Ok(kept);
        }
        for NodeSplit { backend, nodes, .. } in &self.splits {
            let nodes = &mut self.draft.edit.nodes[nodes.clone()];
            let mut before = nodes.to_vec();
            let is_copied = |tensor: TensorId| self.copies.contains_key(&(tensor, *backend));
            let added = self.questions.capabilities.optimize(*backend, nodes, &is_copied);
            let mut after = nodes.to_vec();
            before.sort_unstable();
            after.sort_unstable();
            let is_node = |kept: &KeptUntil| after.binary_search(&kept.until).is_ok();
            if before != after || !added.iter().all(is_node) {
                let backend = self.questions.backends.list[*backend as usize].name.clone();
                return Err(OffloadError::NotReordered { backend });
            }
            for KeptUntil { tensor, until } in added {
                // A result of the split is kept itself, also where there is a copy of it.
                let is_result = after.binary_search(&tensor).is_ok();
                let copies = self.copies.get(&(tensor, *backend)).filter(|_| !is_result);
                let current = self.questions.options.current_copy as usize;
                let tensor = copies.map_or(tensor, |copies| copies[current]);
                let list = kept.entry(until).or_default();
                if !list.contains(&tensor) {
                    list.push(tensor);
                }
            }
        }
        Ok(kept)
    }

    /// Returns the splits and the node list: before the nodes of a split, for each of its inputs a marker, which keeps
    /// the input until it is copied, and the copy.
    fn nodes(&mut self, kept: &HashMap<TensorId, Vec<TensorId>>) -> (Vec<Split>, Vec<(TensorId, BackendIndex)>) {
        let current = self.questions.options.current_copy as usize;
        let mut nodes: Vec<(TensorId, BackendIndex)> = Vec::with_capacity(2 * self.draft.edit.nodes.len());
        let mut splits = Vec::with_capacity(self.splits.len());
        for NodeSplit { backend, nodes: range, inputs } in std::mem::take(&mut self.splits) {
            let first = nodes.len();
            for &input in &inputs {
                let home = self.draft.resides[input as usize].unwrap_or(backend);
                nodes.push((self.draft.add_marker(&[input], home), home));
                nodes.push((self.copies[&(input, backend)][current], backend));
            }
            for position in range {
                let node = self.draft.edit.nodes[position];
                nodes.push((node, self.draft.executes[node as usize].unwrap_or(backend)));
                for kept in kept.get(&node).map_or(&[][..], Vec::as_slice).chunks(MAX_SOURCES) {
                    nodes.push((self.draft.add_marker(kept, backend), backend));
                }
            }
            splits.push(Split { backend, steps: step(first)..step(nodes.len()), inputs });
        }
        (splits, nodes)
    }

    /// Returns the leaf list: copies for pipelines first.
    fn leafs(&self) -> Result<Vec<(TensorId, BackendIndex)>, OffloadError> {
        let mut leafs = Vec::new();
        if self.questions.options.is_parallel() {
            for &input in &self.graph_inputs {
                let home = self.home(input)?;
                leafs.extend(self.copies[&(input, home)].iter().map(|&copy| (copy, home)));
            }
            for NodeSplit { backend, inputs, .. } in &self.splits {
                let copies = inputs.iter().flat_map(|&input| &self.copies[&(input, *backend)]);
                leafs.extend(copies.map(|&copy| (copy, *backend)));
            }
        }
        for &leaf in self.draft.placed.graph().leafs() {
            let backend = self.draft.resides[leaf as usize];
            if backend.is_none() && self.draft.edit.tensor(leaf).is_owned() {
                return Err(self.unassigned(leaf));
            }
            leafs.push((leaf, backend.unwrap_or_else(|| self.questions.backends.host())));
        }
        Ok(leafs)
    }
}

fn step(position: usize) -> Step {
    Step::try_from(position).expect("fewer than 2^32 nodes")
}
