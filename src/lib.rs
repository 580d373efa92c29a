//! **lastuse**: a drop-in replacement for ggml's graph memory allocator (`ggml-alloc.c`).
//!
//! Programs use it through the C ABI of `ggml-alloc.h` and `include/lastuse.h`: linked before ggml, or preloaded. This page is
//! for those who use the planner from Rust, and for those who work on it.
//!
//! ```text
//!    C program                  files                    people
//!        |                        |                         ^
//!   +---------+              +---------+               +---------+
//!   |   abi   |              | formats |               |  report |   text, JSON
//!   +---------+              +---------+               +---------+
//!        |                        |                         ^
//!   +---------+    Graph     +-----------------------------------+
//!   |         | -----------> |  graph: live ranges, plans,       |   plain data, no pointers
//!   |  ggml   |   GraphPlan  |         the simulator             |
//!   |         | <----------- +-----------------------------------+
//!   +---------+                   | Problem         ^ Placement
//!        |                   +-----------------------------------+
//!        v                   |  placement: blocks, offsets,      |   bytes and steps
//!   addresses of tensors     |             lower bounds          |
//!                            +-----------------------------------+
//! ```
//!
//! Each layer uses only those before it in this list:
//!
//! - [`placement`]: blocks with live ranges, and an offset for each
//! - [`graph`]: computation graphs as plain data; live ranges, plans, passes over a graph
//! - [`offload`]: weights, caches and intermediates on devices, within their budgets
//! - [`formats`]: files that the library writes: graphs, JSON, arrays
//! - [`accounting`]: what every device holds, byte by byte
//! - [`report`]: explanations, sizes and tables for people
//! - [`settings`]: the table of settings
//! - `ggml`: ggml's types and functions, and the allocator that uses them
//! - `abi`: the functions that C calls
//!
//! `docs/internals/architecture.md` walks the way of a graph through them.
//!
//! # Example
//!
//! Three results, each used by the next step. The first and the last are never live at the same step, so they share memory:
//!
//! ```
//! use lastuse::placement::{Block, Effort, Problem, Workspace, choose, validate};
//!
//! let mut problem = Problem::new(64, None);
//! problem.add(Block { size: 4096, first_step: 0, end_step: 2 });
//! problem.add(Block { size: 1024, first_step: 1, end_step: 3 });
//! problem.add(Block { size: 4096, first_step: 2, end_step: 4 });
//!
//! let choice = choose(&problem, None, Effort::default(), &mut Workspace::default());
//! assert!(validate(&problem, &choice.placement).is_ok());
//! assert_eq!(choice.placement.size(), 5120);
//! assert_eq!(choice.placement.size(), choice.lower_bound);
//! ```

#[forbid(unsafe_code)]
pub mod placement;
#[forbid(unsafe_code)]
pub mod graph;
#[forbid(unsafe_code)]
pub mod offload;
#[forbid(unsafe_code)]
pub mod formats;
#[forbid(unsafe_code)]
pub mod accounting;
#[forbid(unsafe_code)]
pub mod report;
#[forbid(unsafe_code)]
pub mod settings;
mod ggml;
mod abi;
pub mod ffi;
#[cfg(test)]
mod testing;
