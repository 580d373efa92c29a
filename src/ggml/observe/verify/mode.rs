//! The modes of verification.

use std::fmt;
use std::str::FromStr;

use crate::ggml::environment::means_off;

/// The checks made at run time; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verify {
    /// Simulates each graph that an allocator assigns memory to.
    pub plan: bool,
    /// Compares memory while graphs run.
    pub memory: bool,
    /// Compares memory of buffers that are marked as weights too.
    pub weights: bool,
    /// Allows custom operations, functions of the program, to write anywhere.
    pub trusts_custom: bool,
}

/// A word that is not a mode of verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord(String);

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is unknown; expected off, plan, memory, weights, no-custom", self.0)
    }
}

impl FromStr for Verify {
    type Err = UnknownWord;

    /// Parses words separated by commas, in any case; each adds to those before it, and `off` removes them.
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let mut verify = Self::default();
        for word in text.split(',').map(str::trim) {
            match word.to_ascii_lowercase().as_str() {
                "" => {}
                off if means_off(off) => verify = Self::default(),
                "plan" => verify.plan = true,
                "memory" => verify = Self { plan: true, memory: true, ..verify },
                "weights" => verify = Self { plan: true, memory: true, weights: true, ..verify },
                "no-custom" => verify.trusts_custom = true,
                _ => return Err(UnknownWord(word.to_owned())),
            }
        }
        Ok(verify)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_add_up_and_off_removes_them() {
        let of = |text: &str| text.parse::<Verify>().expect("known words");
        assert_eq!(of(""), Verify::default());
        assert_eq!(of("plan"), Verify { plan: true, ..Verify::default() });
        assert_eq!(of(" memory "), Verify { plan: true, memory: true, ..Verify::default() });
        assert_eq!(of("weights,no-custom"), Verify { plan: true, memory: true, weights: true, trusts_custom: true });
        assert_eq!(of("memory,off,plan"), of("plan"));
        for off in ["0", "OFF", "false", "no"] {
            assert_eq!(of(&format!("memory,{off}")), Verify::default(), "{off}");
        }
        assert_eq!(of("Plan,NO-CUSTOM"), of("plan,no-custom"));
    }

    #[test]
    fn unknown_words_are_named() {
        let wrong = "plan,memroy".parse::<Verify>().expect_err("an unknown word");
        assert_eq!(wrong.to_string(), "\"memroy\" is unknown; expected off, plan, memory, weights, no-custom");
    }
}
