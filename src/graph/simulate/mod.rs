//! Simulates a graph on a plan: no computing, but keeping track of which tensor's value every byte holds.
//!
//! Independent of live ranges: it uses only the order of the nodes, their sources, and the addresses.
//! Uses the graph, `access` and, for addresses, `plan`.
//!
//! - `address_map`: where the tensors are
//! - `contents`: the values in memory
//! - `corruption`: what can go wrong, and what did
//! - `roles`: which nodes run, and which tensors must last
//! - `simulation`: runs the graph
//! - `freed`: which bytes become free when
//! - `describe`: findings as messages

mod address_map;
mod contents;
mod corruption;
mod describe;
mod roles;
mod freed;
mod simulation;

pub use address_map::AddressMap;
pub use corruption::{Corruption, Finding};
pub use describe::{Labels, describe};
pub use freed::{Freed, freed, owner_at};
pub use simulation::{simulate, simulate_again, simulate_at};
