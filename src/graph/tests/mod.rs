//! Live ranges, plans and the simulator, on hand-made graphs and on random ones.

mod effort;
mod findings;
mod in_place;
mod inactive;
mod keep_inputs;
mod layouts;
mod live_ranges;
mod plans;
pub mod random;
mod retention;
mod simulator;
pub mod sketch;
mod sources;
