//! Keeping every k-th layer: checkpoints as they are set by hand.

use lastuse::graph::recompute::Needs;
use lastuse::graph::{Flags, TensorId};

use super::Training;

/// The distances from one kept layer to the next that are tried.
const DISTANCES: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 24];

/// The results kept of the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The residual stream after every k-th layer.
    Streams,
    /// All of every k-th layer, and the residual stream after the others.
    Layers,
}

/// A choice, and the bytes that it needs.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub kept: Kept,
    pub k: usize,
    pub needs: Needs,
}

/// Returns what every choice needs, with the head of the network (from the last layer to the loss) kept or dropped,
/// sorted by bytes, then by work.
pub fn points(training: &Training) -> Vec<Point> {
    let layers = Layers::of(training);
    let mut points = Vec::new();
    for k in DISTANCES.into_iter().filter(|&k| k <= training.layers) {
        for (kept, drops_head) in
            [(Kept::Streams, false), (Kept::Streams, true), (Kept::Layers, false), (Kept::Layers, true)]
        {
            let dropped = layers.dropped(kept, k, drops_head);
            let (mut copy, buffers) = (training.snapshot.clone(), training.snapshot.recorded_buffers());
            let found = copy.recompute_exactly(&buffers, &dropped).expect("it is a training graph");
            points.push(Point { kept, k, needs: found.after });
        }
    }
    points.sort_by_key(|point| (point.needs.bytes, point.needs.work, point.k));
    points
}

/// Returns the points with less work than all that need fewer bytes, by bytes.
pub fn lower_envelope(points: &[Point]) -> Vec<Point> {
    let mut found: Vec<Point> = Vec::new();
    for &point in points {
        if found.last().is_none_or(|last| point.needs.work < last.needs.work) {
            found.push(point);
        }
    }
    found
}

/// The forward pass of a transformer.
struct Layers {
    /// The nodes of each layer; the last one computes the residual stream after it.
    layers: Vec<Vec<TensorId>>,
    /// The nodes from the last layer to the loss.
    head: Vec<TensorId>,
}

impl Layers {
    fn of(training: &Training) -> Self {
        let graph = &training.snapshot.graph;
        let is_loss = |&node: &TensorId| graph.tensor(node).flags.has(Flags::LOSS);
        let loss = graph.nodes().iter().position(is_loss).expect("it is a training graph");
        let forward = &graph.nodes()[..loss];
        let steps_of = |op: &str| -> Vec<usize> {
            (0..loss).filter(|&step| training.snapshot.tensors[forward[step] as usize].op.as_ref() == op).collect()
        };
        // A layer adds the results of its attention, then those of its feed-forward network, to the residual stream,
        // which begins with the embeddings.
        let (additions, embedding) = (steps_of("ADD"), steps_of("GET_ROWS"));
        assert_eq!((additions.len(), embedding.len()), (2 * training.layers, 1), "{}", training.name);
        let mut start = embedding[0] + 1;
        let mut layers = Vec::new();
        for pair in additions.chunks_exact(2) {
            layers.push(forward[start..=pair[1]].to_vec());
            start = pair[1] + 1;
        }
        Self { layers, head: forward[start..].to_vec() }
    }

    fn dropped(&self, kept: Kept, k: usize, drops_head: bool) -> Vec<TensorId> {
        let mut dropped = Vec::new();
        for (number, layer) in (1..).zip(&self.layers) {
            let (_, inside) = layer.split_last().expect("a layer has nodes");
            match kept {
                Kept::Streams if number % k == 0 => dropped.extend_from_slice(inside),
                Kept::Streams => dropped.extend_from_slice(layer),
                Kept::Layers if number % k == 0 => {}
                Kept::Layers => dropped.extend_from_slice(inside),
            }
        }
        if drops_head {
            dropped.extend_from_slice(&self.head);
        }
        dropped
    }
}
