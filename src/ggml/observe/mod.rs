//! Observation of allocators: statistics, event reports, captures of graphs, and verification of memory at run time.
//! None of it changes a plan.

pub mod statistics;
pub mod events;
pub mod capture;
pub mod verify;
