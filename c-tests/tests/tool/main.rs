//! The command-line tool.

mod check;
mod command_line;
mod compare;
mod convert;
mod explain;
mod measure;
mod neurons;
mod offload;
mod plan;
mod run;
mod run_end;
mod run_report;
mod service;
mod trained;
#[path = "../support/mod.rs"]
mod support;
