//! The search itself: depth first, part by part.

use super::board::{Board, Conflict};
use super::columns::Columns;
use super::corners::{Corner, Move, Range, for_each_corner};
use super::draw::Draw;
use super::failures::{Failures, Fingerprint};
use super::preference::Preference;
use super::run::Style;
use super::state::DONE;
use super::weights::{Focus, Weights};

/// A part of the columns that waits to be filled.
#[derive(Clone, Copy)]
struct Task {
    part: Range,
    /// The last decision before it became a part of its own.
    parent: Option<usize>,
    /// The task that comes after it.
    next: Option<usize>,
}

/// A corner at which there was more than one thing to do.
struct Decision {
    task: Task,
    fingerprint: Fingerprint,
    /// Where its moves begin in the list of moves; those that are left end it.
    moves: usize,
    /// What takes the board back to here.
    mark: usize,
    /// How many tasks there were.
    tasks: usize,
}

/// How a run of the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Found,
    Infeasible,
    OutOfEffort,
}

/// A search, with what it has learnt in all its runs.
pub struct Tree<'c> {
    board: Board<'c>,
    failures: Failures,
    /// By focus.
    weights: [Weights; 3],
    style: Style,
    /// Instead of the style, where there is one.
    draw: Option<Draw>,
    decisions: Vec<Decision>,
    moves: Vec<Move>,
    tasks: Vec<Task>,
    /// The task to do next.
    head: Option<usize>,
}

/// Everything that was tried leads nowhere.
struct Exhausted;

impl<'c> Tree<'c> {
    /// The load of no column is above `capacity`.
    pub fn new(columns: &'c Columns, capacity: u64) -> Self {
        Self {
            board: Board::new(columns, capacity),
            failures: Failures::new(columns),
            weights: Focus::ALL.map(|focus| Weights::new(focus, columns, capacity)),
            style: Style { preference: Preference::Height, focus: Focus::Conflicts },
            draw: None,
            decisions: Vec::new(),
            moves: Vec::new(),
            tasks: Vec::new(),
            head: None,
        }
    }

    /// The work of all runs.
    pub fn work(&self) -> u64 {
        self.board.work
    }

    /// By bar, after a placement was found.
    pub fn offsets(&self) -> &[u64] {
        &self.board.offsets
    }

    /// Searches from the start until so much work is done.
    pub fn run(&mut self, style: Style, work: u64) -> End {
        self.style = style;
        self.draw = None;
        self.go(work)
    }

    /// The same, in a style drawn by lot.
    pub fn run_drawn(&mut self, draw: Draw, work: u64) -> End {
        self.draw = Some(draw);
        self.go(work)
    }

    fn go(&mut self, work: u64) -> End {
        self.start_over();
        let limit = self.board.work + work;
        let all = Range { start: 0, end: self.board.columns.count() };
        if self.split(all, None).is_err() {
            return End::Infeasible;
        }
        while let Some(head) = self.head {
            if self.board.work > limit {
                return End::OutOfEffort;
            }
            let task = self.tasks[head];
            self.head = task.next;
            if self.fill(task).is_err() {
                return End::Infeasible;
            }
        }
        End::Found
    }

    fn start_over(&mut self) {
        self.decisions.clear();
        self.moves.clear();
        self.tasks.clear();
        self.head = None;
        self.board.state.undo(0);
    }

    /// Takes the next step in a part.
    fn fill(&mut self, task: Task) -> Result<(), Exhausted> {
        let Some(corner) = self.best_corner(task.part) else { return self.fail(task.parent) };
        let moves = self.moves.len();
        self.list_moves(corner);
        if self.moves.len() == moves + 1 {
            let only = self.moves.pop().expect("one was added");
            return match self.make(only, task.part, task.parent) {
                Ok(()) => Ok(()),
                Err(conflict) => {
                    self.blame(conflict);
                    self.fail(task.parent)
                }
            };
        }
        let fingerprint = self.failures.fingerprint(&self.board, task.part);
        self.board.work += u64::from(task.part.end - task.part.start);
        if self.failures.contains(fingerprint) {
            self.moves.truncate(moves);
            return self.fail(task.parent);
        }
        let (mark, tasks) = (self.board.state.mark(), self.tasks.len());
        self.decisions.push(Decision { task, fingerprint, moves, mark, tasks });
        self.advance(self.decisions.len() - 1)
    }

