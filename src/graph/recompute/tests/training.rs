//! Random training graphs: a forward pass, a loss, and a backward pass that reads the results of the forward pass.

use crate::graph::tests::sketch::{BUFFER, List, Sketch};
use crate::graph::{BufferSpec, Flags, InPlace, Op, Slots, TensorId};
use crate::placement::Bytes;
use crate::testing::Random;

use super::Case;

const PARAMETER: Flags = Flags(4);

/// A training graph of up to some eighty nodes, with everything that such graphs may have in them.
pub fn random_training(random: &mut Random) -> Case {
    let mut training = Training::new(random);
    training.forward();
    training.backward();
    training.finish()
}

struct Training<'r> {
    random: &'r mut Random,
    sketch: Sketch,
    /// External tensors that others are copied to, with their memory's first name.
    weights: Vec<TensorId>,
    same_memory: Vec<(TensorId, TensorId)>,
    /// The tensors of the forward pass: leafs, results and views.
    values: Vec<TensorId>,
    gradients: Vec<TensorId>,
    /// Whether there are nodes that fix the order: then little can be computed again.
    has_barriers: bool,
    has_writers: bool,
}

impl<'r> Training<'r> {
    fn new(random: &'r mut Random) -> Self {
        let small = BufferSpec { alignment: 32, ..BUFFER };
        let sketch = if random.chance(75) { Sketch::new() } else { Sketch::with_buffers(&[BUFFER, small]) };
        let (has_barriers, has_writers) = (random.chance(15), random.chance(40));
        let (weights, same_memory, values, gradients) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut training = Self { random, sketch, weights, same_memory, values, gradients, has_barriers, has_writers };
        for _ in 0..2 + training.random.below(4) {
            training.add_leaf();
        }
        training
    }

    fn size(&mut self) -> Bytes {
        [16, 64, 64, 64, 208, 1024][self.random.below(6) as usize]
    }

    fn pick(&mut self, from: &[TensorId]) -> TensorId {
        from[self.random.below(u32::try_from(from.len()).expect("few tensors")) as usize]
    }

    /// A value of the forward pass, usually a recent one.
    fn value(&mut self) -> TensorId {
        let recent = if self.random.chance(70) { self.values.len().saturating_sub(3) } else { 0 };
        let from = self.values[recent..].to_vec();
        self.pick(&from)
    }

    fn add_leaf(&mut self) {
        let size = self.size();
        let leaf = self.sketch.leaf(size);
        self.values.push(leaf);
        match self.random.below(4) {
            0 => self.sketch.flag(leaf, Flags::INPUT),
            1 => {}
            _ => {
                self.sketch.draft(leaf).tensor.external = true;
                self.sketch.flag(leaf, PARAMETER);
                if self.random.chance(20) && !self.weights.is_empty() {
                    let weights = self.weights.clone();
                    let other = self.pick(&weights);
                    let other = self.same_memory.iter().find(|(id, _)| *id == other).map_or(other, |(_, first)| *first);
                    self.same_memory.push((leaf, other));
                }
                self.weights.push(leaf);
            }
        }
    }

    fn forward(&mut self) {
        for _ in 0..4 + self.random.below(30) {
            let added = match self.random.below(24) {
                0..5 => self.add_view(),
                5 => self.add_concat(),
                6 if self.has_writers => self.add_writer(),
                7 if self.has_barriers => self.add_barrier(),
                8 if self.random.chance(20) => self.add_unlisted_view(),
                9 if self.random.chance(20) => self.add_loss(),
                _ => self.add_node(),
            };
            self.values.push(added);
        }
        self.add_loss();
    }

    fn add_node(&mut self) -> TensorId {
        let sources: Vec<TensorId> = (0..1 + self.random.below(2)).map(|_| self.value()).collect();
        let size = self.size();
        let node = self.sketch.node(size, &sources);
        self.vary(node);
        if self.random.chance(5) {
            self.sketch.draft(node).sources.push(node);
        }
        node
    }

    /// Chooses the properties of a node by its operation.
    fn vary(&mut self, node: TensorId) {
        let slots = [Slots::ALL, Slots::FIRST][self.random.below(2) as usize];
        let in_place = match self.random.below(10) {
            0..4 => InPlace::Listed(slots),
            4 | 5 => InPlace::RowByRow(slots),
            6 => InPlace::Copy,
            _ => InPlace::Never,
        };
        let buffers = u32::try_from(self.sketch.buffers.len()).expect("few buffers");
        let buffer = self.random.below(buffers);
        let draft = self.sketch.draft(node);
        (draft.tensor.in_place, draft.buffer) = (in_place, buffer);
        draft.tensor.external = self.random.chance(2);
        for (flag, percent) in [(Flags::OUTPUT, 4), (Flags::INPUT, 1), (PARAMETER, 1)] {
            if self.random.chance(percent) {
                self.sketch.flag(node, flag);
            }
        }
    }

    fn add_view(&mut self) -> TensorId {
        let viewed = self.value();
        let root = self.sketch.graph().root(viewed);
        let all = self.sketch.draft(root).nbytes;
        let (offset, size) = if self.random.chance(60) { (0, all) } else { (all / 2, all / 2) };
        let view = self.sketch.view(root, offset, size);
        self.sketch.draft(view).sources = vec![viewed];
        self.sketch.draft(view).tensor.op = Op::View;
        if self.random.chance(3) {
            self.sketch.flag(view, Flags::OUTPUT);
        }
        view
    }

