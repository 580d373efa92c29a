//! What C calls: the functions of `ggml-alloc.h`, and lastuse's own.
//!
//! Uses [`crate::ggml`], and [`crate::report`] for what is told to people. Each function checks its pointers, makes safe values of them, makes one call and answers as C
//! expects. What ggml aborts on is aborted on here, through `ggml_abort`.

mod capture;
mod context;
mod context_tensors;
mod copies;
mod dependency;
mod explain;
mod gallocr;
mod gallocr_new;
mod guard;
mod guard_memory;
mod ids;
mod lastuse;
mod measure;
mod output;
mod refusal;
mod reorder;
mod sized;
mod stats;
mod tallocr;
mod verify;
mod whose;

use guard::{end_on, guard, required};
use refusal::{last_refusal, refuse};
use sized::{checked_report, checked_struct};
