//! Which tensors keep their values beyond their last use, so that the program can read them.
//!
//! Plain data, recorded in a [`Graph`](super::Graph): live ranges, the simulator and every pass respect it. Patterns of names
//! select tensors.

use std::fmt;
use std::str::FromStr;

use super::TensorId;

/// A tensor whose value can be read after its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Retained {
    /// The tensor; for a view, the bytes in its root.
    pub tensor: TensorId,
    /// The node that ends it: the value can be read until that node has run, and the node does not write over it.
    /// `None`, or a tensor that is not a node of the graph: to the end of the graph.
    pub until: Option<TensorId>,
}

/// The retained tensors of a graph, each once; empty for nearly all graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// By tensor.
    list: Vec<Retained>,
    /// The nodes that end retentions, each with the retained tensor; sorted.
    ends: Vec<(TensorId, TensorId)>,
}

impl Retention {
    /// Returns `true` if no tensor is retained.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the retained tensors, by id.
    pub fn list(&self) -> &[Retained] {
        &self.list
    }

    /// Returns how a tensor is retained, if it is.
    pub fn of(&self, tensor: TensorId) -> Option<Retained> {
        let found = self.list.binary_search_by_key(&tensor, |retained| retained.tensor);
        found.ok().map(|at| self.list[at])
    }

    /// Returns the tensors that are retained until `node` has run.
    pub fn until(&self, node: TensorId) -> impl Iterator<Item = TensorId> {
        let first = self.ends.partition_point(|&(end, _)| end < node);
        self.ends[first..].iter().take_while(move |&&(end, _)| end == node).map(|&(_, tensor)| tensor)
    }

    /// Returns the retention without these tensors.
    #[must_use]
    pub fn without(&self, tensors: &[TensorId]) -> Self {
        self.list.iter().copied().filter(|retained| !tensors.contains(&retained.tensor)).collect()
    }
}

/// Collects retained tensors; where a tensor is retained twice, the last one counts.
impl FromIterator<Retained> for Retention {
    fn from_iter<I: IntoIterator<Item = Retained>>(retained: I) -> Self {
        let mut list: Vec<Retained> = retained.into_iter().collect();
        list.sort_by_key(|retained| retained.tensor);
        list.reverse();
        list.dedup_by_key(|retained| retained.tensor);
        list.reverse();
        let mut ends: Vec<_> = list.iter().filter_map(|retained| Some((retained.until?, retained.tensor))).collect();
        ends.sort_unstable();
        Self { list, ends }
    }
}

/// A list of patterns separated by commas, such as `l_out-*,kq*`. A name matches if one of them matches all of it: `*`
/// matches any characters or none, `?` one character, and every other character itself, in the same case. White space
/// around each pattern does not count. An empty list matches no name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamePattern {
    globs: Vec<Box<str>>,
}

/// A text that is not a list of patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPattern {
    text: String,
    /// The number of the pattern that is empty, from 1.
    number: usize,
}

impl NamePattern {
    /// Parses a list of patterns.
    ///
    /// # Errors
    /// [`InvalidPattern`] if one of several patterns is empty.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let glob = |(number, glob): (usize, &str)| match glob.trim() {
            "" => Err(InvalidPattern { text: text.to_owned(), number }),
            glob => Ok(glob.into()),
        };
        Ok(Self { globs: (1..).zip(text.split(',')).map(glob).collect::<Result<_, _>>()? })
    }

    /// Returns the pattern that matches what `self` or `other` matches.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.globs.extend(other.globs);
        self
    }

    /// Returns `true` if it matches no name.
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// Returns the patterns of the list that match none of `names`.
    pub fn without_match<N: AsRef<[u8]>>(&self, names: impl Iterator<Item = N> + Clone) -> Vec<&str> {
        let is_unmatched = |glob: &&str| !names.clone().any(|name| matches(glob.as_bytes(), name.as_ref()));
        self.globs.iter().map(|glob| &**glob).filter(is_unmatched).collect()
    }

    /// Returns `true` if a name matches. Names are text or the bytes of one, as ggml may cut a name in a character.
    pub fn matches(&self, name: impl AsRef<[u8]>) -> bool {
        self.globs.iter().any(|glob| matches(glob.as_bytes(), name.as_ref()))
    }
}

impl FromStr for NamePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        Self::parse(text)
    }
}

/// Writes the list that [`NamePattern::parse`] parses.
impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, glob) in self.globs.iter().enumerate() {
            write!(f, "{}{glob}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, number } = self;
        write!(
            f,
            "pattern {number} of {text:?} is empty; expected names with * and ?, separated by commas: l_out-*,kq*"
        )
    }
}

impl std::error::Error for InvalidPattern {}

