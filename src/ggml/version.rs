//! The version of lastuse, and what its messages begin with.

/// The version of lastuse.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The prefix of messages that name no function.
pub const SIGNATURE: &str = concat!("lastuse ", env!("CARGO_PKG_VERSION"), ": ");
