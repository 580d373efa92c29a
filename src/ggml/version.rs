//! The version of lastuse and the prefix of its messages.

/// The version of lastuse.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The prefix of messages that name no function.
pub const SIGNATURE: &str = concat!("lastuse ", env!("CARGO_PKG_VERSION"), ": ");
