//! Snapshots of scheduled graphs, as captures have them, and the way back.

use std::collections::HashMap;

use crate::graph::snapshot::{BufferInfo, Snapshot, TensorInfo};
use crate::graph::{BufferIndex, Edited, Flags, GraphEdit, TensorId};

use super::backends::{BackendIndex, Backends};
use super::compute_buffers::ScheduledSizes;
use super::scheduled_graph::{Origin, ScheduledGraph};

/// The longest name of a tensor in ggml, in bytes.
const LONGEST_NAME: usize = 63;

impl ScheduledGraph {
    /// Returns a snapshot of this graph: the content of a capture of a process with these backends. `snapshot` is the
    /// graph that was scheduled. Buffers are [`Backends::compute_types`].
    pub fn snapshot(&self, snapshot: &Snapshot, backends: &Backends, sizes: &mut impl ScheduledSizes) -> Snapshot {
        let types = backends.compute_types();
        let requested = self.buffer_of_each(backends);
        let tensors = self.origins.iter().zip(&requested).zip(0..).map(|((&origin, &buffer), id)| {
            let is_owned = self.graph.tensor(id).is_owned();
            let mut size_in = |buffer: BufferIndex| sizes.alloc_size(origin, types[buffer as usize]);
            let info = self.info(snapshot, backends, origin);
            let size = if is_owned { size_in(buffer) } else { info.nbytes };
            let others = (0..).take(types.len()).filter(|&other| is_owned && other != buffer);
            let elsewhere = others.map(|other| (other, size_in(other))).filter(|&(_, other)| other != size).collect();
            TensorInfo { id: u64::from(id), size, buffer, elsewhere, ..info }
        });
        let mut scheduled = Snapshot {
            label: snapshot.label.clone(),
            tensors: tensors.collect(),
            buffers: types.iter().map(|&buffer_type| buffer_info(backends, buffer_type)).collect(),
            graph: self.graph.clone(),
        };
        scheduled.add_ggml_alloc_sizes();
        scheduled
    }

    /// Returns, by tensor, the requested buffer; for tensors in no list, that of its first user.
    fn buffer_of_each(&self, backends: &Backends) -> Vec<BufferIndex> {
        let (leafs, nodes) = self.requested_buffers(backends);
        let mut requested = vec![None; self.origins.len()];
        let listed = self.graph.leafs().iter().zip(&leafs).chain(self.graph.nodes().iter().zip(&nodes));
        listed.for_each(|(&id, &buffer)| _ = requested[id as usize].get_or_insert(buffer));
        for (&node, &buffer) in self.graph.nodes().iter().zip(&nodes) {
            let sources = self.graph.sources(node).iter();
            sources.for_each(|&source| _ = requested[source as usize].get_or_insert(buffer));
        }
        requested.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// Returns the names of a tensor, as ggml makes them for copies and markers.
    fn info(&self, snapshot: &Snapshot, backends: &Backends, origin: Origin) -> TensorInfo {
        let (Origin::Tensor(of) | Origin::Copy { of, .. } | Origin::Marker { of } | Origin::Staged { of }) = origin;
        let info = snapshot.tensors[of as usize].clone();
        let nothing = || "NONE".into();
        match origin {
            Origin::Tensor(_) => info,
            Origin::Staged { .. } => TensorInfo { name: cut(&format!("{} (staged)", info.name)), ..info },
            Origin::Marker { .. } => {
                TensorInfo { name: cut(&format!("{} (view)", info.name)), op: nothing(), desc: nothing(), ..info }
            }
            Origin::Copy { backend, number, .. } => {
                let name = cut(&copy_name(&backends.list[backend as usize].name, &info.name, number));
                TensorInfo { name, op: nothing(), desc: nothing(), ..info }
            }
        }
    }
}

fn buffer_info(backends: &Backends, buffer_type: BackendIndex) -> BufferInfo {
    let buffer_type = &backends.buffer_types[buffer_type as usize];
    BufferInfo {
        name: buffer_type.name.clone(),
        alignment: buffer_type.buffer.alignment,
        max_size: buffer_type.buffer.max_chunk,
        ggml_alloc_size: None,
        rules: Some(buffer_type.buffer.rules),
        effort: Some(buffer_type.buffer.effort),
    }
}

fn copy_name(backend: &str, name: &str, number: u32) -> String {
    format!("{backend}#{name}#{number}")
}

/// Cuts a name as ggml does, at a character.
fn cut(name: &str) -> String {
    let end = (0..=LONGEST_NAME).rev().find(|&end| name.is_char_boundary(end));
    name[..end.unwrap_or(0)].to_owned()
}

/// Returns the graph that a program built, from a capture of what its scheduler made of it: without the copies between
/// splits and their markers, each use of a copy being one of the tensor itself. A graph without copies stays as it is.
///
/// Copies are known by their form: a node without operation and sources right after a marker of a tensor with its
/// layout, named after that tensor. Markers that backends or programs added stay.
#[must_use]
pub fn unscheduled(snapshot: &Snapshot) -> Snapshot {
    let found = Copies::of(snapshot);
    if found.copied.is_empty() {
        return snapshot.clone();
    }
    let mut edit = GraphEdit::new(&snapshot.graph);
    for id in (0..).take(snapshot.tensors.len()) {
        if found.is_pipelined[id as usize] {
            edit.tensor_mut(id).flags.0 &= !Flags::OUTPUT.0;
        }
        edit.refer(id, |other| found.copied.get(&other).copied().unwrap_or(other));
    }
    edit.nodes.retain(|&node| !found.is_removed[node as usize]);
    // The scheduler lists its copies for pipelines first, and then all leafs of the graph.
    let mut is_listed = found.is_removed.clone();
    edit.leafs.reverse();
    edit.leafs.retain(|&leaf| !std::mem::replace(&mut is_listed[leaf as usize], true));
    edit.leafs.reverse();
    let Edited { graph, origins, .. } = edit.finish();
    let tensors = origins.iter().map(|&id| snapshot.tensors[id as usize].clone()).collect();
    Snapshot { label: snapshot.label.clone(), buffers: snapshot.buffers.clone(), graph, tensors }
}

/// The tensors that a scheduler added to a graph.
struct Copies {
    /// The tensor of each copy that nodes use.
    copied: HashMap<TensorId, TensorId>,
    /// By tensor, whether it is a copy or the marker of one.
    is_removed: Vec<bool>,
    /// By tensor, whether there are copies of it for pipelines, for which the scheduler flags it as an output.
    is_pipelined: Vec<bool>,
}

impl Copies {
    fn of(snapshot: &Snapshot) -> Self {
        let count = snapshot.tensors.len();
        let mut found =
            Self { copied: HashMap::new(), is_removed: vec![false; count], is_pipelined: vec![false; count] };
        for pair in snapshot.graph.nodes().windows(2) {
            let &[marker, copy] = pair else { continue };
            if let Some(original) = copied_by(snapshot, marker, copy) {
                found.copied.insert(copy, original);
                found.is_removed[marker as usize] = true;
                found.is_removed[copy as usize] = true;
            }
        }
        found.remove_other_copies(snapshot);
        found
    }