    /// The corner with the fewest moves for its weight; `None` when there is one without any.
    fn best_corner(&mut self, part: Range) -> Option<Corner> {
        let (board, weights) = (&self.board, &self.weights[self.style.focus as usize]);
        let mut best: Option<(Score, Corner)> = None;
        let mut work = 0;
        for_each_corner(board, part, |corner| {
            let bars = corner.bars(board).count() as u64;
            let leave = corner.may_be_left(board, &mut work);
            let moves = bars + u64::from(leave);
            work += 4 + bars;
            let edge = corner.edge();
            let slack = board.state.slack(edge);
            let cost = match &self.draw {
                Some(draw) => draw.cost(bars, leave, slack, weights.distance_of_last_conflict(edge)),
                None => weights.cost(bars, leave, edge),
            };
            let score = Score { cost, slack };
            if best.is_none_or(|(best, _)| score.is_better(best)) {
                best = Some((score, corner));
            }
            moves <= 1
        });
        self.board.work += work;
        best.filter(|(score, _)| score.cost > 0.0).map(|(_, corner)| corner)
    }

    /// The best move comes last.
    fn list_moves(&mut self, corner: Corner) {
        if corner.may_be_left(&self.board, &mut 0) {
            self.moves.push(Move::Leave(corner));
        }
        let from = self.moves.len();
        self.moves.extend(corner.bars(&self.board).map(Move::Put));
        let (bars, style, draw) = (&self.board.columns.bars, self.style, &self.draw);
        self.moves[from..].sort_by_key(|&candidate| match (candidate, draw) {
            (Move::Put(id), Some(draw)) => draw.preference(id, bars[id as usize]),
            (Move::Put(id), None) => style.preference.of(bars[id as usize]),
            (Move::Leave(_), _) => 0,
        });
    }

    /// Makes the next move of a decision whose conclusions have no conflict. When there is none left, the same for the
    /// decision before it, and so on.
    fn advance(&mut self, mut index: usize) -> Result<(), Exhausted> {
        loop {
            self.return_to(index);
            let Decision { task, fingerprint, moves, .. } = self.decisions[index];
            if self.moves.len() == moves {
                self.failures.insert(fingerprint);
                index = task.parent.ok_or(Exhausted)?;
                continue;
            }
            let next = self.moves.pop().expect("there are moves");
            match self.make(next, task.part, Some(index)) {
                Ok(()) => return Ok(()),
                Err(conflict) => self.blame(conflict),
            }
        }
    }

    /// Everything is as it was after this decision had been met, but for the moves that were made.
    fn return_to(&mut self, index: usize) {
        if let Some(later) = self.decisions.get(index + 1) {
            self.moves.truncate(later.moves);
        }
        self.decisions.truncate(index + 1);
        let decision = &self.decisions[index];
        self.board.state.undo(decision.mark);
        self.tasks.truncate(decision.tasks);
        self.head = decision.task.next;
    }

    /// A part with this parent leads nowhere.
    fn fail(&mut self, parent: Option<usize>) -> Result<(), Exhausted> {
        self.advance(parent.ok_or(Exhausted)?)
    }

    fn blame(&mut self, conflict: Conflict) {
        self.weights[self.style.focus as usize].blame(conflict.column);
    }

    fn make(&mut self, next: Move, part: Range, parent: Option<usize>) -> Result<(), Conflict> {
        match next {
            Move::Put(id) => self.board.put(id)?,
            Move::Leave(corner) => {
                let (start, heights) = corner.strip(&self.board);
                self.board.raise_all(start, &heights)?;
            }
        }
        self.split(part, parent)
    }

    /// Makes a task of each part of `range` that no waiting bar leaves, the smallest to be done first.
    fn split(&mut self, range: Range, parent: Option<usize>) -> Result<(), Conflict> {
        let from = self.tasks.len();
        let mut ranges = vec![range];
        while let Some(range) = ranges.pop() {
            let mut start = range.start;
            while start < range.end {
                let part = self.part(start, range.end);
                start = part.end;
                if self.hang_widest(part)? {
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

    /// The part that begins at `start`.
    fn part(&mut self, start: u32, end: u32) -> Range {
        let border = (start + 1..end).find(|&column| self.board.state.crossing(column) == 0);
        let part = Range { start, end: border.unwrap_or(end) };
        self.board.work += u64::from(part.end - part.start);
        part
    }

    fn is_full(&self, part: Range) -> bool {
        (part.start..part.end).all(|column| self.board.state.sky(column) == DONE)
    }

    /// Hangs the bars that are as wide as a part, which cost it their height and nothing else. Were there any?
    fn hang_widest(&mut self, part: Range) -> Result<bool, Conflict> {
        let mut any = false;
        for id in self.board.columns.starting(part.start) {
            if self.board.state.reach(id) != DONE && self.board.columns.bars[id as usize].right == part.end {
                self.board.hang(id)?;
                any = true;
            }
        }
        Ok(any)
    }
}

/// How good it is to go on at a corner.
#[derive(Clone, Copy)]
struct Score {
    /// The number of moves for the weight of the corner; 0 without any.
    cost: f64,
    slack: u64,
}

impl Score {
    fn is_better(self, other: Self) -> bool {
        self.cost < other.cost || self.cost <= other.cost && self.slack < other.slack
    }
}
