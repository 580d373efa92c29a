//! The search itself: depth first, part by part, with restarts.

use super::board::{Board, Conflict};
use super::columns::Columns;
use super::corners::{Corner, Move, Range, for_each_corner};
use super::failures::{Failures, Fingerprint, fingerprint};
use super::state::DONE;

/// A part that waits to be filled.
#[derive(Clone, Copy)]
struct Task {
    part: Range,
    /// The decision that made it a part of its own.
    parent: Option<usize>,
    /// The task that comes after it.
    next: Option<usize>,
}

/// A corner at which something has to be done.
struct Decision {
    task: Task,
    fingerprint: Fingerprint,
    /// Where the moves that are left begin in `moves`; the next one is the last.
    moves: usize,
    mark: usize,
    tasks: usize,
}

/// How a run of the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Found,
    Infeasible,
    OutOfEffort,
}

pub struct Tree<'c> {
    pub board: Board<'c>,
    failures: Failures,
    /// By column, how often there was a conflict.
    weights: Vec<u64>,
    decisions: Vec<Decision>,
    moves: Vec<Move>,
    tasks: Vec<Task>,
    /// The task to do next.
    head: Option<usize>,
    pub nodes: u64,
    pub limit: u64,
}

impl<'c> Tree<'c> {
    pub fn new(columns: &'c Columns, capacity: u64) -> Self {
        Self {
            board: Board::new(columns, capacity),
            failures: Failures::default(),
            weights: vec![1; columns.count() as usize],
            decisions: Vec::new(),
            moves: Vec::new(),
            tasks: Vec::new(),
            head: None,
            nodes: 0,
            limit: 0,
        }
    }

    /// Searches from the start, with what earlier runs have learnt, until so much work is done.
    pub fn run(&mut self, effort: u64) -> End {
        self.decisions.clear();
        self.moves.clear();
        self.tasks.clear();
        self.head = None;
        self.board.state.undo(0);
        let all = Range { start: 0, end: self.board.columns.count() };
        if self.split(all, None).is_err() {
            return End::Infeasible;
        }
        let limit = self.board.work + effort;
        while let Some(head) = self.head {
            if self.board.work > limit {
                return End::OutOfEffort;
            }
            let task = self.tasks[head];
            self.head = task.next;
            self.nodes += 1;
            let fingerprint = fingerprint(&self.board, task.part);
            self.board.work += u64::from(task.part.end - task.part.start);
            let went_on = if self.failures.contains(fingerprint) {
                self.fail(task.parent)
            } else {
                self.decide(task, fingerprint);
                let last = self.decisions.len() - 1;
                self.advance(last)
            };
            if !went_on {
                return End::Infeasible;
            }
        }
        End::Found
    }

    /// Finds the best corner of a part.
    fn decide(&mut self, task: Task, fingerprint: Fingerprint) {
        let board = &mut self.board;
        let weights = &self.weights;
        let mut best: Option<(u64, u64, Corner, bool)> = None;
        let mut work = 0;
        for_each_corner(board, task.part, |corner| {
            let edge = corner.edge();
            let bars = corner.bars(board).count() as u64;
            work += 4 + bars;
            let leave = board.state.slack(edge) > 0 && {
                let (start, heights) = corner.strip(board);
                work += u64::from(corner.valley.end - corner.valley.start) + heights.len() as u64;
                (start..).zip(&heights).all(|(column, &height)| {
                    height == DONE || height - board.state.sky(column) <= board.state.slack(column)
                })
            };
            let count = bars + u64::from(leave);
            let weight = weights[edge as usize];
            let better = best.is_none_or(|(best_count, best_weight, _, _)| {
                u128::from(count) * u128::from(best_weight) < u128::from(best_count) * u128::from(weight)
            });
            if better {
                best = Some((count, weight, corner, leave));
            }
            count == 0
        });
        board.work += work;
        let moves = self.moves.len();
        let (_, _, corner, leave) = best.expect("a part has a valley");
        if leave {
            self.moves.push(Move::Leave(corner));
        }
        let from = self.moves.len();
        self.moves.extend(corner.bars(&self.board).map(Move::Put));
        let bars = &self.board.columns.bars;
        self.moves[from..].sort_by_key(|choice| match choice {
            Move::Put(id) => {
                let bar = bars[*id as usize];
                bar.height * u64::from(bar.right - bar.left)
            }
            Move::Leave(_) => 0,
        });
        let mark = self.board.state.mark();
        self.decisions.push(Decision { task, fingerprint, moves, mark, tasks: self.tasks.len() });
    }

