//! Which sharing of memory is allowed.

use std::fmt;
use std::str::FromStr;

use super::Operation;

/// The rules of reuse beyond the freeing after the last reader; each can be switched off to see what it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A node may be computed in the memory of a source that nobody else reads. ggml does so, for the operations in its
    /// list, and takes the first source that allows it.
    pub in_place: bool,
    /// The same where the source is a view at offset 0 of a root that nobody else reads. In ggml this is dead code.
    pub views: bool,
    /// The same for operations that read an element, or a whole row, before they write there.
    pub rows: bool,
    /// The same for copies onto themselves.
    pub copies: bool,
    /// An operand of CONCAT may be computed inside the result, where that does not raise the peak.
    pub concat: bool,
    /// Among the sources that allow it a node takes the one that has been there for longest, so that what flows
    /// through the whole graph stays where it is.
    pub oldest_source: bool,
    /// An input that no node reads gives its memory back once the graph starts.
    pub unread_inputs: bool,
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
    };
    /// What ggml's own allocator does.
    pub const GGML: Self = Self { in_place: true, ..Self::NONE };
    /// Everything that is right where ggml's CPU backend computes.
    pub const ALL: Self = Self {
        in_place: true,
        views: true,
        rows: true,
        copies: true,
        concat: true,
        oldest_source: true,
        unread_inputs: true,
    };

    /// The same without what ggml's own allocator would not do.
    pub fn as_ggml(self) -> Self {
        Self { in_place: self.in_place, ..Self::NONE }
    }

    /// The names of the rules that are switched off here and on in `allowed`, as [`RuleSetting`] knows them.
    pub fn off_among(mut self, mut allowed: Self) -> impl Iterator<Item = &'static str> {
        RULES.iter().filter(move |(_, rule)| !*rule(&mut self) && *rule(&mut allowed)).map(|(name, _)| *name)
    }

    /// May `operation` write over a source of the same layout in this slot?
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

const RULES: [Rule; 7] = [
    ("in-place", |rules| &mut rules.in_place),
    ("views", |rules| &mut rules.views),
    ("rows", |rules| &mut rules.rows),
    ("copies", |rules| &mut rules.copies),
    ("concat", |rules| &mut rules.concat),
    ("oldest-source", |rules| &mut rules.oldest_source),
    ("unread-inputs", |rules| &mut rules.unread_inputs),
];

/// The words that [`RuleSetting`] reads.
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

/// What a user says about rules: words separated by commas, the later ones over the earlier ones.
///
/// `default` is what the buffer's device allows, `ggml` what ggml's own allocator does, `all` everything that is right
/// on a CPU, `none` nothing; the name of a rule switches it on, with `no-` before it off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSetting {
    base: Option<Rules>,
    changes: Vec<(usize, bool)>,
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
            "there is no rule {:?}; known are default, ggml, all, none and, also with no- before it, {known}",
            self.0
        )
    }
}

impl std::error::Error for UnknownRule {}

impl FromStr for RuleSetting {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        let mut setting = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let base = match word {
                "default" => None,
                "ggml" => Some(Rules::GGML),
                "all" => Some(Rules::ALL),
                "none" => Some(Rules::NONE),
                _ => {
                    setting.changes.push(change(word).ok_or_else(|| UnknownRule(word.to_owned()))?);
                    continue;
                }
            };
            setting = Self { base, changes: Vec::new() };
        }
        Ok(setting)
    }
}

impl RuleSetting {
    /// The rules for a buffer that has `default` where nothing is said.
    pub fn rules(&self, default: Rules) -> Rules {
        let mut rules = self.base.unwrap_or(default);
        for &(rule, on) in &self.changes {
            *RULES[rule].1(&mut rules) = on;
        }
        rules
    }
}

/// The rule that a word names, and whether it switches it on.
fn change(word: &str) -> Option<(usize, bool)> {
    let (name, on) = word.strip_prefix("no-").map_or((word, true), |name| (name, false));
    RULES.iter().position(|(known, _)| *known == name).map(|rule| (rule, on))
}
