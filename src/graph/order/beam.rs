//! Beam search for an order of a window of steps whose live bytes stay below caps.
//!
//! Breadth first by the number of nodes that have run. Among the states with the same number, those with the fewest
//! live bytes are kept. A node that can run without adding to the live bytes runs at once: running it later can only
//! free more, and running it early leaves more bytes to all others.

use std::collections::VecDeque;

use crate::graph::lists::Lists;
use crate::graph::live_bytes::Run;
use crate::placement::{Bytes, Step};

use super::Hazards;

/// How many nodes are tried next in a state, per width of the beam: graphs may have thousands that are ready at once.
const BRANCHES: usize = 8;

/// The state of a search: an order, of which the steps in `window` may be permuted.
#[derive(Clone, Copy, Debug)]
pub struct BeamSearch<'a> {
    pub hazards: &'a Hazards,
    pub order: &'a [Step],
    /// The window, half-open.
    pub window: (usize, usize),
    /// The most live bytes allowed, by buffer.
    pub caps: &'a [Bytes],
    /// The width of the beam: how many states with the same number of nodes are kept.
    pub width: usize,
}

/// A set of nodes of the window that have run.
#[derive(Debug)]
struct BeamState {
    /// One bit per node of the window.
    done: Vec<u64>,
    /// Live bytes of all buffers.
    live: Bytes,
    /// The state before, and the nodes run since.
    parent: usize,
    moves: Vec<u32>,
}

/// Runs the search. `run` must be before the first step of the window, and is there again afterwards. Takes one unit of
/// `work` for each node that is tried in a state; returns `None` if no order is found or no work is left.
pub fn search(run: &mut Run<'_>, search: BeamSearch<'_>, work: &mut u64) -> Option<Vec<Step>> {
    let mut beam = Beam::new(run, search);
    let found = beam.descend(work);
    beam.go_to(&vec![0; beam.done.len()]);
    found
}

struct Beam<'r, 'm, 'a> {
    run: &'r mut Run<'m>,
    search: BeamSearch<'a>,
    /// By node of the window: its successors in the window.
    after: Vec<Vec<u32>>,
    /// By node of the window: how many of its predecessors in the window have not run.
    pending: Vec<u32>,
    /// By value: the nodes of the window that use it.
    users: Lists<u32>,
    /// One bit per node of the window.
    done: Vec<u64>,
    ready: Vec<u64>,
    /// The number of bits set in `done`.
    count: usize,
    /// Scratch: the nodes run since a state, and those that may run without adding to the live bytes.
    moves: Vec<u32>,
    open: VecDeque<u32>,
    states: Vec<BeamState>,
    /// By number of nodes that have run: states, fewest live bytes first.
    levels: Vec<Vec<usize>>,
}

impl<'r, 'm, 'a> Beam<'r, 'm, 'a> {
    fn new(run: &'r mut Run<'m>, search: BeamSearch<'a>) -> Self {
        let steps = &search.order[search.window.0..search.window.1];
        let mut position = vec![None; search.order.len()];
        for (node, &step) in (0u32..).zip(steps) {
            position[step as usize] = Some(node);
        }
        let words = steps.len().div_ceil(64);
        let inside = |steps: &[Step]| steps.iter().filter_map(|&step| position[step as usize]).collect::<Vec<u32>>();
        let pending: Vec<usize> = steps.iter().map(|&step| inside(search.hazards.before(step)).len()).collect();
        let mut beam = Self {
            users: run.model.users(steps.iter().copied()),
            run,
            search,
            after: steps.iter().map(|&step| inside(search.hazards.after(step))).collect(),
            pending: pending.iter().map(|&count| u32::try_from(count).unwrap_or(u32::MAX)).collect(),
            done: vec![0; words],
            ready: vec![0; words],
            count: 0,
            moves: Vec::new(),
            open: VecDeque::new(),
            states: Vec::new(),
            levels: vec![Vec::new(); steps.len() + 1],
        };
        for node in (0..).zip(&pending).filter(|(_, count)| **count == 0).map(|(node, _)| node) {
            flip(&mut beam.ready, node);
        }
        beam
    }

    fn descend(&mut self, work: &mut u64) -> Option<Vec<Step>> {
        self.open.extend(ones(&self.ready));
        self.run_free_nodes(Bytes::MAX, work);
        self.keep_state(0);
        for level in 0..self.levels.len() {
            for state in std::mem::take(&mut self.levels[level]) {
                if level + 1 == self.levels.len() {
                    return Some(self.path(state));
                }
                self.expand(state, work)?;
            }
        }
        None
    }

    /// Tries nodes that fit next, and keeps the states they lead to.
    fn expand(&mut self, state: usize, work: &mut u64) -> Option<()> {
        let done = std::mem::take(&mut self.states[state].done);
        *work = work.checked_sub(self.go_to(&done))?;
        let live = self.run.total();
        for node in self.next_nodes(state) {
            *work = work.checked_sub(1)?;
            if self.run.fits(self.step(node), self.search.caps) {
                self.moves.clear();
                self.advance(node);
                self.run_free_nodes(live, work);
                self.keep_state(state);
                for at in (0..self.moves.len()).rev() {
                    self.backward(self.moves[at]);
                }
            }
        }
        Some(())
    }

