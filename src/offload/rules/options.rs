//! How a scheduler of ggml was made, and which version of ggml it is of.

use super::offload_error::OffloadError;

/// The differences between versions of ggml's scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerVersion {
    /// FLASH_ATTN_EXT does not follow its weights, the attention sinks, to their backend. ROPE never does.
    pub attention_ignores_weights: bool,
    /// The most inputs of a split, where there is a limit; a node that needs more begins another split.
    pub max_split_inputs: Option<usize>,
    /// With pipeline copies, every leaf flagged as an input is copied; otherwise those that an operation uses.
    pub copies_unused_inputs: bool,
}

impl SchedulerVersion {
    /// The scheduler of ggml 0.9.5, as in whisper.cpp at the beginning of 2026.
    pub const GGML_0_9_5: Self =
        Self { attention_ignores_weights: false, max_split_inputs: Some(30), copies_unused_inputs: false };
    /// The scheduler of ggml 0.26.0.
    pub const GGML_0_26: Self =
        Self { attention_ignores_weights: true, max_split_inputs: None, copies_unused_inputs: true };
}

/// The latest version that is reproduced.
impl Default for SchedulerVersion {
    fn default() -> Self {
        Self::GGML_0_26
    }
}

/// How a scheduler was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// The version of ggml.
    pub version: SchedulerVersion,
    /// `op_offload` of `ggml_backend_sched_new`: backends may run operations whose weights are on the host.
    pub op_offload: bool,
    /// Copies of each input for pipelines: 1, or `GGML_SCHED_MAX_COPIES` (4 by default) of a scheduler made with
    /// `parallel`.
    pub copies: u32,
    /// The copy that the next computation uses, from 0. Reserving uses the one of the last computation.
    pub current_copy: u32,
}

/// A scheduler as llama.cpp makes it by default.
impl Default for SchedulerOptions {
    fn default() -> Self {
        Self { version: SchedulerVersion::default(), op_offload: true, copies: 1, current_copy: 0 }
    }
}

impl SchedulerOptions {
    /// Checks the numbers of copies.
    pub(super) fn check(&self) -> Result<(), OffloadError> {
        let Self { copies, current_copy: current, .. } = *self;
        if current < copies { Ok(()) } else { Err(OffloadError::InvalidCopies { copies, current }) }
    }

    /// Returns `true` if inputs have several copies.
    pub(super) fn is_parallel(&self) -> bool {
        self.copies > 1
    }
}
