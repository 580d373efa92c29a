//! The meaning of tensor names as GGUF files and llama.cpp give them.

use crate::offload::item::ItemClass;

/// Returns the layer that a name has a number of: "blk.7.ffn_up.weight", "cache_k_l7".
pub fn layer(name: &str) -> Option<u32> {
    let number = |rest: &str| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    };
    let after = |marker: &str| name.split_once(marker).and_then(|(_, rest)| number(rest));
    after("blk.").or_else(|| after("cache_k_l")).or_else(|| after("cache_v_l")).or_else(|| after("_l"))
}

/// Returns `true` for the names that ggml gives: those of tensors that the program has not named, by their places in the first
/// graph that has them.
pub fn is_unnamed(name: &str) -> bool {
    let number = name.strip_prefix("leaf_").or_else(|| name.strip_prefix("node_"));
    name.is_empty() || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the use of a tensor.
pub fn class(name: &str, is_cache: bool) -> ItemClass {
    let part = name.rsplit_once("blk.").map_or(name, |(_, rest)| rest.split_once('.').map_or(rest, |(_, part)| part));
    if is_cache {
        return if name.starts_with("cache_v") { ItemClass::ValueCache } else { ItemClass::KeyCache };
    }
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| part.starts_with(prefix));
    match () {
        () if starts(&["output"]) => ItemClass::Output,
        () if starts(&["attn"]) => ItemClass::Attention,
        () if starts(&["ffn_norm"]) => ItemClass::FfnNorm,
        () if starts(&["ffn"]) => ItemClass::Ffn,
        () if starts(&["fc1", "fc2"]) => ItemClass::Predictor,
        () => ItemClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_ggml_gives_are_known() {
        assert!(["", "leaf_0", "node_1234"].into_iter().all(is_unnamed));
        assert!(
            ["leaf", "leaf_x", "leaf_0 (view)", "node_1 (copy)", "blk.0.leaf_0"].into_iter().all(|it| !is_unnamed(it))
        );
    }

    #[test]
    fn layers_and_classes_follow_from_names() {
        let cases = [
            ("blk.7.ffn_up.weight", false, Some(7), ItemClass::Ffn),
            ("blk.12.ffn_norm.weight", false, Some(12), ItemClass::FfnNorm),
            ("blk.0.attn_q.weight", false, Some(0), ItemClass::Attention),
            ("blk.3.fc1.weight", false, Some(3), ItemClass::Predictor),
            ("output_norm.weight", false, None, ItemClass::Output),
            ("token_embd.weight", false, None, ItemClass::Other),
            ("cache_k_l31", true, Some(31), ItemClass::KeyCache),
            ("cache_v_l4", true, Some(4), ItemClass::ValueCache),
            ("cache_r_l2", true, Some(2), ItemClass::KeyCache),
            ("blk.x.ffn_up", false, None, ItemClass::Ffn),
            ("", false, None, ItemClass::Other),
        ];
        for (name, is_cache, expected_layer, expected_class) in cases {
            assert_eq!((layer(name), class(name, is_cache)), (expected_layer, expected_class), "{name}");
        }
    }
}
