//! Budgets in bytes, for passes that make plans smaller.

use std::str::FromStr;

use lastuse::placement::Bytes;

use super::size;

/// The bytes that a plan may need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    Bytes(Bytes),
    /// Hundredths of the bytes of the plan for the given graph.
    Percent(f64),
    Smallest,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a budget: give bytes (53000000, 512M), a part (40%), or min");
        if text == "min" {
            return Ok(Self::Smallest);
        }
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| wrong())?;
            return if percent.is_finite() && percent >= 0.0 { Ok(Self::Percent(percent)) } else { Err(wrong()) };
        }
        size::parse(text).map(Self::Bytes).ok_or_else(wrong)
    }
}

impl Budget {
    /// Returns the bytes; `given` are those of the plan for the given graph.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part")]
    pub fn bytes(self, given: Bytes) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (given as f64 * percent / 100.0) as Bytes,
            Self::Smallest => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_bytes_parts_or_the_smallest() {
        let budgets = ["53000000", "512M", "1GiB", "3KB", "40%", "min"].map(|text| text.parse::<Budget>());
        let expected = [
            Budget::Bytes(53_000_000),
            Budget::Bytes(512 << 20),
            Budget::Bytes(1 << 30),
            Budget::Bytes(3 << 10),
            Budget::Percent(40.0),
            Budget::Smallest,
        ];
        assert_eq!(budgets, expected.map(Ok));
        assert_eq!(Budget::Percent(40.0).bytes(1000), 400);
    }

    #[test]
    fn malformed_budgets_are_refused_by_name() {
        for text in ["", "much", "-5", "40 %%", "nan%", "-1%", "99999999999999999999", "99999999999T"] {
            let message = text.parse::<Budget>().expect_err("no budget");
            assert!(message.starts_with(&format!("{text:?} is not a budget")), "{message}");
        }
    }
}