    /// Removes the leafs that are copies of the same tensor for other computations of a pipeline.
    fn remove_other_copies(&mut self, snapshot: &Snapshot) {
        let name = |id: TensorId| snapshot.tensors[id as usize].name.as_str();
        let is_copy = |id: TensorId| snapshot.graph.tensor(id).flags.has(Flags::OUTPUT) && is_free(snapshot, id);
        // A model with two caches has inputs of the same name for each.
        let mut ids: HashMap<&str, Vec<TensorId>> = HashMap::new();
        for &leaf in snapshot.graph.leafs().iter().filter(|&&leaf| snapshot.graph.tensor(leaf).flags.has(Flags::INPUT))
        {
            ids.entry(name(leaf)).or_default().push(leaf);
        }
        let copied: HashMap<&str, TensorId> =
            self.copied.values().map(|&original| (name(original), original)).collect();
        for &leaf in snapshot.graph.leafs().iter().filter(|&&leaf| is_copy(leaf)) {
            let Some((original, _)) = copied_name(name(leaf)) else { continue };
            if copied.contains_key(original) || ids.contains_key(original) {
                self.is_removed[leaf as usize] = true;
            }
            for &input in ids.get(original).into_iter().flatten() {
                self.is_pipelined[input as usize] = true;
            }
        }
    }
}

/// Returns the tensor that `copy` is a copy of, if `marker` and `copy` are the pair that the scheduler adds for an
/// input of a split.
fn copied_by(snapshot: &Snapshot, marker: TensorId, copy: TensorId) -> Option<TensorId> {
    let graph = &snapshot.graph;
    let &[original] = graph.sources(marker) else { return None };
    let is_marker = graph.tensor(marker).is_marker() && graph.tensor(marker).view.is_some();
    let is_like = is_free(snapshot, copy) && graph.same_layout(original, copy);
    let (name, copied) = (&snapshot.tensors[original as usize].name, &snapshot.tensors[copy as usize].name);
    let is_named = copied_name(copied).is_some_and(|(of, _)| of == name)
        || (copied.len() + 4 > LONGEST_NAME && copied.split_once('#').is_some_and(|(_, of)| name.starts_with(of)));
    (is_marker && is_like && is_named && original != copy).then_some(original)
}

/// Returns `true` for a tensor without operation, sources and memory.
fn is_free(snapshot: &Snapshot, id: TensorId) -> bool {
    let tensor = snapshot.graph.tensor(id);
    tensor.is_marker() && tensor.is_owned() && snapshot.graph.sources(id).is_empty()
}

/// Returns the name of the tensor that a scheduler has copied, and the number of the copy: the name of a copy is
/// "BACKEND#NAME#NUMBER".
pub fn copied_name(name: &str) -> Option<(&str, u32)> {
    let (rest, number) = name.rsplit_once('#')?;
    let (_, original) = rest.split_once('#')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| is_number).map(|number| (original, number))
}