/// Returns `true` if `glob` matches all of `name`. After a mismatch only the last `*` can match more: an earlier one
/// would leave the later parts with less. So the time is at most the product of the lengths.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    // Where to continue after a mismatch: behind the last `*`, and one character further in the name.
    let mut retry = None;
    while next < name.len() {
        let after = match glob.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, next));
                at += 1;
                continue;
            }
            Some(b'?') => Some(next + character(&name[next..])),
            Some(byte) => (*byte == name[next]).then_some(next + 1),
            None => None,
        };
        (at, next) = match (after, retry) {
            (Some(after), _) => (at + 1, after),
            (None, Some((behind, from))) => {
                let from = from + character(&name[from..]);
                retry = Some((behind, from));
                (behind, from)
            }
            (None, None) => return false,
        };
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the bytes of the first character of `text`, which is not empty: one byte, and those that continue it.
fn character(text: &[u8]) -> usize {
    1 + text[1..].iter().take_while(|byte| **byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        NamePattern::parse(pattern).expect("a pattern").matches(name)
    }

    #[test]
    fn star_matches_any_characters_or_none() {
        for name in ["", "x", "l_out-3", "kq (view)", "ä"] {
            assert!(matches("*", name), "{name:?}");
        }
        for (pattern, name) in [("l_out-*", "l_out-"), ("*out*", "l_out-12"), ("a*b*c", "aXbXbXc"), ("a*a", "aa")] {
            assert!(matches(pattern, name), "{pattern:?} {name:?}");
        }
        for (pattern, name) in [("l_out-*", "l_out"), ("a*b*c", "aXbX"), ("a*a", "a"), ("*b", "ba"), ("**x", "y")] {
            assert!(!matches(pattern, name), "{pattern:?} {name:?}");
        }
    }

    #[test]
    fn question_mark_matches_one_character() {
        assert!(matches("l_out-?", "l_out-3"));
        assert!(matches("?", "ä"), "a character of two bytes");
        assert!(matches("*?", "a€"));
        assert!(!matches("l_out-?", "l_out-31"));
        assert!(!matches("l_out-?", "l_out-"));
    }

    #[test]
    fn other_characters_match_themselves_in_the_same_case() {
        assert!(matches("kq (view)", "kq (view)"));
        assert!(matches("a.[b]", "a.[b]"));
        assert!(!matches("KQ", "kq"));
        assert!(!matches("kq", "kq (view)"), "all of the name has to match");
    }

    #[test]
    fn one_of_several_patterns_suffices() {
        let pattern = NamePattern::parse(" l_out-* , kq\n").expect("two patterns");
        assert!(pattern.matches("l_out-1") && pattern.matches("kq"));
        assert!(!pattern.matches("kqv") && !pattern.matches("kq "));
        assert_eq!(pattern.to_string(), "l_out-*,kq");
        assert_eq!(pattern.to_string().parse(), Ok(pattern));
    }

    #[test]
    fn patterns_can_be_joined() {
        let [one, other] = ["a*", "b,c?"].map(|text| NamePattern::parse(text).expect("a pattern"));
        let both = one.or(other);
        assert_eq!(both.to_string(), "a*,b,c?");
        assert!(both.matches("ax") && both.matches("b") && !both.matches("d"));
        assert_eq!(NamePattern::default().or(both.clone()), both);
    }

    #[test]
    fn empty_list_matches_no_name() {
        for text in ["", " ", "\t\n"] {
            let pattern = NamePattern::parse(text).expect("an empty list");
            assert!(pattern.is_empty() && !pattern.matches("") && !pattern.matches("x"), "{text:?}");
        }
        assert_eq!(NamePattern::default().to_string(), "");
    }

    #[test]
    fn empty_pattern_in_a_list_is_an_error() {
        for (text, number) in [(",", 1), ("a,", 2), ("a,,b", 2), (" ,a", 1)] {
            let error = NamePattern::parse(text).expect_err("one is empty");
            assert_eq!(error, InvalidPattern { text: text.to_owned(), number });
        }
        let error = NamePattern::parse("a,,b").expect_err("one is empty");
        assert_eq!(
            error.to_string(),
            "pattern 2 of \"a,,b\" is empty; expected names with * and ?, separated by commas: l_out-*,kq*"
        );
    }

    #[test]
    fn many_stars_take_little_time() {
        let name = "a".repeat(63);
        assert!(!matches(&"*a".repeat(40).replace("*a*a", "*aa*ab"), &name));
        assert!(matches(&"*a".repeat(40), &name));
    }

    #[test]
    fn name_that_was_cut_in_a_character_matches() {
        let pattern = NamePattern::parse("name*,?").expect("two patterns");
        assert!(pattern.matches(b"name\xe2\x82".as_slice()) && pattern.matches(b"\xc3".as_slice()));
    }
}
