//! Bytes and times of both allocators for one graph.

use std::hint::black_box;
use std::time::{Duration, Instant};

use lastuse::graph::TensorId;
use lastuse::graph::snapshot::Snapshot;
use lastuse::placement::Bytes;
use lastuse_c_tests::{Allocators, Gallocr, LiveGraph, Result};

/// How long one kind of call is timed for a graph, in both allocators together, and how often at least and at most.
const TIME: Duration = Duration::from_millis(200);
const SAMPLES: std::ops::Range<usize> = 15..301;

/// How many tensors are tried at most to make another graph of a graph.
const OTHERS: usize = 64;

/// A value for each allocator.
#[derive(Clone, Copy, Debug)]
pub struct Both<T> {
    pub upstream: T,
    pub lastuse: T,
}

/// The results for one graph. Times are medians.
#[derive(Debug)]
pub struct Measured {
    pub nodes: usize,
    pub bytes: Both<Bytes>,
    pub lower_bound: Bytes,
    /// The same where lastuse keeps the inputs that ggml's own allocator leaves intact, as in allocators that a program
    /// uses itself.
    pub bytes_kept: Both<Bytes>,
    /// `reserve` as in `plan`, likewise.
    pub plan_kept: Both<Duration>,
    /// `reserve` of a graph that the allocator has not planned before, when the buffer is already allocated.
    pub plan: Both<Duration>,
    /// `reserve` of the graph that was planned last.
    pub plan_again: Both<Duration>,
    /// `alloc_graph` of the graph that was planned last and had memory before.
    pub alloc_graph: Both<Duration>,
}

/// Makes an allocator.
type New = fn(&Allocators) -> Gallocr;

const NEW: Both<New> = Both { upstream: Allocators::upstream, lastuse: Allocators::lastuse };
const NEW_KEPT: Both<New> = Both { upstream: Allocators::upstream, lastuse: Allocators::lastuse_used_directly };

/// Measures both allocators on the graph of `snapshot`.
///
/// # Errors
/// When this ggml cannot build the graph, or an allocator refuses it.
pub fn measure(allocators: &'static Allocators, snapshot: &Snapshot) -> Result<Measured> {
    let mut graph = LiveGraph::build(allocators, snapshot)?;
    let both = planned(allocators, &graph)?;
    let bytes = both.as_ref().map(Gallocr::buffer_size);
    let lower_bound = both.lastuse.lower_bound().ok_or("lastuse has no lower bound")?;
    let other = another_graph(allocators, snapshot, bytes)?;
    Ok(Measured {
        nodes: snapshot.graph.nodes().len(),
        bytes,
        lower_bound,
        bytes_kept: Both { lastuse: reserved(allocators.lastuse_used_directly(), &graph)?.buffer_size(), ..bytes },
        plan_kept: time_of_plan(allocators, NEW_KEPT, &graph, &other)?,
        plan: time_of_plan(allocators, NEW, &graph, &other)?,
        plan_again: time_of_plan_again(both, &graph)?,
        alloc_graph: time_of_alloc_graph(planned(allocators, &graph)?, &mut graph)?,
    })
}

/// Both allocators with a plan for the graph.
fn planned(allocators: &Allocators, graph: &LiveGraph) -> Result<Both<Gallocr>> {
    Ok(Both { upstream: reserved(allocators.upstream(), graph)?, lastuse: reserved(allocators.lastuse(), graph)? })
}

fn reserved(mut allocator: Gallocr, graph: &LiveGraph) -> Result<Gallocr> {
    if allocator.reserve(graph) { Ok(allocator) } else { Err("an allocator refuses the graph".to_owned()) }
}

/// The graph with one more output, for which both allocators need at least as much as for the graph itself.
fn another_graph(allocators: &'static Allocators, snapshot: &Snapshot, bytes: Both<Bytes>) -> Result<LiveGraph> {
    let graph = &snapshot.graph;
    let is_candidate = |id: &TensorId| graph.tensor(*id).view.is_none() && !graph.tensor(*id).external;
    let early = graph.nodes().len() / 2;
    let mut candidates: Vec<TensorId> = graph.nodes()[..early].iter().copied().filter(is_candidate).collect();
    candidates.sort_by_key(|&id| std::cmp::Reverse(snapshot.tensors[id as usize].size));
    for &id in candidates.iter().take(OTHERS) {
        let mut other = LiveGraph::build(allocators, snapshot)?;
        other.keep(id);
        let size = |new: New| reserved(new(allocators), &other).map(|allocator| allocator.buffer_size());
        if size(NEW.upstream)? >= bytes.upstream && size(NEW.lastuse)? >= bytes.lastuse {
            return Ok(other);
        }
    }
    Err("no other graph of the same size can be made of it".to_owned())
}

/// An allocator that has all that planning needs and remembers nothing of the graph that will be planned: buffer and
/// working memory were made for another graph. This decides what counts as planning. An allocator that recognizes
/// graphs must not recognize the next one, so every sample gets its own allocator.
fn unfamiliar(allocators: &Allocators, new: New, other: &LiveGraph) -> Result<Gallocr> {
    reserved(new(allocators), other)
}

fn time_of_plan(
    allocators: &Allocators,
    new: Both<New>,
    graph: &LiveGraph,
    other: &LiveGraph,
) -> Result<Both<Duration>> {
    medians(new, |new| {
        let mut allocator = unfamiliar(allocators, *new, other)?;
        let start = Instant::now();
        let done = black_box(allocator.reserve(graph));
        timed(start, done)
    })
}

fn time_of_plan_again(planned: Both<Gallocr>, graph: &LiveGraph) -> Result<Both<Duration>> {
    medians(planned, |allocator| {
        let start = Instant::now();
        let done = black_box(allocator.reserve(graph));
        timed(start, done)
    })
}

/// Times the calls that a program makes for every token, with a graph that has no memory yet.
fn time_of_alloc_graph(planned: Both<Gallocr>, graph: &mut LiveGraph) -> Result<Both<Duration>> {
    medians(planned, |allocator| {
        graph.reset();
        let start = Instant::now();
        let done = black_box(allocator.allocate(graph));
        timed(start, done)
    })
}

fn timed(start: Instant, done: bool) -> Result<Duration> {
    let time = start.elapsed();
    if done { Ok(time) } else { Err("an allocator refuses the graph".to_owned()) }
}

/// The medians of samples that are taken of both in turn, so that what slows the machine slows both.
fn medians<T>(mut of: Both<T>, mut sample: impl FnMut(&mut T) -> Result<Duration>) -> Result<Both<Duration>> {
    let (mut upstream, mut lastuse) = (Vec::new(), Vec::new());
    let mut spent = Duration::ZERO;
    while upstream.len() < SAMPLES.start || (spent < TIME && upstream.len() + 1 < SAMPLES.end) {
        upstream.push(sample(&mut of.upstream)?);
        lastuse.push(sample(&mut of.lastuse)?);
        spent += upstream[upstream.len() - 1] + lastuse[lastuse.len() - 1];
    }
    Ok(Both { upstream: median(upstream), lastuse: median(lastuse) })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

impl<T> Both<T> {
    fn as_ref(&self) -> Both<&T> {
        Both { upstream: &self.upstream, lastuse: &self.lastuse }
    }

    /// Applies a function to both values.
    pub fn map<U>(self, mut of: impl FnMut(T) -> U) -> Both<U> {
        Both { upstream: of(self.upstream), lastuse: of(self.lastuse) }
    }
}
