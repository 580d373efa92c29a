//! Results that an operation writes into memory chosen by the program: [`redirect`] makes a tensor a view of that memory, [`set`]
//! checks one tensor and redirects it, [`check`] checks all redirected results of a graph.

pub mod check;
pub mod redirect;
pub mod set;
