//! Graphs that are computed in steps, between which the program is called.
//!
//! A graph has one plan, and memory from any allocator; an allocator of lastuse retains for it what
//! [`crate::graph::steps::retained`] lists. A backend computes one step after the other. A scheduler computes the whole
//! graph, and calls back after the last node of each step.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

use crate::graph::steps::{StepBytes, bytes_of, choose_steps, retained, steps_between};
use crate::graph::{Flags, Retained};
use crate::placement::{Bytes, Step};

use crate::ggml::allocator::Allocator;
use crate::ggml::bindings::{ggml_backend, ggml_backend_sched, ggml_cgraph, ggml_tensor};
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::read::{Requested, read};
use crate::ggml::{STATUS_ABORTED, STATUS_FAILED, STATUS_SUCCESS};

/// What computes the nodes.
#[derive(Clone, Copy, Debug)]
pub enum Runner {
    /// A backend.
    Backend(NonNull<ggml_backend>),
    /// A scheduler with its backends.
    Scheduler(NonNull<ggml_backend_sched>),
}

/// A function of the program, called after each step with the number of the step; returns false to stop.
pub type AfterStep = unsafe extern "C" fn(step: usize, user_data: *mut c_void) -> bool;

/// The status of ggml that a call returns, and why.
type NotComputed = (i32, String);

/// A live graph that is computed in steps.
#[derive(Debug)]
pub struct Steps<'g> {
    runtime: &'static Runtime,
    graph: NonNull<ggml_cgraph>,
    runner: Runner,
    after_step: Option<(AfterStep, *mut c_void)>,
    /// The last nodes of all steps but the last one.
    cuts: Vec<TensorRef<'g>>,
    /// The nodes of each step, and its memory as planned.
    pub planned: Vec<(Range<Step>, StepBytes)>,
    /// The bytes that the plan of the whole graph takes.
    pub total: Bytes,
    /// What an allocator retains for it.
    retained: Vec<TensorRef<'g>>,
    is_computed: Cell<bool>,
}

