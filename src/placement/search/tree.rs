//! Depth-first search with backtracking. Ranges of columns that share no unplaced bar are searched one after the other.

use super::columns::Columns;
use super::corners::{ColumnRange, Corner, CornerMove, for_each_corner};
use super::heuristics::{Heuristic, Weighting, Weights};
use super::no_goods::{NoGoods, StateHash};
use super::partial_placement::{Conflict, PartialPlacement};
use super::randomized::RandomHeuristic;
use super::state::{DONE, Of};

/// A range of columns to be filled.
#[derive(Clone, Copy)]
struct Task {
    part: ColumnRange,
    /// The last branch point before no unplaced bar crossed its borders any more.
    parent: Option<usize>,
    /// The task after it.
    next: Option<usize>,
}

/// A branching with more than one move.
struct BranchPoint {
    task: Task,
    hash: StateHash,
    /// Where its moves start in the list of moves. Those that are not tried yet are at the end of that list.
    moves: usize,
    /// The mark that restores the state before its moves.
    mark: usize,
    /// The number of tasks before its moves.
    tasks: usize,
}

/// The result of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    Found,
    Infeasible,
    OutOfEffort,
}

/// The search tree, and the no-goods learned in all runs.
pub struct Tree<'c> {
    partial: PartialPlacement<'c>,
    no_goods: NoGoods,
    /// By weighting.
    weights: [Weights; 3],
    heuristic: Heuristic,
    /// Replaces the branching order of `heuristic`.
    random: Option<RandomHeuristic>,
    branch_points: Vec<BranchPoint>,
    moves: Vec<CornerMove>,
    tasks: Vec<Task>,
    /// The next task.
    head: Option<usize>,
}

/// All moves of all branch points have failed.
struct Exhausted;

impl<'c> Tree<'c> {
    /// Creates a tree without branch points. No column has more than `capacity` live units.
    pub fn new(columns: &'c Columns, capacity: u64) -> Self {
        Self {
            partial: PartialPlacement::new(columns, capacity),
            no_goods: NoGoods::new(columns),
            weights: Weighting::ALL.map(|weighting| Weights::new(weighting, columns, capacity)),
            heuristic: Heuristic::ALL[0],
            random: None,
            branch_points: Vec::new(),
            moves: Vec::new(),
            tasks: Vec::new(),
            head: None,
        }
    }

    /// Returns the work of all runs.
    pub fn work(&self) -> u64 {
        self.partial.work
    }

    /// Returns the offset of each bar, once a placement is found.
    pub fn offsets(&self) -> &[u64] {
        &self.partial.offsets
    }

    /// Searches from the root until `work` is done.
    pub fn run(&mut self, heuristic: Heuristic, work: u64) -> RunEnd {
        self.heuristic = heuristic;
        self.random = None;
        self.search(work)
    }

    /// Searches from the root, in a random branching order, until `work` is done. Conflicts are counted as in the run
    /// before.
    pub fn run_randomly(&mut self, heuristic: RandomHeuristic, work: u64) -> RunEnd {
        self.random = Some(heuristic);
        self.search(work)
    }

    fn search(&mut self, work: u64) -> RunEnd {
        self.restart();
        let limit = self.partial.work + work;
        let all = ColumnRange { start: 0, end: self.partial.columns.count() };
        if self.split(all, None).is_err() {
            return RunEnd::Infeasible;
        }
        while let Some(head) = self.head {
            if self.partial.work > limit {
                return RunEnd::OutOfEffort;
            }
            let task = self.tasks[head];
            self.head = task.next;
            if self.branch(task).is_err() {
                return RunEnd::Infeasible;
            }
        }
        RunEnd::Found
    }

    fn restart(&mut self) {
        self.branch_points.clear();
        self.moves.clear();
        self.tasks.clear();
        self.head = None;
        self.partial.state.undo(0);
    }

    /// Makes the only move of the best corner, or a branch point if there are several.
    fn branch(&mut self, task: Task) -> Result<(), Exhausted> {
        let Some(corner) = self.best_corner(task.part) else { return self.fail(task.parent) };
        let moves = self.moves.len();
        self.list_moves(corner);
        if self.moves.len() == moves + 1 {
            let only = self.moves.pop().expect("one was added");
            return match self.apply(only, task.part, task.parent) {
                Ok(()) => Ok(()),
                Err(conflict) => {
                    self.count_conflict(conflict);
                    self.fail(task.parent)
                }
            };
        }
        let hash = self.no_goods.hash(&self.partial, task.part);
        self.partial.work += u64::from(task.part.end - task.part.start);
        if self.no_goods.contains(hash) {
            self.moves.truncate(moves);
            return self.fail(task.parent);
        }
        let (mark, tasks) = (self.partial.state.mark(), self.tasks.len());
        self.branch_points.push(BranchPoint { task, hash, moves, mark, tasks });
        self.try_next_move(self.branch_points.len() - 1)
    }

    /// Returns the corner with the fewest moves for its weight; `None` if there is one without moves.
    fn best_corner(&mut self, part: ColumnRange) -> Option<Corner> {
        let (partial, weights) = (&self.partial, &self.weights[self.heuristic.weighting as usize]);
        let mut best: Option<(Score, Corner)> = None;
        let mut work = 0;
        for_each_corner(partial, part, |corner| {
            let bars = corner.bars(partial).count() as u64;
            let leave = corner.may_be_left(partial, &mut work);
            let moves = bars + u64::from(leave);
            work += 4 + bars;
            let edge = corner.edge();
            let slack = partial.state.get(Of::Slack, edge);
            let cost = match &self.random {
                Some(random) => random.cost(bars, leave, slack, weights.distance_to_last_conflict(edge)),
                None => weights.cost(bars, leave, edge),
            };
            let score = Score { cost, slack };
            if best.is_none_or(|(best, _)| score.is_better(best)) {
                best = Some((score, corner));
            }
            moves <= 1
        });
        self.partial.work += work;
        best.filter(|(score, _)| score.cost > 0.0).map(|(_, corner)| corner)
    }