    /// Returns nodes to run next: the first ready ones of the window, and the successors of the latest moves.
    fn next_nodes(&self, state: usize) -> Vec<u32> {
        let mut nodes: Vec<u32> = ones(&self.ready).take(BRANCHES * self.search.width).collect();
        let last = nodes.last().copied();
        let moved = self.states[state].moves.iter();
        let late = moved.flat_map(|&node| &self.after[node as usize]).copied();
        nodes.extend(late.filter(|&node| Some(node) > last && is_set(&self.ready, node)));
        nodes
    }

    /// Runs nodes that fit and do not add to the live bytes, as long as there are any. `open` has the nodes that may
    /// have become such; `live` is the least number of live bytes at which there were no others.
    fn run_free_nodes(&mut self, mut live: Bytes, work: &mut u64) {
        loop {
            while let Some(node) = self.open.pop_front() {
                *work = work.saturating_sub(1);
                let step = self.step(node);
                if is_set(&self.ready, node) && self.run.growth(step) <= 0 && self.run.fits(step, self.search.caps) {
                    self.advance(node);
                }
            }
            // With fewer live bytes than before, nodes may fit that did not.
            if self.run.total() >= live {
                return;
            }
            live = self.run.total();
            self.open.extend(ones(&self.ready).take(BRANCHES * self.search.width));
        }
    }

    /// Runs `node`, and opens its successors and the nodes that may now free its sources.
    fn advance(&mut self, node: u32) {
        self.forward(node);
        self.moves.push(node);
        let used = self.run.model.uses(self.step(node)).iter().filter(|(value, _)| self.run.may_have_one_user(*value));
        let users = used.flat_map(|&(value, _)| self.users.of(value));
        let affected = self.after[node as usize].iter().chain(users).copied();
        self.open.extend(affected.filter(|&other| is_set(&self.ready, other)));
    }

    /// Keeps the current state, if it is new and among the best with the same number of nodes run.
    fn keep_state(&mut self, parent: usize) {
        let live = self.run.total();
        let level = &mut self.levels[self.count];
        let at = level.partition_point(|&other| self.states[other].live <= live);
        let mut known = level[..at].iter().rev().take_while(|&&other| self.states[other].live == live);
        if at >= self.search.width || known.any(|&other| self.states[other].done == self.done) {
            return;
        }
        level.insert(at, self.states.len());
        for dropped in level.drain(self.search.width.min(level.len())..) {
            self.states[dropped].done = Vec::new();
        }
        self.states.push(BeamState { done: self.done.clone(), live, parent, moves: self.moves.clone() });
    }

    /// Returns the steps of the window in the order that led to a state.
    fn path(&self, mut state: usize) -> Vec<Step> {
        let mut nodes = Vec::with_capacity(self.after.len());
        loop {
            nodes.extend(self.states[state].moves.iter().rev());
            if state == 0 {
                break;
            }
            state = self.states[state].parent;
        }
        nodes.iter().rev().map(|&node| self.step(node)).collect()
    }

    /// Makes `done` the set of nodes that have run. Returns how many were run or undone.
    fn go_to(&mut self, done: &[u64]) -> u64 {
        // Hazards allow the window's own order, so it can reach any set.
        let mut moves = 0;
        for (word, &then) in done.iter().enumerate().rev() {
            let mut extra = self.done[word] & !then;
            while extra != 0 {
                let bit = extra.ilog2();
                extra ^= 1 << bit;
                self.backward(node_at(word, bit));
                moves += 1;
            }
        }
        for (word, &then) in done.iter().enumerate() {
            let mut missing = then & !self.done[word];
            while missing != 0 {
                let bit = missing.trailing_zeros();
                missing &= missing - 1;
                self.forward(node_at(word, bit));
                moves += 1;
            }
        }
        moves
    }

    fn step(&self, node: u32) -> Step {
        self.search.order[self.search.window.0 + node as usize]
    }

    fn forward(&mut self, node: u32) {
        self.run.forward(self.step(node));
        self.count += 1;
        flip(&mut self.done, node);
        flip(&mut self.ready, node);
        for &later in &self.after[node as usize] {
            self.pending[later as usize] -= 1;
            if self.pending[later as usize] == 0 {
                flip(&mut self.ready, later);
            }
        }
    }

    fn backward(&mut self, node: u32) {
        self.run.backward(self.step(node));
        self.count -= 1;
        flip(&mut self.done, node);
        flip(&mut self.ready, node);
        for &later in &self.after[node as usize] {
            if self.pending[later as usize] == 0 {
                flip(&mut self.ready, later);
            }
            self.pending[later as usize] += 1;
        }
    }
}

fn flip(bits: &mut [u64], at: u32) {
    bits[at as usize / 64] ^= 1 << (at % 64);
}

fn is_set(bits: &[u64], at: u32) -> bool {
    bits[at as usize / 64] & (1 << (at % 64)) != 0
}

fn node_at(word: usize, bit: u32) -> u32 {
    u32::try_from(word).expect("fewer than 2^32 nodes") * 64 + bit
}

/// Returns the positions of the set bits, in order.
fn ones(bits: &[u64]) -> impl Iterator<Item = u32> {
    bits.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros();
            (rest != 0).then(|| {
                rest &= rest - 1;
                node_at(index, bit)
            })
        })
    })
}
