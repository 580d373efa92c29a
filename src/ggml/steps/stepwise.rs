//! A live graph that is computed part by part.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use crate::placement::Bytes;

use crate::ggml::bindings::{ggml_backend, ggml_backend_sched, ggml_cgraph};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};

use super::backend::BackendRunner;
use super::error::StepsError;
use super::layout::{Cutting, OwnerTensors, StepwiseLayout, layout};
use super::part::LivePart;
use super::scheduler::SchedulerRunner;
use super::stored::StoredTensors;

/// The backend or scheduler that computes the nodes.
#[derive(Clone, Copy, Debug)]
pub enum Runner {
    /// A backend, with memory of this type.
    Backend(NonNull<ggml_backend>, BufferType),
    /// A scheduler with its backends.
    Scheduler(NonNull<ggml_backend_sched>),
}

#[derive(Debug)]
enum LiveRunner<'g> {
    Backend(BackendRunner),
    Scheduler(SchedulerRunner<'g>),
}

/// A function of the program, called after each part.
#[derive(Clone, Copy, Debug)]
pub struct AfterStep {
    /// Returns false to stop.
    pub function: unsafe extern "C" fn(step: c_int, user_data: *mut c_void) -> bool,
    /// Its argument.
    pub user_data: *mut c_void,
}

impl AfterStep {
    /// Calls the program.
    ///
    /// # Errors
    /// [`StepsError::Stopped`].
    fn call(self, step: usize) -> Result<(), StepsError> {
        let number = c_int::try_from(step).unwrap_or(c_int::MAX);
        // SAFETY: a function of the program, which it may be called with.
        let goes_on = unsafe { (self.function)(number, self.user_data) };
        if goes_on { Ok(()) } else { Err(StepsError::Stopped { step }) }
    }
}

/// The memory of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// The position of its first node.
    pub first_node: usize,
    /// The number of its nodes.
    pub nodes: usize,
    /// Bytes of its compute buffers.
    pub compute: Bytes,
    /// Bytes of what crosses its cuts, or passes it.
    pub crossing: Bytes,
}

/// A live graph that is computed part by part. Only its kept tensors have memory, except while it is computed.
#[derive(Debug)]
pub struct StepwiseGraph<'g> {
    tensors: Vec<TensorRef<'g>>,
    parts: Vec<LivePart<'g>>,
    kept: Vec<StoredTensors<'g>>,
    crossing: Vec<StoredTensors<'g>>,
    runner: LiveRunner<'g>,
    after_step: Option<AfterStep>,
    /// True while it is computed, also between two parts.
    is_computed: bool,
    compute: Vec<Bytes>,
    whole: Option<Bytes>,
}

