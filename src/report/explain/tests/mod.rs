//! Explanations of small graphs whose peaks and savings are known.

mod advice;
mod inherent;
mod passes;
mod peaks;
mod programs;
mod retention;
mod reuse;
mod scene;
mod text;
