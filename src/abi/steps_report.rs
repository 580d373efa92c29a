//! `lastuse_steps_report` and its like: the memory of a graph that is computed step by step.

use std::ffi::c_int;

use crate::placement::Bytes;

use super::abort::abort_on_panic;
use super::handle::to_look_at;
use super::last_error::set_last_error;
use super::steps::{lastuse_steps, required_steps};
use super::struct_size::{required_struct, sized_struct};

/// The memory of a graph that is computed step by step: lastuse_steps_report.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_steps_memory {
    /// sizeof(struct lastuse_steps_memory).
    pub struct_size: usize,
    /// The most bytes held at a time: kept_size, and compute_size and crossing_size of one step.
    pub peak_size: usize,
    /// Bytes of the inputs and outputs, which have memory until lastuse_steps_free.
    pub kept_size: usize,
    /// Bytes that the graph takes as a whole, by ggml_gallocr_reserve; 0 with a scheduler, where that is not known.
    pub whole_size: usize,
    /// The number of steps.
    pub n_steps: c_int,
}

sized_struct!(lastuse_steps_memory);

/// One step: lastuse_steps_step_report.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lastuse_step_memory {
    /// sizeof(struct lastuse_step_memory).
    pub struct_size: usize,
    /// Bytes of the compute buffer; with a scheduler, of all its compute buffers, which it keeps from step to step.
    pub compute_size: usize,
    /// Bytes of the tensors that cross a cut before or after the step, and have memory outside of its compute buffer.
    pub crossing_size: usize,
    /// The position of the first node, as for ggml_graph_node.
    pub first_node: c_int,
    /// The number of nodes.
    pub n_nodes: c_int,
}

sized_struct!(lastuse_step_memory);

/// Fills in the memory that all steps take together: the bytes that buffer types are asked for, known before the first
/// run. Writes nothing in a callback that is called while a step is computed.
///
/// # Safety
/// `steps` comes from lastuse_steps_new; `report` points to struct_size bytes; no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_report(steps: *const lastuse_steps, report: *mut lastuse_steps_memory) {
    const NAME: &str = "lastuse_steps_report";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let steps = unsafe { required_steps(NAME, steps) };
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let report = unsafe { required_struct(NAME, "report", report) };
        let Some(steps) = to_look_at(NAME, "steps", steps) else { return };
        report.write(&lastuse_steps_memory {
            struct_size: 0,
            peak_size: size(steps.peak()),
            kept_size: size(steps.kept_size()),
            whole_size: size(steps.whole_size().unwrap_or(0)),
            n_steps: number(steps.count()),
        });
    });
}

/// Fills in the nodes of one step, counted from 0, and the memory that it takes. Returns false if there is no such
/// step, and in a callback that is called while a step is computed.
///
/// # Safety
/// `steps` comes from lastuse_steps_new; `report` points to struct_size bytes; no other thread uses them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_step_report(
    steps: *const lastuse_steps,
    step: c_int,
    report: *mut lastuse_step_memory,
) -> bool {
    const NAME: &str = "lastuse_steps_step_report";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let steps = unsafe { required_steps(NAME, steps) };
        // SAFETY: NULL or of its stated size, as the caller guarantees.
        let report = unsafe { required_struct(NAME, "report", report) };
        let Some(steps) = to_look_at(NAME, "steps", steps) else { return false };
        let Some(found) = usize::try_from(step).ok().and_then(|step| steps.report(step)) else {
            set_last_error(NAME, &format_args!("there is no step {step}; there are {}", steps.count()));
            return false;
        };
        report.write(&lastuse_step_memory {
            struct_size: 0,
            compute_size: size(found.compute),
            crossing_size: size(found.crossing),
            first_node: number(found.first_node),
            n_nodes: number(found.nodes),
        });
        true
    })
}

/// Returns the number of steps; 0 in a callback that is called while a step is computed.
///
/// # Safety
/// `steps` comes from lastuse_steps_new, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lastuse_steps_step_count(steps: *const lastuse_steps) -> c_int {
    const NAME: &str = "lastuse_steps_step_count";
    abort_on_panic(|| {
        // SAFETY: NULL, or live and of this thread, as the caller guarantees.
        let steps = unsafe { required_steps(NAME, steps) };
        to_look_at(NAME, "steps", steps).map_or(0, |steps| number(steps.count()))
    })
}

fn size(bytes: Bytes) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn number(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}