impl<'g> Steps<'g> {
    /// Cuts `graph` after each of `cuts`, or, if there are none, into `count` steps, and has `allocator` retain what may be
    /// read between them; for a scheduler it is flagged as output. Without an allocator, the graph is planned for the memory
    /// of the first backend.
    ///
    /// # Errors
    /// Why it cannot be cut; nothing is retained.
    ///
    /// # Safety
    /// `graph`, its tensors, and the backend or scheduler live for `'g`, and no other thread uses them. `after_step` may
    /// be called with its argument.
    pub unsafe fn new(
        runtime: &'static Runtime,
        (graph, runner): (NonNull<ggml_cgraph>, Runner),
        (cuts, count): (&[TensorRef<'g>], usize),
        after_step: Option<(AfterStep, *mut c_void)>,
        allocator: Option<&mut Allocator>,
    ) -> Result<Self, String> {
        // SAFETY: a live graph that no other thread uses for `'g`: see "# Safety".
        let live: GraphRef<'g> = unsafe { GraphRef::new(graph) };
        let mut measuring = None;
        let is_scheduled = matches!(runner, Runner::Scheduler(_));
        let is_retaining = is_scheduled || allocator.is_some();
        let allocator = match allocator {
            Some(allocator) => allocator,
            None => measuring.insert(Allocator::for_measuring(runtime, &[first_type(runtime, runner)?])),
        };
        let mut snapshot = allocator.snapshot(live, None, None);
        let steps = if cuts.is_empty() {
            let plan = snapshot.plan_as_recorded().map_err(|why| why.to_string())?;
            choose_steps(live.nodes.len(), count, &plan.problems)?
        } else {
            steps_after(live.nodes, cuts)?
        };
        let before = snapshot.graph.retention().clone();
        if is_retaining {
            let list = retained(&snapshot.graph, &steps).list().to_vec().into_iter();
            let until = |it: Retained| it.until.filter(|_| !is_scheduled);
            snapshot.graph.set_retention(list.map(|it| Retained { until: until(it), ..it }).collect());
        }
        let plan = snapshot.plan_as_recorded().map_err(|why| why.to_string())?;
        let tensors = read(runtime, &[], live, &Requested::default()).tensors;
        let more = snapshot.graph.retention().list().iter().filter(|more| before.of(more.tensor).is_none());
        Ok(Self {
            runtime,
            graph,
            runner,
            after_step,
            cuts: steps[1..].iter().map(|step| live.nodes[step.start as usize - 1]).collect(),
            total: plan.bytes(),
            planned: steps.iter().cloned().zip(bytes_of(&steps, &plan.problems)).collect(),
            retained: if is_scheduled {
                more.map(|more| tensors[more.tensor as usize]).filter(|&tensor| flag_output(tensor)).collect()
            } else {
                more.filter_map(|more| retain(allocator, &tensors, *more)).collect()
            },
            is_computed: Cell::new(false),
        })
    }

    /// Has the allocator that [`Steps::new`] was called with retain nothing for it any more.
    pub fn release(&mut self, mut allocator: Option<&mut Allocator>) {
        for tensor in self.retained.drain(..) {
            match &mut allocator {
                // Does nothing where the program has released it.
                Some(allocator) => _ = allocator.release(tensor),
                None => set_flags(tensor, tensor.flags() & !Flags::OUTPUT.0),
            }
        }
    }

    /// Computes the steps one after the other.
    ///
    /// # Errors
    /// [`NotComputed`]; the steps before it were computed. The graph can be computed again.
    pub fn compute(&self) -> Result<(), NotComputed> {
        if self.is_computed.replace(true) {
            let why = "steps is in use by the call that has called this function's caller";
            return Err((STATUS_FAILED, why.to_owned()));
        }
        let done = self.run();
        self.is_computed.set(false);
        done
    }

    fn run(&self) -> Result<(), NotComputed> {
        // SAFETY: live, and used by this thread only: see `new`.
        let nodes = unsafe { GraphRef::new(self.graph) }.nodes;
        // An allocator may have changed the graph since it was cut.
        let steps = steps_after(nodes, &self.cuts).map_err(|why| (STATUS_FAILED, why))?;
        if !nodes.iter().any(|node| node.has_memory()) {
            return Err((STATUS_FAILED, "the graph has no memory; allocate it before it is computed".to_owned()));
        }
        match self.runner {
            Runner::Backend(backend) => steps.into_iter().enumerate().try_for_each(|(step, nodes)| {
                self.compute_nodes(backend, nodes)?;
                self.call(step)
            }),
            Runner::Scheduler(scheduler) => self.compute_scheduled(scheduler),
        }
    }

    /// Calls the program after a step.
    fn call(&self, step: usize) -> Result<(), NotComputed> {
        let Some((function, user_data)) = self.after_step else { return Ok(()) };
        // SAFETY: a function of the program, which may be called with this argument: see `new`.
        let goes_on = unsafe { function(step, user_data) };
        if goes_on { Ok(()) } else { Err((STATUS_ABORTED, format!("the callback returned false after step {step}"))) }
    }

    fn compute_nodes(&self, backend: NonNull<ggml_backend>, nodes: Range<Step>) -> Result<(), NotComputed> {
        let functions = &self.runtime.functions;
        let found = functions.ggml_backend_graph_compute.zip(functions.ggml_graph_view);
        let (compute, view) = found.ok_or_else(unsupported)?;
        // SAFETY: a live graph with that many nodes; the struct returned fits, whatever its size.
        let mut part = unsafe { view(self.graph.as_ptr(), nodes.start.cast_signed(), nodes.end.cast_signed()) };
        // SAFETY: a live backend, and a part of a live graph.
        checked(unsafe { compute(backend.as_ptr(), (&raw mut part).cast()) })
    }

    fn compute_scheduled(&self, scheduler: NonNull<ggml_backend_sched>) -> Result<(), NotComputed> {
        let functions = &self.runtime.functions;
        let found = functions.ggml_backend_sched_graph_compute.zip(functions.ggml_backend_sched_set_eval_callback);
        let (compute, set_callback) = found.ok_or_else(unsupported)?;
        let watch = Watch { steps: self, step: Cell::new(0), stopped: Cell::new(None) };
        // SAFETY: a live scheduler; `watch` lives until the callback is taken back.
        unsafe { set_callback(scheduler.as_ptr(), Some(at_node), (&raw const watch).cast_mut().cast()) };
        // SAFETY: a live scheduler, and a live graph that it has allocated.
        let status = unsafe { compute(scheduler.as_ptr(), self.graph.as_ptr()) };
        // SAFETY: a live scheduler.
        unsafe { set_callback(scheduler.as_ptr(), None, null_mut()) };
        checked(status)?;
        watch.stopped.take().map_or_else(|| self.call(self.cuts.len()), Err)
    }
}

/// What the callback of a scheduler knows.
struct Watch<'a, 'g> {
    steps: &'a Steps<'g>,
    /// The step that is computed.
    step: Cell<usize>,
    stopped: Cell<Option<NotComputed>>,
}

/// The callback of a scheduler. With `ask`, returns `true` for the last node of a step; after such a node, calls the program.
/// A scheduler that is stopped goes on with the next split, of which one node is computed then.
unsafe extern "C" fn at_node(node: *mut ggml_tensor, ask: bool, user_data: *mut c_void) -> bool {
    // SAFETY: a `Watch`, which lives as long as the scheduler has this callback: see `compute_scheduled`.
    let watch = unsafe { &*user_data.cast::<Watch<'_, '_>>() };
    let cut = watch.steps.cuts.get(watch.step.get());
    // Of no step any more once it is stopped.
    let is_stopped = watch.step.get() > watch.steps.cuts.len();
    if ask {
        return is_stopped || cut.is_some_and(|cut| cut.as_ptr() == node);
    }
    if is_stopped {
        return false;
    }
    let stopped = watch.steps.call(watch.step.get()).err();
    watch.step.set(if stopped.is_some() { usize::MAX } else { watch.step.get() + 1 });
    watch.stopped.set(stopped);
    watch.step.get() != usize::MAX
}

/// Flags a tensor as an output, for allocators of schedulers. Returns `false` if it is one.
fn flag_output(tensor: TensorRef<'_>) -> bool {
    let flags = tensor.flags();
    set_flags(tensor, flags | Flags::OUTPUT.0);
    !Flags(flags).has(Flags::OUTPUT)
}

fn set_flags(tensor: TensorRef<'_>, flags: u32) {
    // SAFETY: no reference into the tensor is held here, nor by callers, which pass it on from a list.
    unsafe { TensorMut::new(tensor) }.set_flags(flags);
}

/// Has `allocator` retain a tensor of a graph, if a node computes it. `tensors` are those of the graph, by id.
fn retain<'g>(allocator: &mut Allocator, tensors: &[TensorRef<'g>], more: Retained) -> Option<TensorRef<'g>> {
    let tensor = tensors[more.tensor as usize];
    let until = more.until.map(|node| tensors[node as usize]);
    // To the end where no operation computes the last node of the step.
    allocator.retain(tensor, until).or_else(|_| allocator.retain(tensor, None)).ok().map(|()| tensor)
}

