//! Sizes on the command line.

use lastuse::placement::Bytes;

/// Parses a number of bytes, with K, M, G or T for binary units: "53000000", "512M", "2GiB". `None` for anything else, and
/// for 2^64 and more.
pub fn parse(text: &str) -> Option<Bytes> {
    let number = text.trim_end_matches("iB").trim_end_matches('B');
    let power = "KMGT".find(|unit| number.ends_with(unit)).map_or(0, |at| at + 1);
    let digits = if power > 0 { &number[..number.len() - 1] } else { number };
    let count: Bytes = digits.parse().ok()?;
    count.checked_mul(1 << (10 * power))
}

/// Parses a number of bytes as [`parse`] does, for an option.
pub fn option(text: &str) -> Result<Bytes, String> {
    parse(text)
        .ok_or_else(|| format!("{text:?} is no size: give whole bytes below 2^64, such as 53000000, 512M or 2GiB"))
}
