//! What lastuse writes while programs run: captures and statistics, dumps of tensors, the memory of devices.

mod accounting;
mod dump;
mod recording;
#[path = "../support/mod.rs"]
mod support;
