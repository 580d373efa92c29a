//! Captured graphs in files: the format "lastuse-graph", version 1.
//!
//! One JSON object a line: a header, then one line a tensor. [`Snapshot::text`](crate::graph::snapshot::Snapshot::text)
//! writes it without a library; reading it needs the feature "cli".

#[cfg(feature = "cli")]
mod read;
mod write;
#[cfg(all(test, feature = "cli"))]
mod compressed_tests;
#[cfg(all(test, feature = "cli"))]
mod tests;

/// The name of the format, and its only version so far.
const FORMAT: (&str, u64) = ("lastuse-graph", 1);
