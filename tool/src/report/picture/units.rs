//! Round marks for axes, and changes in percent.

use lastuse::placement::Bytes;

use crate::report::sizes::{UNITS, as_float, power_of, short};

/// Returns about `count` round marks on an axis from 0 to `end`, each with its text; all in one unit.
pub fn byte_ticks(end: Bytes, count: u64) -> Vec<(Bytes, String)> {
    let distance = (end / count.max(1)).max(1);
    let unit = 1 << (10 * power_of(distance));
    let rounded = round_step(distance.div_ceil(unit), 1);
    // 500 is followed by 1 of the next unit.
    let step = if rounded < 1000 { unit * rounded } else { unit.saturating_mul(1024) };
    let power = power_of(step);
    let text = |mark: Bytes| format!("{} {}", mark >> (10 * power), UNITS[power as usize]);
    (0..=end / step).map(|index| (index * step, text(index * step))).collect()
}

/// Returns the distance of about `count` round marks on an axis that ends at `end`: 1, 2 or 5 times a power of ten.
pub fn round_step(end: u64, count: u64) -> u64 {
    let distance = end.div_ceil(count.max(1)).max(1);
    let power = 10_u64.saturating_pow(distance.ilog10());
    let steps = [1, 2, 5, 10].map(|factor| power.saturating_mul(factor));
    steps.into_iter().find(|&step| step >= distance).unwrap_or(distance)
}

/// Formats a change in percent, with a sign: "−35 %"; below 0.05 % in bytes.
pub fn change(from: Bytes, to: Bytes) -> String {
    let percent = (as_float(to) / as_float(from.max(1)) - 1.0) * 100.0;
    let digits = usize::from(percent.abs() < 9.95);
    match percent {
        _ if from == to => "same size".to_owned(),
        little if little.abs() < 0.05 && to < from => format!("−{}", short(from - to)),
        little if little.abs() < 0.05 => format!("+{}", short(to - from)),
        less if less < 0.0 => format!("−{:.digits$} %", -less),
        more => format!("+{more:.digits$} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
