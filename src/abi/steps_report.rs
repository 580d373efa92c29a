//! `lastuse_steps_report` and its like: the memory of a graph that is computed step by step.

use std::ffi::c_int;

use crate::placement::Bytes;

use super::abort::abort_on_panic;
use super::handle::to_look_at;
use super::last_error::set_last_error;
use super::steps::{lastuse_steps, required_steps};
use super::struct_size::{required_struct, sized_struct};

/// The memory of a graph that is computed step by step: lastuse_steps_report. The caller sets struct_size and zeroes
/// the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_steps_memory {
    /// sizeof(struct lastuse_steps_memory). Later versions may add fields at the end.
    pub struct_size: usize,
    /// The most bytes that are held at the same time: kept_size, and compute_size and crossing_size of the step for
    /// which they are most together.
    pub peak_size: usize,
    /// Bytes of the inputs and outputs, which have memory until lastuse_steps_free.
    pub kept_size: usize,
    /// Bytes that the graph takes as a whole, by ggml_gallocr_reserve; 0 with a scheduler, where that is not known.
    pub whole_size: usize,
    /// The number of steps.
    pub n_steps: c_int,
}

sized_struct!(lastuse_steps_memory);

/// One step: lastuse_steps_step_report. The caller sets struct_size and zeroes the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(non_camel_case_types, reason = "a type of C")]
pub struct lastuse_step_memory {
    /// sizeof(struct lastuse_step_memory). Later versions may add fields at the end.
    pub struct_size: usize,
    /// Bytes of the compute buffer. With a scheduler, bytes of all its compute buffers after it has allocated the step:
    /// it keeps them from step to step.
    pub compute_size: usize,
    /// Bytes of the tensors that have memory of their own during the step: those that cross a cut before or after it.
    pub crossing_size: usize,
    /// The position of the first node, as for ggml_graph_node.
    pub first_node: c_int,
    /// The number of nodes.
    pub n_nodes: c_int,
}

sized_struct!(lastuse_step_memory);

/// Returns the memory that all steps take together.
///
/// ```c
/// ggml_set_no_alloc(ctx, true);
/// struct ggml_tensor * x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1024);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_concat(ctx, ggml_sqr(ctx, x), x, 0)));
/// struct lastuse_steps_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.n_steps     = 2;
/// params.backend     = backend;
/// struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
/// struct lastuse_steps_memory report;
/// memset(&report, 0, sizeof(report));
/// report.struct_size = sizeof(report);
/// lastuse_steps_report(steps, &report);
/// GGML_ASSERT(report.n_steps == 2 && report.peak_size > report.kept_size);
/// printf("%zu bytes in steps, %zu at once\n", report.peak_size, report.whole_size);
/// lastuse_steps_free(steps);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// The numbers are the bytes that buffer types are asked for; they are known before the first run. Writes nothing, with the
/// reason in lastuse_last_error and in ggml's log, in a callback that is called while a step is computed. Aborts if an
/// argument is NULL or report->struct_size is not set.
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

/// Returns the nodes of one step and the memory that it takes. Steps count from 0. Returns true if report was written.
///
/// ```c
/// ggml_set_no_alloc(ctx, true);
/// struct ggml_tensor * x     = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1024);
/// struct ggml_tensor * y     = ggml_sqr(ctx, x);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_concat(ctx, y, x, 0)));
/// struct lastuse_steps_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.cuts        = &y;
/// params.n_cuts      = 1;
/// params.backend     = backend;
/// struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
/// struct lastuse_step_memory report;
/// memset(&report, 0, sizeof(report));
/// report.struct_size = sizeof(report);
/// for (int i = 0; lastuse_steps_step_report(steps, i, &report); i++) {
///     printf("step %d: %d nodes, %zu + %zu bytes\n", i, report.n_nodes, report.compute_size, report.crossing_size);
///     GGML_ASSERT(report.crossing_size == ggml_nbytes(y)); // y is computed in the first and used in the second
/// }
/// lastuse_steps_free(steps);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// Returns false, with the reason in lastuse_last_error, if there is no such step, and in a callback that is called while a
/// step is computed. Aborts if an argument is NULL or report->struct_size is not set.
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

/// Returns the number of steps: one more than cuts, or the requested number.
///
/// ```c
/// ggml_set_no_alloc(ctx, true);
/// struct ggml_cgraph * graph = ggml_new_graph(ctx);
/// ggml_build_forward_expand(graph, ggml_sum(ctx, ggml_sqr(ctx, ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 64))));
/// struct lastuse_steps_params params;
/// memset(&params, 0, sizeof(params));
/// params.struct_size = sizeof(params);
/// params.n_steps     = 2;
/// params.backend     = backend;
/// struct lastuse_steps * steps = lastuse_steps_new(graph, &params);
/// GGML_ASSERT(lastuse_steps_step_count(steps) == 2);
/// lastuse_steps_free(steps);
/// ggml_set_no_alloc(ctx, false);
/// ```
///
/// Returns 0, with the reason in lastuse_last_error and in ggml's log, in a callback that is called while a step is
/// computed. Aborts if steps is NULL.
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
