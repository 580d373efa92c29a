//! Byte accesses: what a node reads and writes, and in which layouts. Uses `layout` and the ids of tensors.
//!
//! - `effect`: what running an operation can change
//! - `strides`: the layouts that an operation can read (`read_layouts`) and write (`written_layouts`)
//! - `region`: bytes of one address space
//! - `history`: which steps access a region, asked from the last step back
//! - `ordering`: whether the graph itself orders all accesses to redirected results

mod effect;
mod region;
mod history;
mod ordering;
mod strides;
mod read_layouts;
mod written_layouts;

pub use effect::Effect;
pub use history::History;
pub use ordering::{Access, Accesses, Unordered};
pub use region::Region;
pub use strides::Strides;