    /// Makes the next move of a decision that has no consequence that fails; takes decisions back as long as there is
    /// none. False when there is none at all.
    fn advance(&mut self, mut index: usize) -> bool {
        loop {
            self.decisions.truncate(index + 1);
            let decision = &self.decisions[index];
            let (task, mark, tasks, first) = (decision.task, decision.mark, decision.tasks, decision.moves);
            self.board.state.undo(mark);
            self.tasks.truncate(tasks);
            self.head = task.next;
            if self.moves.len() > first {
                let choice = self.moves.pop().expect("there is a move");
                match self.make(choice, task.part, index) {
                    Ok(()) => return true,
                    Err(Conflict { column }) => self.weights[column as usize] += 1,
                }
            } else {
                self.failures.insert(decision.fingerprint);
                match task.parent {
                    Some(parent) => {
                        index = parent;
                        let keep = self.decisions[index + 1].moves;
                        self.moves.truncate(keep);
                    }
                    None => return false,
                }
            }
        }
    }

    /// A part whose parent is this decision leads nowhere.
    fn fail(&mut self, parent: Option<usize>) -> bool {
        let Some(parent) = parent else { return false };
        if let Some(child) = self.decisions.get(parent + 1) {
            self.moves.truncate(child.moves);
        }
        self.advance(parent)
    }

    fn make(&mut self, choice: Move, part: Range, index: usize) -> Result<(), Conflict> {
        match choice {
            Move::Put(id) => self.board.put(id)?,
            Move::Leave(corner) => {
                let (start, heights) = corner.strip(&self.board);
                self.board.raise_all(start, &heights)?;
            }
        }
        self.split(part, Some(index))
    }

    /// Makes a task of each part of `range` that no waiting bar leaves.
    fn split(&mut self, range: Range, parent: Option<usize>) -> Result<(), Conflict> {
        let mut start = range.start;
        let from = self.tasks.len();
        while start < range.end {
            let end = (start + 1..range.end).find(|&column| self.board.state.crossing(column) == 0);
            let end = end.unwrap_or(range.end);
            let part = Range { start, end };
            start = end;
            self.hang_widest(part, range, parent, from)?;
        }
        // The smallest first.
        self.tasks[from..].sort_by_key(|task| std::cmp::Reverse(task.part.end - task.part.start));
        for index in from..self.tasks.len() {
            self.tasks[index].next = self.head;
            self.head = Some(index);
        }
        Ok(())
    }

    /// Bars as wide as a part go to its ceiling; what is left may fall into parts again.
    fn hang_widest(&mut self, part: Range, _whole: Range, parent: Option<usize>, _from: usize) -> Result<(), Conflict> {
        let mut hung = false;
        for id in self.board.columns.starting(part.start) {
            if self.board.state.reach(id) != DONE && self.board.columns.bars[id as usize].right == part.end {
                self.board.hang(id)?;
                hung = true;
            }
        }
        if hung {
            let mut start = part.start;
            while start < part.end {
                let end = (start + 1..part.end).find(|&column| self.board.state.crossing(column) == 0);
                let end = end.unwrap_or(part.end);
                self.hang_widest(Range { start, end }, part, parent, 0)?;
                start = end;
            }
        } else if (part.start..part.end).any(|column| self.board.state.sky(column) != DONE) {
            self.tasks.push(Task { part, parent, next: None });
        }
        Ok(())
    }
}
