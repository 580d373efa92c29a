//! Explanations of small graphs, of which the right ones are known.

mod advice;
mod peaks;
mod reuse;
mod scene;
mod words;
