//! Rules as users set them: words, for all devices or for one.

use std::fmt;
use std::str::FromStr;

use super::rules::RULES;
use super::{Device, Rules};

/// Rules as a user sets them: words separated by commas, in any case, the later ones over the earlier ones.
///
/// `default` selects the rules that the buffer's device allows, `ggml` those of ggml's own allocator, `all` everything
/// that is correct on a CPU, `none` nothing; the name of a rule switches it on, with `no-` before it off. Off the CPU a
/// word changes only the rules that are known to be correct on the device, and not what ggml decides in place, unless
/// it names the device: `gpu:rows`, `cuda:rows`. Only its own name changes `keep-inputs`, which else follows how an
/// allocator is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSetting {
    words: Vec<RuleWord>,
    /// Whether inputs are kept where no word says so.
    keeps_inputs: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RuleWord {
    /// One of [`Device::NAMES`]; `None` for all.
    device: Option<&'static str>,
    change: RuleChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleChange {
    /// Sets all rules; `None` means the default of the device.
    Base(Option<Rules>),
    /// Switches one of [`RULES`] on or off.
    Rule(usize, bool),
}

/// A word in a setting that names no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRule(pub String);

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = RULES.iter().map(|(name, _)| *name).collect();
        let (known, devices) = (names.join(", "), Device::NAMES.join(":, "));
        write!(
            f,
            "unknown rule {:?}; expected default, ggml, all, none or, also with no- before it, {known}; before \
             each may be the name of a device: {devices}:",
            self.0
        )
    }
}

impl std::error::Error for UnknownRule {}

impl FromStr for RuleSetting {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let parse =
            |word: &str| RuleWord::parse(&word.to_ascii_lowercase()).ok_or_else(|| UnknownRule(word.to_owned()));
        let words = words.map(parse).collect::<Result<_, _>>()?;
        Ok(Self { words, keeps_inputs: false })
    }
}

impl RuleSetting {
    /// Returns the setting for an allocator that a program uses itself, without a scheduler: `keep-inputs` is on unless a
    /// word switches it off.
    #[must_use]
    pub fn for_direct_use(&self) -> Self {
        Self { keeps_inputs: true, ..self.clone() }
    }

    /// Returns the rules for a buffer of `device`.
    pub fn rules_on(&self, device: Device) -> Rules {
        let default = Rules { keep_inputs: self.keeps_inputs, ..device.default_rules() };
        self.words.iter().fold(default, |rules, word| {
            let changed = word.change.apply(rules, default);
            match word.device {
                Some(prefix) if !device.is_named(prefix) => rules,
                None if word.change != RuleChange::Base(None) => rules.with(changed, device.open_rules()),
                _ => changed,
            }
        })
    }

    /// Returns the rules that the words make of `default` on a CPU, where every rule is correct.
    pub fn rules(&self, default: Rules) -> Rules {
        let words = self.words.iter().filter(|word| word.device.is_none_or(|device| Device::Cpu.is_named(device)));
        words.fold(default, |rules, word| word.change.apply(rules, default))
    }
}

impl RuleWord {
    fn parse(word: &str) -> Option<Self> {
        let (device, word) = match word.split_once(':') {
            Some((prefix, word)) => (Some(*Device::NAMES.iter().find(|name| **name == prefix)?), word.trim()),
            None => (None, word),
        };
        Some(Self { device, change: RuleChange::parse(word)? })
    }
}

impl RuleChange {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "default" => Some(Self::Base(None)),
            "ggml" => Some(Self::Base(Some(Rules::GGML))),
            "all" => Some(Self::Base(Some(Rules::ALL))),
            "none" => Some(Self::Base(Some(Rules::NONE))),
            _ => {
                let (name, on) = word.strip_prefix("no-").map_or((word, true), |name| (name, false));
                RULES.iter().position(|(known, _)| *known == name).map(|rule| Self::Rule(rule, on))
            }
        }
    }

    fn apply(self, mut rules: Rules, default: Rules) -> Rules {
        match self {
            Self::Base(base) => base.unwrap_or(default).keeping_inputs_as(default),
            Self::Rule(rule, on) => {
                *RULES[rule].1(&mut rules) = on;
                rules
            }
        }
    }
}
