//! Observation of allocators: statistics, event reports, captures of graphs, dumps of values, accounting of devices, and
//! verification of memory at run time. None of it changes a plan, except that dumped tensors are retained.

pub mod statistics;
mod whole_file;
pub mod dump;
pub mod events;
pub mod capture;
pub mod accounting;
pub mod verify;
