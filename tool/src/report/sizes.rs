//! Sizes as text, for tables and pictures.

use lastuse::placement::Bytes;
pub use lastuse::report::sizes::{UNITS, as_float, exact, fixed, parse_size, power_of};

/// How the sizes of a table are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeUnit {
    /// In MiB with two decimals.
    Mib,
    /// To the byte.
    Bytes,
}

impl SizeUnit {
    /// Its name, for titles.
    pub fn name(self) -> &'static str {
        if self == Self::Mib { "MiB" } else { "bytes" }
    }

    /// Formats a size without the unit.
    pub fn text(self, bytes: Bytes) -> String {
        if self == Self::Mib { mib(bytes) } else { bytes.to_string() }
    }
}

/// Formats a size in its largest unit with at most four significant digits and no trailing zeros: "80.5 MiB", "1.625 GiB".
pub fn short(bytes: Bytes) -> String {
    let power = power_of(bytes);
    let number = as_float(bytes) / as_float(1 << (10 * power));
    let (digits, parts) = match number {
        number if number >= 100.0 => (1, 10.0),
        number if number >= 10.0 => (2, 100.0),
        _ => (3, 1000.0),
    };
    // Halves are rounded up, as on the HTML page.
    let text = format!("{:.digits$}", (number * parts).round() / parts);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {}", UNITS[power as usize])
}

/// Converts bytes to MiB.
pub fn as_mib(bytes: f64) -> f64 {
    bytes / 1_048_576.0
}

/// Formats bytes in MiB with two decimals, without the unit: for tables with a unit in their titles.
pub fn mib(bytes: Bytes) -> String {
    format!("{:.2}", as_mib(as_float(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sizes_have_no_trailing_zeros() {
        let expected = [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (84_422_656, "80.51 MiB"), (1 << 40, "1 TiB")];
        for (number, text) in expected {
            assert_eq!(short(number), text);
        }
        assert_eq!(short(1_744_830_464), "1.625 GiB");
        assert_eq!(short(4160), "4.063 KiB");
        assert_eq!(short(u64::MAX), "16 EiB");
    }
}
