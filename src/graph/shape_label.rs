//! A short label for the input of a graph.

/// Describes a graph by its inputs, given by name and extents: by the number of tokens, where an input holds tokens, and
/// otherwise by the largest input. `None` without inputs.
///
/// Labels tell graphs of one program apart: "512 tokens", "1 token", "x [64, 64, 4]".
pub fn shape_label(inputs: impl IntoIterator<Item = (String, [i64; 4])>) -> Option<String> {
    let inputs: Vec<(String, [i64; 4])> = inputs.into_iter().collect();
    let tokens = inputs.iter().find(|(name, ne)| name.contains("token") && ne[1..] == [1, 1, 1]);
    if let Some((_, [count, ..])) = tokens {
        return Some(format!("{count} token{}", if *count == 1 { "" } else { "s" }));
    }
    // The first of equally large inputs.
    let elements = |ne: &[i64; 4]| ne.iter().fold(1, |product: i64, extent| product.saturating_mul(*extent));
    let largest = inputs.iter().rev().max_by_key(|(_, ne)| elements(ne))?;
    Some(format!("{} {}", largest.0, extents(&largest.1)).trim_start().to_owned())
}

/// Formats extents without the ones at the end: "[64, 64, 4]".
pub fn extents(ne: &[i64; 4]) -> String {
    let used = ne.iter().rposition(|&extent| extent != 1).map_or(1, |last| last + 1);
    let numbers: Vec<String> = ne[..used].iter().map(i64::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(inputs: &[(&str, [i64; 4])]) -> Option<String> {
        shape_label(inputs.iter().map(|&(name, ne)| (name.to_owned(), ne)))
    }

    #[test]
    fn tokens_are_counted() {
        let mask = ("mask", [512, 512, 1, 1]);
        assert_eq!(label(&[mask, ("inp_tokens", [512, 1, 1, 1])]).as_deref(), Some("512 tokens"));
        assert_eq!(label(&[("CPU#inp_tokens#0", [1, 1, 1, 1])]).as_deref(), Some("1 token"));
    }

    #[test]
    fn other_graphs_have_their_largest_input() {
        let (small, large) = (("t", [1, 1, 1, 1]), ("x", [64, 64, 4, 1]));
        assert_eq!(label(&[small, large]).as_deref(), Some("x [64, 64, 4]"));
        assert_eq!(label(&[("a", [2, 2, 1, 1]), ("b", [4, 1, 1, 1])]).as_deref(), Some("a [2, 2]"));
        assert_eq!(label(&[("", [1, 1, 1, 1])]).as_deref(), Some("[1]"));
        assert_eq!(label(&[("tokens_by_head", [8, 8, 1, 1])]).as_deref(), Some("tokens_by_head [8, 8]"));
        assert_eq!(label(&[]), None);
    }
}