    /// Appends the moves of a corner to the list, the best one last.
    fn list_moves(&mut self, corner: Corner) {
        if corner.may_be_left(&self.partial, &mut 0) {
            self.moves.push(CornerMove::Leave(corner));
        }
        let from = self.moves.len();
        self.moves.extend(corner.bars(&self.partial).map(CornerMove::Place));
        let (bars, bar_order, random) = (&self.partial.columns.bars, self.heuristic.bar_order, &self.random);
        self.moves[from..].sort_by_key(|&candidate| match (candidate, random) {
            (CornerMove::Place(id), Some(random)) => random.priority(id, bars[id as usize]),
            (CornerMove::Place(id), None) => bar_order.priority(bars[id as usize]),
            (CornerMove::Leave(_), _) => 0,
        });
    }

    /// Makes the next move of a branch point that causes no conflict. If none is left, backtracks to the parent branch
    /// point.
    fn try_next_move(&mut self, mut index: usize) -> Result<(), Exhausted> {
        loop {
            self.undo_since(index);
            let BranchPoint { task, hash, moves, .. } = self.branch_points[index];
            if self.moves.len() == moves {
                self.no_goods.insert(hash);
                index = task.parent.ok_or(Exhausted)?;
                continue;
            }
            let next = self.moves.pop().expect("there are moves");
            match self.apply(next, task.part, Some(index)) {
                Ok(()) => return Ok(()),
                Err(conflict) => self.count_conflict(conflict),
            }
        }
    }

    /// Restores the state at a branch point, except for the list of its moves.
    fn undo_since(&mut self, index: usize) {
        if let Some(later) = self.branch_points.get(index + 1) {
            self.moves.truncate(later.moves);
        }
        self.branch_points.truncate(index + 1);
        let branch_point = &self.branch_points[index];
        self.partial.state.undo(branch_point.mark);
        self.tasks.truncate(branch_point.tasks);
        self.head = branch_point.task.next;
    }

    /// Backtracks from a part that cannot be filled.
    fn fail(&mut self, parent: Option<usize>) -> Result<(), Exhausted> {
        self.try_next_move(parent.ok_or(Exhausted)?)
    }

    fn count_conflict(&mut self, conflict: Conflict) {
        self.weights[self.heuristic.weighting as usize].add_conflict(conflict.column);
    }

    fn apply(&mut self, next: CornerMove, part: ColumnRange, parent: Option<usize>) -> Result<(), Conflict> {
        match next {
            CornerMove::Place(id) => self.partial.place(id)?,
            CornerMove::Leave(corner) => {
                let (start, heights) = corner.strip(&self.partial);
                self.partial.leave_empty(start, &heights)?;
            }
        }
        self.split(part, parent)
    }

    /// Splits `range` where no unplaced bar crosses, and makes each part a task. The smallest comes first.
    fn split(&mut self, range: ColumnRange, parent: Option<usize>) -> Result<(), Conflict> {
        let from = self.tasks.len();
        let mut ranges = vec![range];
        while let Some(range) = ranges.pop() {
            let mut start = range.start;
            while start < range.end {
                let part = self.part(start, range.end);
                start = part.end;
                if self.place_widest(part)? {
                    ranges.push(part);
                } else if !self.is_full(part) {
                    self.tasks.push(Task { part, parent, next: None });
                }
            }
        }
        self.tasks[from..].sort_by_key(|task| std::cmp::Reverse(task.part.end - task.part.start));
        for index in from..self.tasks.len() {
            self.tasks[index].next = self.head.replace(index);
        }
        Ok(())
    }

    /// Returns the part that starts at `start`.
    fn part(&mut self, start: u32, end: u32) -> ColumnRange {
        let border = (start + 1..end).find(|&column| self.partial.state.get(Of::Crossing, column) == 0);
        let part = ColumnRange { start, end: border.unwrap_or(end) };
        self.partial.work += u64::from(part.end - part.start);
        part
    }

    fn is_full(&self, part: ColumnRange) -> bool {
        (part.start..part.end).all(|column| self.partial.state.get(Of::Skyline, column) == DONE)
    }

    /// Places the bars that are as wide as a part at its ceiling, where they cost only their height. Returns `true` if
    /// there were any.
    fn place_widest(&mut self, part: ColumnRange) -> Result<bool, Conflict> {
        let mut any = false;
        for id in self.partial.columns.starting(part.start) {
            if self.partial.state.least_offset(id) != DONE && self.partial.columns.bars[id as usize].right == part.end {
                self.partial.place_at_ceiling(id)?;
                any = true;
            }
        }
        Ok(any)
    }
}

/// How good a corner is to branch at.
#[derive(Clone, Copy)]
struct Score {
    /// The cost of the moves, divided by the weight of the corner; 0 without moves.
    cost: f64,
    slack: u64,
}

impl Score {
    fn is_better(self, other: Self) -> bool {
        self.cost < other.cost || self.cost <= other.cost && self.slack < other.slack
    }
}
