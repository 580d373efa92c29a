//! Rules: which reuse of memory is allowed.

use std::fmt;

use super::InPlace;

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
    /// In place also for operations that go through a row or a matrix step by step, or several times.
    pub scans: bool,
    /// In place also for copies onto themselves.
    pub copies: bool,
    /// An operand of CONCAT may be computed inside the result, where that lowers the peak.
    pub concat: bool,
    /// Among the in-place sources a node takes the one whose block is the oldest, so that values that pass through the
    /// whole graph keep their address.
    pub oldest_source: bool,
    /// Among the in-place sources a node takes the result of the node before it rather than a leaf, unless the oldest is
    /// wanted. A kernel that computes both nodes may read the leaf to its end, and backends do not compare its addresses.
    pub leafs_last: bool,
    /// An unused input is free after the first step.
    pub unread_inputs: bool,
    /// Nodes that no backend computes, since they lack [`Flags::COMPUTE`](super::Flags::COMPUTE), have no own memory,
    /// and inputs that only they use are free after the first step.
    pub inactive: bool,
    /// An input that is used keeps its value to the end if ggml's own allocator leaves it intact: a program may compute
    /// the graph again without setting it. The only rule that takes memory, and part of no set of rules: it follows how
    /// an allocator is used.
    pub keep_inputs: bool,
}

impl Rules {
    /// Nothing is computed in place, nothing ends early.
    pub const NONE: Self = Self {
        in_place: false,
        views: false,
        rows: false,
        scans: false,
        copies: false,
        concat: false,
        oldest_source: false,
        leafs_last: false,
        unread_inputs: false,
        inactive: false,
        keep_inputs: false,
    };
    /// The rules of ggml's own allocator.
    pub const GGML: Self = Self { in_place: true, ..Self::NONE };
    /// Everything that is correct where ggml's CPU backend computes.
    pub const ALL: Self = Self {
        in_place: true,
        views: true,
        rows: true,
        scans: true,
        copies: true,
        concat: true,
        oldest_source: true,
        leafs_last: true,
        unread_inputs: true,
        inactive: true,
        keep_inputs: false,
    };

    /// Returns the rules without those that ggml's own allocator does not have.
    pub fn as_ggml(self) -> Self {
        Self { in_place: self.in_place, ..Self::NONE }
    }

    /// Returns these rules with `keep_inputs` as in `other`.
    pub(super) fn keeping_inputs_as(self, other: Self) -> Self {
        Self { keep_inputs: other.keep_inputs, ..self }
    }

    /// Returns these rules, with those that are on in `which` as in `other`.
    pub(super) fn with(mut self, mut other: Self, mut which: Self) -> Self {
        for (_, rule) in RULES.iter().filter(|(_, rule)| *rule(&mut which)) {
            *rule(&mut self) = *rule(&mut other);
        }
        self
    }

    /// Returns the names, as in a [`RuleSetting`](super::RuleSetting), of the rules that are off here and on in `allowed`.
    pub fn off_among(mut self, mut allowed: Self) -> impl Iterator<Item = &'static str> {
        RULES.iter().filter(move |(_, rule)| !*rule(&mut self) && *rule(&mut allowed)).map(|(name, _)| *name)
    }

    /// Returns `true` if an operation may write over a source of the same layout in this slot. The rest of the rule is
    /// [`Graph::may_take_memory`](super::Graph::may_take_memory).
    pub fn allow(&self, in_place: InPlace, slot: usize) -> bool {
        let is_on = match in_place {
            InPlace::RowByRow(_) => self.rows,
            InPlace::Scan(_) => self.scans,
            InPlace::Copy => self.copies,
            _ => true,
        };
        self.in_place && is_on && in_place.may_write_over(slot)
    }
}

/// The name of each rule, for settings and reports, and where it is in [`Rules`].
pub(super) type Rule = (&'static str, fn(&mut Rules) -> &mut bool);

pub(super) const RULES: [Rule; 11] = [
    ("in-place", |rules| &mut rules.in_place),
    ("views", |rules| &mut rules.views),
    ("rows", |rules| &mut rules.rows),
    ("scans", |rules| &mut rules.scans),
    ("copies", |rules| &mut rules.copies),
    ("concat", |rules| &mut rules.concat),
    ("oldest-source", |rules| &mut rules.oldest_source),
    ("leafs-last", |rules| &mut rules.leafs_last),
    ("unread-inputs", |rules| &mut rules.unread_inputs),
    ("inactive", |rules| &mut rules.inactive),
    ("keep-inputs", |rules| &mut rules.keep_inputs),
];

/// Writes the words that [`RuleSetting`](super::RuleSetting) parses.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bases = [(Self::ALL, "all"), (Self::GGML, "ggml"), (Self::NONE, "none")];
        let is_base = |&&(base, _): &&(Self, &str)| base.keeping_inputs_as(*self) == *self;
        if let Some((_, word)) = bases.iter().find(is_base) {
            let kept = if self.keep_inputs { ",keep-inputs" } else { "" };
            return write!(f, "{word}{kept}");
        }
        let mut rules = *self;
        write!(f, "none")?;
        RULES.iter().filter(|(_, rule)| *rule(&mut rules)).try_for_each(|(name, _)| write!(f, ",{name}"))
    }
}
