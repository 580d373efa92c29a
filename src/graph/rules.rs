//! Rules: which reuse of memory is allowed.

use std::fmt;
use std::str::FromStr;

use super::Operation;

/// The rules of reuse beyond freeing after the last use; each can be switched off to measure its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A node may be computed in place of a source that has no later use. ggml does so for the operations in its list,
    /// and chooses the first source that allows it.
    pub in_place: bool,
    /// In place also where the source is a view at offset 0 of a root without later uses. In ggml this is dead code.
    pub views: bool,
    /// In place also for operations that read an element, or a whole row, before they write there.
    pub rows: bool,
    /// In place also for copies onto themselves.
    pub copies: bool,
    /// An operand of CONCAT may be computed inside the result, where that lowers the peak.
    pub concat: bool,
    /// Among the in-place sources a node takes the one whose block is the oldest, so that values that pass through the
    /// whole graph keep their address.
    pub oldest_source: bool,
    /// An unused input is free after the first step.
    pub unread_inputs: bool,
    /// Nodes that no backend computes, since they lack [`Flags::COMPUTE`](super::Flags::COMPUTE), have no memory of
    /// their own, and inputs that only they use are free after the first step.
    pub inactive: bool,
}

impl Rules {
    /// Nothing is computed in place, nothing ends early.
    pub const NONE: Self = Self {
        in_place: false,
        views: false,
        rows: false,
        copies: false,
        concat: false,
        oldest_source: false,
        unread_inputs: false,
        inactive: false,
    };
    /// What ggml's own allocator does.
    pub const GGML: Self = Self { in_place: true, ..Self::NONE };
    /// Everything that is correct where ggml's CPU backend computes.
    pub const ALL: Self = Self {
        in_place: true,
        views: true,
        rows: true,
        copies: true,
        concat: true,
        oldest_source: true,
        unread_inputs: true,
        inactive: true,
    };

    /// Returns the rules without those that ggml's own allocator does not have.
    pub fn as_ggml(self) -> Self {
        Self { in_place: self.in_place, ..Self::NONE }
    }

    /// Returns these rules, with those that are on in `which` as in `other`.
    fn with(mut self, mut other: Self, mut which: Self) -> Self {
        for (_, rule) in RULES.iter().filter(|(_, rule)| *rule(&mut which)) {
            *rule(&mut self) = *rule(&mut other);
        }
        self
    }

    /// Returns the names, as in a [`RuleSetting`], of the rules that are off here and on in `allowed`.
    pub fn off_among(mut self, mut allowed: Self) -> impl Iterator<Item = &'static str> {
        RULES.iter().filter(move |(_, rule)| !*rule(&mut self) && *rule(&mut allowed)).map(|(name, _)| *name)
    }

    /// Returns `true` if `operation` may write over a source of the same layout in this slot.
    pub fn allow(&self, operation: Operation, slot: usize) -> bool {
        let is_on = match operation {
            Operation::RowByRow(_) => self.rows,
            Operation::Copy => self.copies,
            _ => true,
        };
        self.in_place && is_on && operation.may_write_over(slot)
    }
}

/// The name of each rule, for settings and reports, and where it is in [`Rules`].
type Rule = (&'static str, fn(&mut Rules) -> &mut bool);

const RULES: [Rule; 8] = [
    ("in-place", |rules| &mut rules.in_place),
    ("views", |rules| &mut rules.views),
    ("rows", |rules| &mut rules.rows),
    ("copies", |rules| &mut rules.copies),
    ("concat", |rules| &mut rules.concat),
    ("oldest-source", |rules| &mut rules.oldest_source),
    ("unread-inputs", |rules| &mut rules.unread_inputs),
    ("inactive", |rules| &mut rules.inactive),
];

/// Writes the words that [`RuleSetting`] parses.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bases = [(Self::ALL, "all"), (Self::GGML, "ggml"), (Self::NONE, "none")];
        if let Some((_, word)) = bases.iter().find(|(rules, _)| rules == self) {
            return write!(f, "{word}");
        }
        let mut rules = *self;
        write!(f, "none")?;
        RULES.iter().filter(|(_, rule)| *rule(&mut rules)).try_for_each(|(name, _)| write!(f, ",{name}"))
    }
}

/// Where the nodes of a buffer are computed, as far as rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Memory in which ggml's CPU backend computes, and nothing else.
    Cpu,
    /// A GPU or another device. Its backend fuses nodes without comparing addresses, relying on the in-place decisions
    /// of ggml's own allocator.
    Gpu,
    /// Several devices behind one buffer type, which divide each node among them. They sum up parts also of nodes that
    /// lack [`Flags::COMPUTE`](super::Flags::COMPUTE).
    Several,
}

impl Device {
    /// Returns the rules in force where a user sets none: all that are correct there.
    pub fn default_rules(self) -> Rules {
        match self {
            Self::Cpu => Rules::ALL,
            Self::Gpu => Rules { unread_inputs: true, inactive: true, ..Rules::GGML },
            Self::Several => Rules { unread_inputs: true, ..Rules::GGML },
        }
    }

    /// Returns the rules that a word without a device may change.
    fn open_rules(self) -> Rules {
        match self {
            Self::Cpu => Rules::ALL,
            Self::Gpu => Rules { unread_inputs: true, inactive: true, ..Rules::NONE },
            Self::Several => Rules { unread_inputs: true, ..Rules::NONE },
        }
    }

    /// Returns `true` if a prefix of a word names this device.
    fn is_named(self, prefix: &str) -> bool {
        prefix == if self == Self::Cpu { "cpu" } else { "gpu" }
    }
}

/// Rules as a user sets them: words separated by commas, in any case, the later ones over the earlier ones.
///
/// `default` is what the buffer's device allows, `ggml` what ggml's own allocator does, `all` everything that is
/// correct on a CPU, `none` nothing; the name of a rule switches it on, with `no-` before it off. Off the CPU a word
/// changes only the rules that are correct on every device, unless it names the device: `gpu:rows`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSetting(Vec<RuleWord>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct RuleWord {
    /// `cpu` or `gpu`; `None` for both.
    device: Option<&'static str>,
    change: RuleChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleChange {
    /// Sets all rules; `None` stands for the default of the device.
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
        let known = names.join(", ");
        write!(
            f,
            "there is no rule {:?}; known are default, ggml, all, none and, also with no- before it, {known}; each may \
             have cpu: or gpu: before it",
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
        words.map(parse).collect::<Result<_, _>>().map(Self)
    }
}

impl RuleSetting {
    /// Returns the rules for a buffer of `device`.
    pub fn rules_on(&self, device: Device) -> Rules {
        let default = device.default_rules();
        self.0.iter().fold(default, |rules, word| {
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
        let words = self.0.iter().filter(|word| word.device != Some("gpu"));
        words.fold(default, |rules, word| word.change.apply(rules, default))
    }
}

impl RuleWord {
    fn parse(word: &str) -> Option<Self> {
        let (device, word) = match word.split_once(':') {
            Some(("cpu", word)) => (Some("cpu"), word.trim()),
            Some(("gpu", word)) => (Some("gpu"), word.trim()),
            Some(_) => return None,
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
            Self::Base(base) => base.unwrap_or(default),
            Self::Rule(rule, on) => {
                *RULES[rule].1(&mut rules) = on;
                rules
            }
        }
    }
}