    fn add_unlisted_view(&mut self) -> TensorId {
        let view = self.add_view();
        self.sketch.draft(view).list = List::None;
        view
    }

    fn add_concat(&mut self) -> TensorId {
        let operands = [self.value(), self.value()];
        let size = operands.map(|id| self.sketch.draft(id).nbytes).iter().sum();
        self.sketch.concat(operands, size)
    }

    /// Adds a node that writes memory which is not its own.
    fn add_writer(&mut self) -> TensorId {
        let (source, written) = (self.value(), self.value());
        if self.random.chance(50) {
            let root = self.sketch.graph().root(written);
            let size = self.sketch.draft(root).nbytes;
            return self.sketch.copy(source, root, size);
        }
        let node = self.sketch.node(64, &[source, written]);
        self.sketch.draft(node).tensor.op = [Op::Unknown, Op::OptStepSgd][self.random.below(2) as usize];
        node
    }

    fn add_barrier(&mut self) -> TensorId {
        let value = self.value();
        if self.random.chance(50) {
            let node = self.sketch.node(64, &[value]);
            self.sketch.draft(node).tensor.op = Op::Custom;
            return node;
        }
        self.sketch.marker(&[value]);
        value
    }

    fn add_loss(&mut self) -> TensorId {
        let value = self.value();
        let loss = self.sketch.node(16, &[value]);
        self.sketch.flag(loss, Flags::LOSS);
        self.gradients.push(loss);
        loss
    }

    /// Adds gradients in the reverse order of the values they read, and steps of an optimizer.
    fn backward(&mut self) {
        let values = self.values.clone();
        let (mut late_steps, mut late) = (Vec::new(), Vec::new());
        for &value in values.iter().rev() {
            let read = self.late_view(value);
            if self.random.chance(70) {
                self.add_gradient(read);
            }
            if self.random.chance(25) && !self.weights.is_empty() {
                late_steps.push(self.add_gradient(read));
            }
            match self.random.below(40) {
                0..4 => late.push(read),
                4 if self.has_writers => {
                    let writer = self.add_writer();
                    self.gradients.push(writer);
                }
                5 if self.has_barriers && self.random.chance(30) => {
                    self.add_barrier();
                }
                _ => {}
            }
        }
        let settings =
            if self.random.chance(50) { self.value() } else { self.weights.first().map_or(0, |first| *first) };
        late_steps.into_iter().for_each(|gradient| self.add_step(gradient, settings));
        late.into_iter().for_each(|read| self.add_statistics(read));
        if self.random.chance(70) {
            let gradients = self.gradients.clone();
            let gradient = self.pick(&gradients);
            self.add_gradient(gradient);
        }
        if self.sketch.drafts.last().is_some_and(|draft| draft.tensor.flags.has(Flags::LOSS)) {
            self.add_gradient(values[0]);
        }
    }

    /// Returns the value, or a new view of it.
    fn late_view(&mut self, value: TensorId) -> TensorId {
        if !self.random.chance(25) {
            return value;
        }
        let root = self.sketch.graph().root(value);
        let size = self.sketch.draft(root).nbytes;
        let view = self.sketch.view(root, 0, size);
        self.sketch.draft(view).sources = vec![value];
        view
    }

    fn add_gradient(&mut self, read: TensorId) -> TensorId {
        let gradient = *self.gradients.last().expect("there is a loss");
        let size = self.size();
        let node = self.sketch.node(size, &[gradient, read]);
        if self.random.chance(30) {
            let weight = self.value();
            self.sketch.draft(node).sources.push(weight);
        }
        self.vary(node);
        self.gradients.push(node);
        node
    }

    /// Adds an optimizer's step: it writes a weight and its moments (here one), and shares settings with others.
    fn add_step(&mut self, gradient: TensorId, settings: TensorId) {
        let weights = self.weights.clone();
        let (weight, moment) = (self.pick(&weights), self.pick(&weights));
        let size = self.sketch.draft(weight).nbytes;
        let step = self.sketch.view(weight, 0, size);
        let draft = self.sketch.draft(step);
        draft.sources = vec![weight, gradient, moment, moment, settings];
        draft.tensor.set_op(Op::OptStepAdamw);
    }

    /// Copies a value of the forward pass to memory of the program, or to that of another value.
    fn add_statistics(&mut self, value: TensorId) {
        let targets = if self.random.chance(70) { self.weights.clone() } else { self.values.clone() };
        if targets.is_empty() {
            return;
        }
        let target = self.pick(&targets);
        let root = self.sketch.graph().root(target);
        let size = self.sketch.draft(root).nbytes;
        let copy = self.sketch.copy(value, root, size);
        if self.random.chance(30) {
            self.sketch.draft(copy).sources = vec![value];
        }
    }

    fn finish(self) -> Case {
        let Self { random, sketch, same_memory, .. } = self;
        let mut case = Case::new(sketch);
        same_memory.into_iter().for_each(|(id, first)| case.same_memory[id as usize] = first);
        let count = u32::try_from(case.sketch.drafts.len()).expect("few tensors");
        if random.chance(30) {
            for id in 0..count {
                case.kept[id as usize] = random.chance(10);
                let until = random.chance(50).then(|| random.below(count));
                if random.chance(5) && case.sketch.draft(id).list == List::Nodes {
                    case.sketch.retain(id, until);
                }
            }
        }
        case
    }
}
