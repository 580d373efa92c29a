//! Bytes for people, and round numbers for axes.

use crate::placement::Bytes;

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Bytes in the largest unit that leaves a number of at least 1, with four digits at most behind which nothing is cut
/// that counts: "80.5 MiB", "512 B", "1.625 GiB".
pub fn bytes(bytes: Bytes) -> String {
    let power = power_of(bytes);
    let whole = as_float(bytes) / as_float(1 << (10 * power));
    let (digits, parts) = match whole {
        number if number >= 100.0 => (1, 10.0),
        number if number >= 10.0 => (2, 100.0),
        _ => (3, 1000.0),
    };
    // Halves upwards, as the page does.
    let text = format!("{:.digits$}", (whole * parts).round() / parts);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {}", UNITS[power as usize])
}

/// The power of 1024 of the unit that a number of bytes is told in.
fn power_of(bytes: Bytes) -> u32 {
    bytes.checked_ilog2().unwrap_or(0) / 10
}

/// Round marks on an axis from 0 to `end`, about `count` of them, each with its text; all in one unit.
pub fn byte_ticks(end: Bytes, count: u64) -> Vec<(Bytes, String)> {
    let wanted = (end / count.max(1)).max(1);
    let unit = 1 << (10 * power_of(wanted));
    let rounded = round_step(wanted.div_ceil(unit), 1);
    // 500 is followed by 1 of the next unit.
    let step = if rounded < 1000 { unit * rounded } else { unit.saturating_mul(1024) };
    let power = power_of(step);
    let text = |mark: Bytes| format!("{} {}", mark >> (10 * power), UNITS[power as usize]);
    (0..=end / step).map(|index| (index * step, text(index * step))).collect()
}

/// The distance of about `count` round marks on an axis that ends at `end`: 1, 2 or 5 times a power of ten.
pub fn round_step(end: u64, count: u64) -> u64 {
    let wanted = end.div_ceil(count.max(1)).max(1);
    let power = 10_u64.saturating_pow(wanted.ilog10());
    [1, 2, 5, 10].map(|factor| power.saturating_mul(factor)).into_iter().find(|&step| step >= wanted).unwrap_or(wanted)
}

/// A change in percent, with a sign: "−35 %"; in bytes where it is little.
pub fn change(from: Bytes, to: Bytes) -> String {
    let percent = (as_float(to) / as_float(from.max(1)) - 1.0) * 100.0;
    let digits = usize::from(percent.abs() < 9.95);
    match percent {
        _ if from == to => "same size".to_owned(),
        little if little.abs() < 0.05 && to < from => format!("−{}", bytes(from - to)),
        little if little.abs() < 0.05 => format!("+{}", bytes(to - from)),
        less if less < 0.0 => format!("−{:.digits$} %", -less),
        more => format!("+{more:.digits$} %"),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a picture has no more than thousands of points")]
pub fn as_float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_their_unit() {
        let told = [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (84_422_656, "80.51 MiB"), (1 << 40, "1 TiB")];
        for (number, text) in told {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(bytes(1_744_830_464), "1.625 GiB");
        assert_eq!(bytes(4160), "4.063 KiB");
        assert_eq!(bytes(u64::MAX), "16 EiB");
    }

    #[test]
    fn axes_have_round_steps() {
        let texts = |end, count| byte_ticks(end, count).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(130 << 20, 6), "0 MiB 50 MiB 100 MiB");
        assert_eq!(texts(1000, 5), "0 B 200 B 400 B 600 B 800 B 1000 B");
        assert_eq!((texts(0, 5), texts(3 << 30, 6)), ("0 B".to_owned(), "0 GiB 1 GiB 2 GiB 3 GiB".to_owned()));
        assert_eq!((round_step(257, 5), round_step(1, 5), round_step(0, 0)), (100, 1, 1));
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(change(100, 65), "−35 %");
        assert_eq!(change(1000, 979), "−2.1 %");
        assert_eq!(
            (change(1 << 30, (1 << 30) - 64), change(1 << 30, (1 << 30) + 64)),
            ("−64 B".to_owned(), "+64 B".to_owned())
        );
        assert_eq!((change(100, 125), change(7, 7)), ("+25 %".to_owned(), "same size".to_owned()));
    }
}
