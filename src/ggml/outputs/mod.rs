//! Results that an operation writes into memory chosen by the program.
//!
//! [`redirect`] makes a tensor a view of that memory. [`check`] checks all redirected results of a graph. [`set`]
//! checks one tensor as far as that is possible without a graph, and redirects it.

pub mod redirect;
pub mod check;
pub mod set;
