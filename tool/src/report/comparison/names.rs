//! Names that the tensors of all layers share.

/// Returns the name of the group that a tensor belongs to: a number that is a word, or follows a lone "l", is "*", as in
/// `blk.*.ffn_up.weight` and `cache_k_l*`. The operation goes before a name that ggml gave, since that tells nothing else.
pub fn group_name(name: &str, op: &str) -> String {
    let name = without_numbers(name);
    let is_given_by_ggml = ["node_*", "leaf_*"].iter().any(|given| name.contains(given));
    match op {
        "" | "NONE" if name.trim().is_empty() => "tensors without a name".to_owned(),
        "" | "NONE" => name,
        op if is_given_by_ggml || name.is_empty() || name.starts_with(' ') => {
            format!("{op} {}", name.trim_start()).trim_end().to_owned()
        }
        _ => name,
    }
}

/// Replaces the numbers of a name that count layers or nodes.
pub fn without_numbers(name: &str) -> String {
    let is_word_letter = |letter: char| letter.is_ascii_alphanumeric();
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let end = if is_word_letter(first) {
            rest.find(|letter| !is_word_letter(letter)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, behind) = rest.split_at(end);
        let digits = word.strip_prefix('l').filter(|digits| !digits.is_empty()).unwrap_or(word);
        if digits.bytes().all(|digit| digit.is_ascii_digit()) {
            text += &word[..word.len() - digits.len()];
            text.push('*');
        } else {
            text += word;
        }
        rest = behind;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_one_group() {
        let cases = [
            ("blk.12.ffn_up.weight", "NONE", "blk.*.ffn_up.weight"),
            ("cache_k_l7", "NONE", "cache_k_l*"),
            ("Qcur-3 (reshaped)", "RESHAPE", "Qcur-* (reshaped)"),
            ("up_blocks.1.attn1.to_q", "MUL_MAT", "up_blocks.*.attn1.to_q"),
            ("mel_f16", "NONE", "mel_f16"),
            ("l_out-3", "ADD", "l_out-*"),
            ("label", "ADD", "label"),
            ("w\u{e4}rme-3", "ADD", "w\u{e4}rme-*"),
        ];
        for (name, op, group) in cases {
            assert_eq!(group_name(name, op), group);
        }
    }

    #[test]
    fn names_of_ggml_have_their_operation() {
        assert_eq!(group_name("node_99", "MUL_MAT"), "MUL_MAT node_*");
        assert_eq!(group_name("grad for node_7", "ADD"), "ADD grad for node_*");
        assert_eq!(group_name(" (permuted) (cont)", "CONT"), "CONT (permuted) (cont)");
        assert_eq!(group_name("", "ADD"), "ADD");
        assert_eq!(group_name("", "NONE"), "tensors without a name");
        assert_eq!(group_name("leaf_4", "NONE"), "leaf_*");
    }
}
