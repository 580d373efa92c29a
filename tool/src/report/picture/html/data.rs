//! The data of the page as lines of compact JSON: columns instead of objects, and numbers for repeated texts. The first
//! line is the data that the page needs at once; each line after it is a graph, which the page reads when it shows it.

use std::collections::HashMap;

use lastuse::graph::snapshot::Snapshot;
use serde_json::{Value, json};

use crate::report::picture::kinds::KINDS;
use crate::report::picture::scene::{BufferPicture, Scene, Span};
use crate::report::picture::style::legend;
use crate::report::picture::{DrawnGraph, Options};

/// Serializes all graphs, safe inside `<script>`. The lines of the graphs are in the given order.
pub fn lines(graphs: &[DrawnGraph<'_>], options: &Options<'_>) -> String {
    let kinds = KINDS.map(|kind| json!([kind.name, kind.colour, kind.ink]));
    let heads: Vec<Value> = graphs.iter().map(head).collect();
    let compared = options.compared && graphs.len() == 2;
    let legend: Vec<Value> = legend().iter().map(|it| json!([it.key, it.drawing, it.text])).collect();
    let first =
        json!({"title": options.title, "kinds": kinds, "legend": legend, "compared": compared, "graphs": heads});
    let lines = std::iter::once(first.to_string()).chain(graphs.iter().map(|drawn| graph(drawn).to_string()));
    let text = lines.collect::<Vec<_>>().join("\n");
    // This character, which could end the script, occurs only inside strings.
    text.replace('<', "\\u003c")
}

/// Returns the entry of the list of graphs.
fn head(drawn: &DrawnGraph<'_>) -> Value {
    let plan = |scene: &Scene<'_>| json!({"label": scene.label, "size": scene.size()});
    json!({"label": drawn.title(), "given": drawn.given, "plans": drawn.scenes.iter().map(plan).collect::<Vec<_>>()})
}

fn graph(drawn: &DrawnGraph<'_>) -> Value {
    let plans: Vec<Value> = drawn.scenes.iter().map(plan).collect();
    json!({"label": drawn.title(), "nodes": drawn.snapshot.graph.nodes().len(), "steps": drawn.snapshot.graph.steps(),
        "tensors": tensors(drawn.snapshot), "plans": plans})
}

/// Distinct texts, with their numbers.
#[derive(Default)]
struct Texts<'a> {
    texts: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Texts<'a> {
    fn number(&mut self, text: &'a str) -> usize {
        let texts = &mut self.texts;
        *self.numbers.entry(text).or_insert_with(|| {
            texts.push(text);
            texts.len() - 1
        })
    }
}

/// Returns the tensors by column.
fn tensors(snapshot: &Snapshot) -> Value {
    let graph = &snapshot.graph;
    let (mut ops, mut elements) = (Texts::default(), Texts::default());
    let mut steps: Vec<i64> = vec![-1; snapshot.tensors.len()];
    for (step, &node) in (0..).zip(graph.nodes()) {
        steps[node as usize] = step;
    }
    let op: Vec<usize> = snapshot.tensors.iter().map(|info| ops.number(&info.desc)).collect();
    let element: Vec<usize> = snapshot.tensors.iter().map(|info| elements.number(&info.element)).collect();
    let ids = (0..).take(snapshot.tensors.len());
    let shape = |id| {
        let ne = &graph.layout(id).ne;
        let used = ne.iter().rposition(|&extent| extent != 1).map_or(1, |last| last + 1);
        ne[..used].to_vec()
    };
    let mut retained: Vec<i64> = vec![-2; snapshot.tensors.len()];
    for (id, until) in graph.retained() {
        retained[id as usize] = until.map_or(-1, i64::from);
    }
    let root = |id| i64::from(graph.root(id)) - if graph.root(id) == id { i64::from(id) + 1 } else { 0 };
    json!({
        "ops": ops.texts,
        "types": elements.texts,
        "name": snapshot.tensors.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(),
        "op": op,
        "kind": snapshot.graph.tensors().iter().map(|tensor| tensor.op.group() as u8).collect::<Vec<_>>(),
        // 1: the node only makes a view.
        "makesView": snapshot.graph.tensors().iter().map(|tensor| u8::from(tensor.op.is_view())).collect::<Vec<_>>(),
        "type": element,
        "shape": ids.clone().map(shape).collect::<Vec<_>>(),
        "bytes": snapshot.tensors.iter().map(|info| info.nbytes).collect::<Vec<_>>(),
        "flags": graph.tensors().iter().map(|tensor| tensor.flags.0).collect::<Vec<_>>(),
        "external": graph.tensors().iter().map(|tensor| u8::from(tensor.external)).collect::<Vec<_>>(),
        "step": steps,
        // -2: not retained; -1: to the end; otherwise the step that ends it.
        "retained": retained,
        // -1: its own memory.
        "root": ids.clone().map(root).collect::<Vec<_>>(),
        "sources": ids.map(|id| graph.sources(id)).collect::<Vec<_>>(),
    })
}

fn plan(scene: &Scene<'_>) -> Value {
    json!({"label": scene.label, "size": scene.size(), "note": scene.distance_from_bound(),
        "buffers": scene.buffers.iter().map(buffer).collect::<Vec<_>>(),
        "spans": scene.spans.iter().filter(|span| span.size > 0).flat_map(span).collect::<Vec<_>>()})
}

fn buffer(buffer: &BufferPicture<'_>) -> Value {
    let peaks: Vec<_> = buffer.peaks.iter().map(|peak| [peak.start, peak.end]).collect();
    json!({"id": buffer.id, "name": buffer.name, "chunks": buffer.chunks, "turned": buffer.turned, "size": buffer.size(),
        "bound": buffer.lower_bound, "live": buffer.live, "peaks": peaks})
}

/// Added to the way in which a retained tensor shares memory.
const RETAINED: u64 = 4;

/// Returns ten numbers for each rectangle, in the order in which the page reads them.
fn span(span: &Span) -> [u64; 10] {
    let Span { tensor, buffer, chunk, block, offset, size, start, end, visible_until, sharing, is_retained } = *span;
    let times = [start, end, visible_until].map(u64::from);
    let [tensor, buffer, chunk, block] = [tensor, buffer, chunk, block].map(u64::from);
    let sharing = sharing as u64 + if is_retained { RETAINED } else { 0 };
    [tensor, buffer, chunk, block, offset, size, times[0], times[1], times[2], sharing]
}
