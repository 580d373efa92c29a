//! Text for people: explanations, sizes, tables, and how calls are bound.
//!
//! Uses [`crate::graph`] and [`crate::placement`].

pub mod explain;
pub mod reach;
pub mod sizes;
pub mod table;
