//! Observation of allocators: statistics, event reports, captures of graphs, dumps of values, accounting of devices, and
//! verification of memory at run time. None of it changes a plan, except that dumped tensors are retained.

pub mod statistics;
mod whole_file;
mod file_names;
pub mod dump;
pub mod events;
pub mod capture;
pub mod accounting;
pub mod verify;

use std::ptr::NonNull;

use crate::ggml::bindings::ggml_context;
use crate::ggml::context::allocate::tensors;
use crate::ggml::live::runtime::Runtime;
use accounting::recorder;
use verify::{forget_places, places_are_recorded};

/// Notes the tensors of a context that was allocated just now, if anything is recorded of buffers or of tensors.
///
/// # Safety
/// `context` is a live context of this ggml, and no other thread uses it.
pub unsafe fn note_context(runtime: &'static Runtime, context: NonNull<ggml_context>) {
    if recorder().is_recording() || places_are_recorded() {
        // SAFETY: a live context of this ggml.
        let tensors = unsafe { tensors(context, &runtime.functions) };
        forget_places(&tensors);
        if recorder().is_recording() {
            recorder().note_context(runtime, &tensors);
        }
    }
}
