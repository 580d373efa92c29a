//! Observation of allocators: statistics, reports of events, captures of graphs, and verification of memory at run time. None of it
//! changes a plan.

pub mod capture;
pub mod events;
pub mod statistics;
pub mod verify;
