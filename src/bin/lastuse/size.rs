//! Sizes on the command line.

use lastuse::placement::Bytes;
pub use lastuse::report::parse_size as parse;

/// Parses a number of bytes, for an option.
pub fn option(text: &str) -> Result<Bytes, String> {
    parse(text)
        .ok_or_else(|| format!("{text:?} is not a size: give whole bytes below 2^64, such as 53000000, 512M or 2GiB"))
}
