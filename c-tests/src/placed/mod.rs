//! Whether llama.cpp's devices are asked for what `lastuse offload` promises.
//!
//! ```text
//!  program  llama.cpp on devices that count and refuse (support/counted_devices.h): capture, run
//!  promise  lastuse offload: bytes by device, and the arguments that make the placement
//!  sweep    budgets from nothing to everything: promised, asked for, equal?
//!  head     the output head on the host: what it saves, predicted and asked for
//!  report   tables of that
//!  cases    devices of the CPU's kernels that every machine has
//! ```

mod program;
mod promise;
mod sweep;
mod head;
mod report;
mod cases;

pub use cases::{DENSE, EXPERTS, on_any_machine};
pub use head::{HeadOnHost, head_on_host};
pub use program::{Asked, PLACED, PlacedModel, PlacedProgram, PlacedRun, WRITER};
pub use promise::{Promise, Promised};
pub use report::PlacedReport;
pub use sweep::{PlacedCase, PlacedRow, sweep};
