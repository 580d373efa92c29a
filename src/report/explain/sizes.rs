//! Sizes as people read them.

use crate::placement::Bytes;

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A size in the largest unit of which there is one at least, with two digits behind the point: "20.51 MiB".
pub fn human(bytes: Bytes) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let unit = (bytes.ilog2() / 10 - 1) as usize;
    let bits = 10 * (unit + 1);
    let hundredths = (u128::from(bytes) * 100 + (1 << (bits - 1))) >> bits;
    format!("{}.{:02} {}", hundredths / 100, hundredths % 100, UNITS[unit])
}

/// The same beside the exact number.
pub fn exact(bytes: Bytes) -> String {
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{} ({bytes} bytes)", human(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_has_its_unit() {
        let sizes = [0, 1023, 1024, 1536, 1 << 20, 21_501_984, (5 << 30) + 1, u64::MAX];
        let expected = ["0 B", "1023 B", "1.00 KiB", "1.50 KiB", "1.00 MiB", "20.51 MiB", "5.00 GiB", "16.00 EiB"];
        assert_eq!(sizes.map(human), expected);
        assert_eq!((exact(512), exact(2048)), ("512 bytes".to_owned(), "2.00 KiB (2048 bytes)".to_owned()));
    }
}
