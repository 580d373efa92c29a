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

/// Parses a number of bytes, in any case: "53000000", with binary units "512M", "1.5GiB", with decimal ones "2GB" (2,000,000,000).
/// A part of a byte is dropped. `None` for anything else, and for 2^64 and more.
pub fn parse_size(text: &str) -> Option<Bytes> {
    let text = text.to_ascii_uppercase();
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: u128 = match &text[number.len()..] {
        "" | "B" => 1,
        "K" | "KIB" => 1 << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "T" | "TIB" => 1 << 40,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    let (whole, part) = match number.split_once('.') {
        // 19 digits are a part of at most 2^64 bytes to the byte.
        Some((whole, part)) if unit > 1 && !part.is_empty() && part.len() < 20 => (whole, part),
        Some(_) => return None,
        None => (number, ""),
    };
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) {
        return None;
    }
    let whole = u128::from(whole.parse::<Bytes>().ok()?) * unit;
    let part = part.parse::<u128>().unwrap_or(0) * unit / 10_u128.pow(part.len().try_into().ok()?);
    Bytes::try_from(whole + part).ok()
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
    fn sizes_are_parsed_in_binary_and_decimal_units() {
        let sizes = ["0", "53000000", "7B", "3K", "512M", "700MiB", "2gib", "1t", "1.5GiB", "0.3g", "2gb", "1.5KB"];
        let third = 322_122_547;
        let expected =
            [0, 53_000_000, 7, 3 << 10, 512 << 20, 700 << 20, 2 << 30, 1 << 40, 3 << 29, third, 2_000_000_000, 1500];
        assert_eq!(sizes.map(parse_size), expected.map(Some));
        let not_sizes =
            ["", "B", "M", "iB", "1iB", "-5", "5 MiB", "1.5", "1.5B", "1.G", ".5G", "1.2.3G", "+5", "5MM", "5MiBiB"];
        for text in not_sizes.into_iter().chain(["16777216T", "99999999999T", "99999999999999999999"]) {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }
}