/// Returns the steps of a graph with these nodes that is cut after each of `cuts`.
fn steps_after<'g>(nodes: &[TensorRef<'g>], cuts: &[TensorRef<'g>]) -> Result<Vec<Range<Step>>, String> {
    let positions = Ids::from_tensors(nodes.to_vec());
    let position = |(cut, &node): (usize, &TensorRef<'g>)| {
        let not_in_graph = || format!("cut {cut} is at \"{}\", which is not a node of the graph", node.name());
        positions.known().id(node).ok_or_else(not_in_graph)
    };
    let cuts: Vec<Step> = cuts.iter().enumerate().map(position).collect::<Result<_, _>>()?;
    steps_between(nodes.len(), &cuts)
}

/// Returns the type of the memory in which the first backend computes.
fn first_type(runtime: &'static Runtime, runner: Runner) -> Result<BufferType, String> {
    let functions = &runtime.functions;
    let found = match runner {
        // SAFETY: a live backend, as the caller of `Steps::new` guarantees.
        Runner::Backend(backend) => unsafe { (functions.ggml_backend_get_default_buffer_type)(backend.as_ptr()) },
        Runner::Scheduler(scheduler) => {
            let found = functions.ggml_backend_sched_get_backend.zip(functions.ggml_backend_sched_get_buffer_type);
            let (first, type_of) = found.ok_or_else(|| unsupported().1)?;
            // SAFETY: a live scheduler, as the caller of `Steps::new` guarantees, which has a first backend.
            let first = unsafe { first(scheduler.as_ptr(), 0) };
            // SAFETY: a live scheduler and one of its backends.
            unsafe { type_of(scheduler.as_ptr(), first) }
        }
    };
    // SAFETY: a buffer type of this ggml, which outlives what is measured in it.
    NonNull::new(found).map(|found| unsafe { BufferType::new(runtime, found) }).ok_or_else(|| unsupported().1)
}

fn unsupported() -> NotComputed {
    (STATUS_FAILED, "this ggml cannot compute a part of a graph".to_owned())
}

fn checked(status: i32) -> Result<(), NotComputed> {
    if status == STATUS_SUCCESS { Ok(()) } else { Err((status, format!("the backend returned status {status}"))) }
}
