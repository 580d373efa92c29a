//! Programs under other conditions than in `programs`: sanitizers, valgrind, other builds of lastuse, variables,
//! several ggmls.

mod cache_copies;
mod contexts;
mod fuzzing;
mod leaks;
mod measure;
mod retention;
mod rotating_copies;
#[path = "../support/mod.rs"]
mod support;
mod threads;
mod training;
mod verify;
