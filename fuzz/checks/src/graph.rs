//! Files of graphs.

use lastuse_tool::formats::read_graph;
use std::collections::BTreeMap;
use std::fmt::Debug;

use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferSpec, TensorId};
use lastuse::placement::Effort;
use lastuse_tool::formats::plan_json;
use lastuse_tool::formats::{PlanFile, check};

use crate::in_proportion;

/// Larger graphs are read and written but not planned: that takes too long.
const MAX_PLANNED: usize = 3000;

/// Replaces the effort of the file, which may allow years of searching.
const EFFORT: u64 = 2000;

/// Reads a graph. A valid one is unchanged when it is written and read again, and gets a valid plan.
///
/// # Panics
/// When that does not hold.
pub fn graph(bytes: &[u8]) {
    let read = || read_graph(bytes);
    let is_compressed = bytes.starts_with(&[0x1f, 0x8b]);
    let snapshot = if is_compressed { read() } else { in_proportion(bytes.len(), read) };
    match snapshot {
        Ok(snapshot) => {
            assert_written_as_read(&snapshot);
            assert_planned(&snapshot);
        }
        Err(error) => assert!(error.line.is_some_and(|line| line > 0) && !error.reason.is_empty(), "{error}"),
    }
}

/// Lines may be read in any order; they are written in a fixed one.
fn assert_written_as_read(snapshot: &Snapshot) {
    let text = snapshot.text();
    let again = read_graph(text.as_bytes()).unwrap_or_else(|error| panic!("cannot be read again: {error}\n{text}"));
    assert_eq!(again.text(), text);
    assert_eq!((&again.label, &again.buffers), (&snapshot.label, &snapshot.buffers));
    assert_eq!(by_id(&again), by_id(snapshot));
}

/// Returns everything about each tensor, by the ids of the file.
fn by_id(snapshot: &Snapshot) -> BTreeMap<u64, impl PartialEq + Debug> {
    let (graph, id_of) = (&snapshot.graph, |id: TensorId| snapshot.tensors[id as usize].id);
    let retained: BTreeMap<TensorId, Option<u64>> = graph
        .retained()
        .into_iter()
        .map(|(id, until)| (id, until.map(|step| id_of(graph.nodes()[step as usize]))))
        .collect();
    let facts = (0..).zip(&snapshot.tensors).map(|(id, info)| {
        let (tensor, layout) = (graph.tensor(id), graph.layout(id));
        let sources: Vec<u64> = graph.sources(id).iter().copied().map(id_of).collect();
        let view = tensor.view.map(|view| (id_of(view.root), view.offset));
        let memory = (tensor.external, view, retained.get(&id).copied());
        (info.id, (info, tensor.flags, tensor.in_place, memory, sources, layout.ne, layout.nb))
    });
    facts.collect()
}

fn assert_planned(snapshot: &Snapshot) {
    if snapshot.tensors.len() > MAX_PLANNED {
        return;
    }
    let effort = Effort::units(EFFORT);
    let buffers: Vec<BufferSpec> =
        snapshot.recorded_buffers().into_iter().map(|buffer| BufferSpec { effort, ..buffer }).collect();
    let Ok(plan) = snapshot.plan_in(&buffers) else { return };
    let _ = snapshot.plan_as_ggml();
    let json = plan_json(snapshot, &plan, None).expect("a plan is plain data");
    let plan = PlanFile::read(json.as_bytes()).unwrap_or_else(|error| panic!("cannot be read again: {error}\n{json}"));
    let defects = check(snapshot, &plan);
    let wrong = defects.first().filter(|_| is_consistent(snapshot));
    assert!(wrong.is_none(), "{wrong:?} in the plan of\n{}", snapshot.text());
}

/// False if no plan is valid: a tensor writes more bytes than its size, or a view ends beyond its root.
fn is_consistent(snapshot: &Snapshot) -> bool {
    (0..).zip(&snapshot.tensors).all(|(id, info)| match snapshot.graph.tensor(id).view {
        None => info.nbytes <= info.size && info.elsewhere.iter().all(|(_, size)| info.nbytes <= *size),
        Some(view) => {
            let root = &snapshot.tensors[view.root as usize];
            view.offset.checked_add(info.nbytes).is_some_and(|end| end <= root.nbytes)
        }
    })
}
