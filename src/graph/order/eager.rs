//! The given order, in which nodes that free memory run as soon as they can, however far away they are.

use std::collections::VecDeque;

use crate::graph::lists::Lists;
use crate::graph::live_bytes::{Model, Run};
use crate::placement::Step;

use super::Hazards;

/// Returns the given order with each node moved forward to where it frees more bytes than it allocates and everything
/// that must run before it has run: an optimizer's step to right after the last use of its weight and its gradient.
pub fn eager(model: &Model, hazards: &Hazards) -> Vec<Step> {
    let count = model.steps();
    let mut state = Eager::new(model, hazards);
    for step in 0..count {
        state.run(step);
        while let Some(next) = state.open.pop_front() {
            let is_ready = !state.done[next as usize] && state.pending[next as usize] == 0;
            // The last node is the result of the graph.
            if is_ready && next + 1 < count && state.run.growth(next) < 0 {
                state.run(next);
            }
        }
    }
    state.order
}

struct Eager<'a> {
    model: &'a Model,
    hazards: &'a Hazards,
    run: Run<'a>,
    /// By step: how many that must run before it have not.
    pending: Vec<usize>,
    done: Vec<bool>,
    /// By value: the steps that use it.
    users: Lists<Step>,
    /// Steps that may have become ready, or may free bytes now.
    open: VecDeque<Step>,
    order: Vec<Step>,
}

impl<'a> Eager<'a> {
    fn new(model: &'a Model, hazards: &'a Hazards) -> Self {
        let steps = 0..model.steps();
        Self {
            model,
            hazards,
            run: Run::new(model),
            pending: steps.clone().map(|step| hazards.before(step).len()).collect(),
            done: vec![false; steps.len()],
            users: model.users(steps.clone()),
            open: VecDeque::new(),
            order: Vec::with_capacity(steps.len()),
        }
    }

    fn run(&mut self, step: Step) {
        if std::mem::replace(&mut self.done[step as usize], true) {
            return;
        }
        self.run.forward(step);
        self.order.push(step);
        for &later in self.hazards.after(step) {
            self.pending[later as usize] -= 1;
            if self.pending[later as usize] == 0 {
                self.open.push_back(later);
            }
        }
        // Tensors that it was one of the last to use may now be freed by a single node.
        for &(value, _) in self.model.uses(step) {
            if self.run.may_have_one_user(value) {
                let waiting = self.users.of(value).iter().filter(|&&user| !self.done[user as usize]);
                self.open.extend(waiting);
            }
        }
    }
}
