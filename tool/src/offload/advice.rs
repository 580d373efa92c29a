//! What to do about a program that does not hold what is planned.

use std::ffi::OsString;

/// llama.cpp's options that place weights and caches, or select devices for them.
const PLACEMENTS: [&str; 23] = [
    "-dev",
    "--device",
    "-ngl",
    "--gpu-layers",
    "--n-gpu-layers",
    "-ts",
    "--tensor-split",
    "-sm",
    "--split-mode",
    "-mg",
    "--main-gpu",
    "-kvo",
    "--kv-offload",
    "-nkvo",
    "--no-kv-offload",
    "-ot",
    "--override-tensor",
    "-cmoe",
    "--cpu-moe",
    "-ncmoe",
    "--n-cpu-moe",
    "-ncffn",
    "--n-cpu-ffn",
];

/// Returns what to do, given the words of the program and how many graph allocators it has: each may be why it does not hold
/// what is planned.
pub fn advice(words: &[OsString], allocators: usize) -> Vec<String> {
    let own = placements(words);
    let own = (!own.is_empty()).then(|| {
        format!("leave out {} of the program's own arguments: the plan decides what they place", own.join(", "))
    });
    // Each context of llama.cpp has a scheduler, and that an allocator.
    let several = (allocators > 1).then(|| {
        format!(
            "the program has {allocators} graph allocators, as with several contexts or models: each has a compute buffer \
             and may have caches, and a plan is for one. Plan with one context, and leave room for the others with \
             reserve=BYTES of each device: what was found beyond what was promised"
        )
    });
    own.into_iter().chain(several).collect()
}

/// Returns the options that place weights and caches, each once; a value may follow "=" in the same word.
fn placements(words: &[OsString]) -> Vec<&'static str> {
    let options: Vec<&str> = words.iter().filter_map(|word| word.to_str()?.split('=').next()).collect();
    PLACEMENTS.into_iter().filter(|known| options.contains(known)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_placements_and_several_contexts_are_named() {
        let of = |words: &str, allocators: usize| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            advice(&words, allocators)
        };
        assert!(of("llama -m model.gguf -c 512", 1).is_empty());
        let own = "leave out -nkvo, --override-tensor of the program's own arguments: the plan decides what they place";
        assert_eq!(of("llama -nkvo --override-tensor a=CPU --override-tensor b=CPU", 1), [own]);
        assert_eq!(of("llama --override-tensor=a=CPU --no-kv --prompt=-ngl -nkvo", 1), [own]);
        let both = of("llama -ncmoe 3", 2);
        assert_eq!(both.len(), 2);
        assert!(
            both[0].starts_with("leave out -ncmoe of ") && both[1].starts_with("the program has 2 graph allocators, ")
        );
    }
}
