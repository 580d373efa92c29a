//! The numbers of a C enum, from the text of a header.

/// The names and numbers of `enum name { .. }`, in their order; nothing when the header has no such enum. Values are
/// decimal numbers or missing.
pub fn enumerators<'t>(header: &'t str, name: &str) -> Vec<(&'t str, u32)> {
    let start = format!("enum {name} {{");
    let Some((_, body)) = header.split_once(&start) else { return Vec::new() };
    let body = body.split_once('}').map_or(body, |(body, _)| body);
    let mut next = 0;
    let mut found = Vec::new();
    for entry in body.lines().flat_map(|line| line.split("//").next().unwrap_or_default().split(',')) {
        let (name, value) =
            entry.split_once('=').map_or((entry, None), |(name, value)| (name, value.trim().parse().ok()));
        if !name.trim().is_empty() {
            let number = value.unwrap_or(next);
            found.push((name.trim(), number));
            next = number + 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::enumerators;

    #[test]
    fn numbers_continue_after_a_given_value() {
        let header = "enum kind {\n  A = 3,\n  B, // C\n  D = 7, E,\n\n  COUNT,\n};";
        let expected = [("A", 3), ("B", 4), ("D", 7), ("E", 8), ("COUNT", 9)];
        assert_eq!(enumerators(header, "kind"), expected);
    }

    #[test]
    fn missing_enum_has_no_numbers() {
        assert!(enumerators("enum other { A };", "kind").is_empty());
    }
}
