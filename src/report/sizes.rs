//! Sizes in binary units, as text.

use crate::placement::Bytes;

/// By power of 1024.
pub const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Returns the power of 1024 of the largest unit in which `bytes` is at least 1.
pub fn power_of(bytes: Bytes) -> u32 {
    bytes.checked_ilog2().unwrap_or(0) / 10
}

/// Formats a size in its largest unit with two decimals: "20.51 MiB", "512 B". Rows of a table align.
pub fn fixed(bytes: Bytes) -> String {
    let power = power_of(bytes);
    if power == 0 {
        return format!("{bytes} B");
    }
    let bits = 10 * power;
    let hundredths = (u128::from(bytes) * 100 + (1 << (bits - 1))) >> bits;
    format!("{}.{:02} {}", hundredths / 100, hundredths % 100, UNITS[power as usize])
}

/// Formats a size in a binary unit, with the exact number: "2.00 KiB (2048 bytes)".
pub fn exact(bytes: Bytes) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{} ({bytes} bytes)", fixed(bytes)) }
}

/// Parses a number of bytes, with K, M, G or T for binary units, in any case: "53000000", "512M", "2GiB". `None` for
/// anything else, and for 2^64 and more.
pub fn parse_size(text: &str) -> Option<Bytes> {
    let text = text.to_ascii_uppercase();
    let number = text.strip_suffix("IB").or_else(|| text.strip_suffix('B')).unwrap_or(&text);
    let power = "KMGT".find(|unit| number.ends_with(unit)).map_or(0, |at| at + 1);
    let digits = if power > 0 { &number[..number.len() - 1] } else { number };
    // "1iB" has no unit.
    if power == 0 && text.ends_with("IB") {
        return None;
    }
    let count: Bytes = digits.parse().ok()?;
    count.checked_mul(1 << (10 * power))
}

/// Converts a size for ratios, means and pixels, which need no more digits.
#[allow(clippy::cast_precision_loss, reason = "ratios, means and pixels need no more digits")]
pub fn as_float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_sizes_have_two_decimals() {
        let sizes = [0, 1023, 1024, 1536, 1 << 20, 21_501_984, (5 << 30) + 1, u64::MAX];
        let expected = ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "1.00 MiB", "20.51 MiB", "5.00 GiB", "16.00 EiB"];
        assert_eq!(sizes.map(fixed), expected);
        assert_eq!((exact(512), exact(2048)), ("512 bytes".to_owned(), "2.00 KiB (2048 bytes)".to_owned()));
    }

    #[test]
    fn sizes_are_parsed_in_binary_units() {
        let sizes = ["0", "53000000", "7B", "3KB", "512M", "700MiB", "2gib", "1t"].map(parse_size);
        let expected = [0, 53_000_000, 7, 3 << 10, 512 << 20, 700 << 20, 2 << 30, 1 << 40];
        assert_eq!(sizes, expected.map(Some));
        for text in
            ["", "B", "M", "iB", "1iB", "-5", "5 MiB", "1.5G", "5MM", "5MiBiB", "99999999999T", "99999999999999999999"]
        {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }
}
