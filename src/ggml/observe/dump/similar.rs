//! Names that are similar to a pattern.

use std::collections::BTreeSet;

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
