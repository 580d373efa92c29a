//! Text for people: explanations, sizes, tables, and how calls are bound.
//!
//! Uses [`crate::graph`] and [`crate::placement`].

pub mod sizes;
pub mod table;
pub mod reach;
pub mod explain;
