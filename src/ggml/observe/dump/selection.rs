//! Which tensors of a graph are dumped, and names that are similar to a pattern.

use std::collections::BTreeSet;

use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::graph::{Flags, NamePattern};

/// The list of a graph that a tensor is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Nodes,
    Leafs,
}

impl List {
    /// Returns the word for a member of the list, in file names and in the index.
    pub fn member(self) -> &'static str {
        match self {
            Self::Nodes => "node",
            Self::Leafs => "leaf",
        }
    }
}

/// A tensor to be dumped.
#[derive(Clone, Debug)]
pub struct Selected<'g> {
    pub list: List,
    /// Its position in the list.
    pub index: usize,
    pub tensor: TensorRef<'g>,
}

/// Returns `true` if the name of a tensor matches.
pub fn is_selected(tensor: TensorRef<'_>, pattern: &NamePattern) -> bool {
    tensor.with_name(|name| pattern.matches(name.to_bytes()))
}

/// Returns the nodes that were computed and the inputs whose names match. Other leafs, usually weights and caches, do
/// not count.
pub fn select<'g>(graph: GraphRef<'g>, pattern: &NamePattern) -> Vec<Selected<'g>> {
    let knows_flag = graph.nodes.iter().any(|node| is_flagged(*node, Flags::COMPUTE));
    let nodes = select_from(List::Nodes, graph.nodes, |node| !knows_flag || is_flagged(node, Flags::COMPUTE));
    let inputs = select_from(List::Leafs, graph.leafs, |leaf| is_flagged(leaf, Flags::INPUT));
    nodes.chain(inputs).filter(|one| is_selected(one.tensor, pattern)).collect()
}

fn select_from<'g>(
    list: List,
    tensors: &'g [TensorRef<'g>],
    is_candidate: impl Fn(TensorRef<'g>) -> bool,
) -> impl Iterator<Item = Selected<'g>> {
    let all = tensors.iter().enumerate().map(move |(index, &tensor)| Selected { list, index, tensor });
    all.filter(move |one| is_candidate(one.tensor))
}

fn is_flagged(tensor: TensorRef<'_>, flag: Flags) -> bool {
    Flags(tensor.flags()).has(flag)
}

/// How many names are returned.
const COUNT: usize = 5;

/// Returns the most similar of `names`, each once, the most similar first.
pub fn similar_names(pattern: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted: Vec<Vec<char>> = pattern.split(',').map(plain).collect();
    let distance = |name: &str| {
        let name = plain(name);
        wanted.iter().map(|wanted| edits(wanted, &name)).min().unwrap_or(0)
    };
    let distinct: BTreeSet<String> = names.filter(|name| !name.is_empty()).collect();
    let mut ranked: Vec<(usize, String)> = distinct.into_iter().map(|name| (distance(&name), name)).collect();
    ranked.sort();
    ranked.into_iter().take(COUNT).map(|(_, name)| name).collect()
}

/// Returns the letters and digits of a name or a pattern, in lower case.
fn plain(text: &str) -> Vec<char> {
    text.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Returns how many letters are added, removed or changed between two words.
fn edits(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (removed, letter) in (1..).zip(from) {
        let mut diagonal = std::mem::replace(&mut row[0], removed);
        for (column, other) in (1..).zip(to) {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[column];
            row[column] = changed.min(diagonal + 1).min(row[column - 1] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similar(pattern: &str, names: &[&str]) -> Vec<String> {
        similar_names(pattern, names.iter().map(|&name| name.to_owned()))
    }

    #[test]
    fn edits_are_counted() {
        let edits = |from: &str, to: &str| edits(&plain(from), &plain(to));
        assert_eq!(edits("", ""), 0);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", ""), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("L_OUT-*", "l_out-"), 0, "case, marks and wildcards do not count");
    }

    #[test]
    fn most_similar_names_come_first_and_once() {
        let names = ["result_norm", "l_out-0", "kq", "l_out-0", "", "l_out-10", "ffn_out-0"];
        assert_eq!(similar("L_OUT_1*", &names)[..2], ["l_out-0", "l_out-10"]);
        assert_eq!(similar("KQ", &names)[0], "kq");
        assert_eq!(similar("x", &names).len(), COUNT);
        assert_eq!(similar("norm,kq", &names)[0], "kq");
    }

    #[test]
    fn graph_without_names_has_none() {
        assert_eq!(similar("x", &["", ""]), [""; 0]);
    }
}