impl<'g> StepwiseGraph<'g> {
    /// Cuts `graph`, plans its parts, and allocates the kept tensors: inputs and outputs.
    ///
    /// # Errors
    /// [`StepsError`]; the graph is not changed.
    ///
    /// # Safety
    /// `graph`, its tensors, and the backend or scheduler live for `'g`, and no other thread uses them.
    pub unsafe fn new(
        runtime: &'static Runtime,
        graph: NonNull<ggml_cgraph>,
        runner: Runner,
        cutting: &Cutting<'g>,
        after_step: Option<AfterStep>,
    ) -> Result<Self, StepsError> {
        // SAFETY: a live graph that no other thread uses for `'g`, as the caller guarantees.
        let live: GraphRef<'g> = unsafe { GraphRef::new(graph) };
        let (runner, buffer_type) = match runner {
            Runner::Backend(backend, buffer_type) => {
                (LiveRunner::Backend(BackendRunner::new(backend, buffer_type)), buffer_type)
            }
            Runner::Scheduler(scheduler) => {
                let runner = SchedulerRunner::new(runtime, scheduler, live.nodes)?;
                let first = runner.first_type()?;
                (LiveRunner::Scheduler(runner), first)
            }
        };
        let StepwiseLayout { plan, whole, tensors, kept, crossing, inside } =
            layout(runtime, live, buffer_type, cutting)?;
        let whole = matches!(runner, LiveRunner::Backend(_)).then_some(whole);
        let parts = plan.parts.into_iter().zip(inside).map(|(plan, inside)| {
            // SAFETY: the graph lives for `'g`, and no other thread uses it, as the caller guarantees.
            unsafe { LivePart::new(runtime, graph, live.nodes, plan, inside) }
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let mut stepwise = Self {
            compute: parts.iter().map(|part| part.plan.compute()).collect(),
            tensors,
            parts,
            kept: Vec::new(),
            crossing: Vec::new(),
            runner,
            after_step,
            is_computed: false,
            whole,
        };
        stepwise.prepare(buffer_type, kept, crossing)?;
        Ok(stepwise)
    }

    fn prepare(
        &mut self,
        buffer_type: BufferType,
        kept: Vec<OwnerTensors<'g>>,
        crossing: Vec<OwnerTensors<'g>>,
    ) -> Result<(), StepsError> {
        if let LiveRunner::Scheduler(_) = self.runner {
            let done = self.prepare_scheduled(kept, crossing);
            self.release();
            return done;
        }
        let all = 0..self.parts.len();
        self.kept.push(StoredTensors::new(buffer_type, all, kept));
        self.crossing = grouped(crossing.into_iter().map(|owner| (buffer_type, owner)));
        self.kept.iter_mut().try_for_each(StoredTensors::hold)
    }

    /// Runs all parts without computing: the scheduler decides which backend computes what crosses or is kept, and
    /// allocates its compute buffers.
    fn prepare_scheduled(
        &mut self,
        kept: Vec<OwnerTensors<'g>>,
        crossing: Vec<OwnerTensors<'g>>,
    ) -> Result<(), StepsError> {
        let (inputs, outputs): (Vec<_>, Vec<_>) = kept.into_iter().partition(|owner| owner.is_input);
        let input_type = self.scheduler()?.last_type()?;
        self.keep(inputs.into_iter().map(|owner| (input_type, owner)).collect())?;
        let (mut outputs, mut crossing) = (outputs, crossing);
        for step in 0..self.parts.len() {
            let begins = |owner: &mut OwnerTensors<'g>| owner.parts.start == step;
            let outputs: Vec<_> = outputs.extract_if(.., begins).collect();
            let begins = |owner: &mut OwnerTensors<'g>| owner.parts.start == step;
            let crossing: Vec<_> = crossing.extract_if(.., begins).collect();
            let kept = self.with_types(step, outputs)?;
            let crossing = self.with_types(step, crossing)?;
            self.keep(kept)?;
            self.crossing.extend(grouped(crossing.into_iter()));
            self.hold_crossing(step)?;
            let LiveRunner::Scheduler(scheduler) = &self.runner else { return Err(StepsError::Unsupported) };
            let allocated = scheduler.allocate(step, &mut self.parts[step]);
            scheduler.end(&self.parts[step]);
            self.compute[step] = allocated?;
            self.release_crossing(step);
        }
        Ok(())
    }

    fn scheduler(&self) -> Result<&SchedulerRunner<'g>, StepsError> {
        match &self.runner {
            LiveRunner::Scheduler(scheduler) => Ok(scheduler),
            LiveRunner::Backend(_) => Err(StepsError::Unsupported),
        }
    }

    /// Adds the buffer types of the backends that compute `owners` in part `step`.
    fn with_types(
        &mut self,
        step: usize,
        owners: Vec<OwnerTensors<'g>>,
    ) -> Result<Vec<(BufferType, OwnerTensors<'g>)>, StepsError> {
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        let roots: Vec<TensorRef<'g>> = owners.iter().map(|owner| owner.root).collect();
        let LiveRunner::Scheduler(scheduler) = &self.runner else { return Err(StepsError::Unsupported) };
        let types = scheduler.types_of(&mut self.parts[step], &roots)?;
        Ok(types.into_iter().zip(owners).collect())
    }

    /// Allocates the kept tensors.
    fn keep(&mut self, owners: Vec<(BufferType, OwnerTensors<'g>)>) -> Result<(), StepsError> {
        let all = 0..self.parts.len();
        let owners = owners.into_iter().map(|(buffer_type, owner)| {
            let owner = OwnerTensors { parts: all.clone(), ..owner };
            (buffer_type, owner)
        });
        for mut stored in grouped(owners) {
            stored.hold()?;
            self.kept.push(stored);
        }
        Ok(())
    }

    fn hold_crossing(&mut self, step: usize) -> Result<(), StepsError> {
        let mut begin = self.crossing.iter_mut().filter(|stored| stored.parts.start == step);
        begin.try_for_each(StoredTensors::hold)
    }

    fn release_crossing(&mut self, step: usize) {
        let end = self.crossing.iter_mut().filter(|stored| stored.parts.end == step + 1);
        end.for_each(StoredTensors::release);
    }

    /// Frees what crosses.
    fn release(&mut self) {
        self.crossing.iter_mut().for_each(StoredTensors::release);
    }

    /// Computes the parts one after the other. Between them, where the program is called, nothing is borrowed.
    ///
    /// # Errors
    /// [`StepsError`]; the parts before it were computed. The graph can be computed again.
    pub fn compute(this: &RefCell<Self>) -> Result<(), StepsError> {
        let (count, after_step) = {
            let mut steps = this.try_borrow_mut().map_err(|_| StepsError::InUse)?;
            if std::mem::replace(&mut steps.is_computed, true) {
                return Err(StepsError::InUse);
            }
            (steps.count(), steps.after_step)
        };
        let done = (0..count).try_for_each(|step| Self::compute_part(this, step, after_step));
        let mut steps = this.borrow_mut();
        steps.release();
        steps.is_computed = false;
        done
    }

    fn compute_part(this: &RefCell<Self>, step: usize, after_step: Option<AfterStep>) -> Result<(), StepsError> {
        this.borrow_mut().hold_crossing(step)?;
        let done = this.borrow_mut().run_part(step);
        let done = done.and_then(|()| after_step.map_or(Ok(()), |after| after.call(step)));
        this.borrow_mut().end_part(step);
        done
    }

    fn run_part(&mut self, step: usize) -> Result<(), StepsError> {
        let part = &mut self.parts[step];
        match &mut self.runner {
            LiveRunner::Backend(runner) => runner.run(step, part, &self.tensors)?,
            LiveRunner::Scheduler(runner) => self.compute[step] = runner.run(step, part)?,
        }
        Ok(())
    }

    fn end_part(&mut self, step: usize) {
        let part = &self.parts[step];
        match &mut self.runner {
            LiveRunner::Backend(runner) => runner.end(part),
            LiveRunner::Scheduler(runner) => runner.end(part),
        }
        self.release_crossing(step);
    }

    /// Returns `true` while it is computed.
    pub fn is_computed(&self) -> bool {
        self.is_computed
    }

    /// Returns the number of tiles.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Returns the memory of a part; `None` if there are fewer.
    pub fn report(&self, step: usize) -> Option<StepReport> {
        let part = self.parts.get(step)?;
        let crossing = self.crossing.iter().filter(|stored| stored.parts.contains(&step));
        Some(StepReport {
            first_node: part.plan.nodes.start as usize,
            nodes: part.nodes.len(),
            compute: self.compute[step],
            crossing: crossing.map(StoredTensors::size).sum(),
        })
    }

    /// Returns the bytes of the kept tensors.
    pub fn kept_size(&self) -> Bytes {
        self.kept.iter().map(StoredTensors::size).sum()
    }

    /// Returns the most bytes that are held at the same time.
    pub fn peak(&self) -> Bytes {
        let reports = (0..self.count()).filter_map(|step| self.report(step));
        self.kept_size() + reports.map(|report| report.compute + report.crossing).max().unwrap_or(0)
    }

    /// Returns the bytes of a plan of the graph as a whole; `None` with a scheduler.
    pub fn whole_size(&self) -> Option<Bytes> {
        self.whole
    }
}

/// Puts owners that have memory in the same parts and of the same type together, in the order of those parts.
fn grouped<'g>(owners: impl Iterator<Item = (BufferType, OwnerTensors<'g>)>) -> Vec<StoredTensors<'g>> {
    let mut groups: BTreeMap<(usize, usize, usize), (BufferType, Vec<OwnerTensors<'g>>)> = BTreeMap::new();
    let mut types: Vec<BufferType> = Vec::new();
    for (buffer_type, owner) in owners {
        let known = types.iter().position(|&other| other == buffer_type);
        let index = known.unwrap_or_else(|| {
            types.push(buffer_type);
            types.len() - 1
        });
        let key = (owner.parts.start, owner.parts.end, index);
        groups.entry(key).or_insert_with(|| (buffer_type, Vec::new())).1.push(owner);
    }
    let stored = |((start, end, _), (buffer_type, owners))| StoredTensors::new(buffer_type, start..end, owners);
    groups.into_iter().map(stored).collect()
}
