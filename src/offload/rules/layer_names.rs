//! Layers in the names of results, as llama.cpp and PowerInfer write them.

/// Returns N for the name of a result of layer N: "Qcur-3", "Qcur-3 (view)".
pub fn layer_of(name: &str) -> Option<u32> {
    let (_, number) = without_additions(name).rsplit_once('-')?;
    if number.bytes().all(|byte| byte.is_ascii_digit()) { number.parse().ok() } else { None }
}

/// Returns the name without what ggml appends for views: " (view)", " (permuted)" and the like.
fn without_additions(name: &str) -> &str {
    name.split_once(" (").map_or(name, |(name, _)| name)
}

/// Returns `true` if a name is that of a result of some layer: `base`, a hyphen and a number, nothing behind.
pub fn is_of_layer(name: &str, base: &str) -> bool {
    name.strip_prefix(base)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_layers() {
        assert_eq!(layer_of("Qcur-3"), Some(3));
        assert_eq!(layer_of("Qcur-3 (view) (permuted)"), Some(3));
        assert_eq!([layer_of("embd"), layer_of("a-"), layer_of("a-b"), layer_of("a-99999999999")], [None; 4]);
        assert!(is_of_layer("norm-12", "norm"));
        assert!(
            !is_of_layer("attn_norm-12", "norm")
                && !is_of_layer("norm-", "norm")
                && !is_of_layer("norm-1 (view)", "norm")
        );
    }
}
