//! Explanations of small graphs whose peaks and savings are known.

mod advice;
mod inherent;
mod peaks;
mod retention;
mod reuse;
mod scene;
mod text;
