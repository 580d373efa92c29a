//! Files with an accounting: "lastuse-accounting", described by `docs/accounting.schema.json`.

mod write;
#[cfg(feature = "cli")]
mod read;
#[cfg(all(test, feature = "cli"))]
mod tests;

#[cfg(feature = "cli")]
pub use read::{MalformedAccounting, read_accounting};
pub use write::accounting_json;

/// The name of the format in each file.
const FORMAT: &str = "lastuse-accounting";

/// The version that is written and read.
const VERSION: u32 = 1;
