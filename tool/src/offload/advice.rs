//! What to do about a program that does not hold what is planned.

use std::ffi::OsString;

/// llama.cpp's options that place weights and caches, or select devices for them, but for the number of layers, of which the last
/// one counts.
const PLACEMENTS: [&str; 20] = [
    "-dev",
    "--device",
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

/// The beginning of the variables that llama.cpp reads in place of options, and their ends for those above.
const VARIABLES: (&str, [&str; 9]) = (
    "LLAMA_ARG_",
    [
        "DEVICE",
        "TENSOR_SPLIT",
        "SPLIT_MODE",
        "MAIN_GPU",
        "KV_OFFLOAD",
        "NO_KV_OFFLOAD",
        "OVERRIDE_TENSOR",
        "CPU_MOE",
        "N_CPU_MOE",
    ],
);

/// Returns what to do, given the words of the program, the names of its variables, and how many graph allocators it has: each may
/// be why it does not hold what is planned.
pub fn advice(words: &[OsString], variables: impl Iterator<Item = OsString>, allocators: usize) -> Vec<String> {
    let mut all = Vec::new();
    let own = placements(words);
    if !own.is_empty() {
        all.push(format!(
            "leave out {} of the program's own arguments: the plan decides what they place",
            own.join(", ")
        ));
    }
    let (prefix, ends) = VARIABLES;
    let is_placement = |name: &String| name.strip_prefix(prefix).is_some_and(|end| ends.contains(&end));
    let variables: Vec<String> = variables.filter_map(|name| name.into_string().ok()).filter(is_placement).collect();
    if !variables.is_empty() {
        all.push(format!("unset {}: the plan decides what they place", variables.join(", ")));
    }
    // Each context of llama.cpp has a scheduler, and that an allocator.
    if allocators > 1 {
        all.push(format!(
            "the program has {allocators} graph allocators, as with several contexts or models: each has a compute buffer \
             and may have caches, and a plan is for one. Plan with one context, and leave room for the others with \
             reserve=BYTES of each device: what was found beyond what was promised"
        ));
    }
    if all.is_empty() {
        all.push(
            "compare the properties given with --device (events, alignment, max-buffer) with the device's; a smaller max-buffer \
             keeps a tensor off it that it refuses, and reserve=BYTES of cpu leaves room for other buffers of the program"
                .to_owned(),
        );
    }
    all
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
        let of = |words: &str, variables: &str, allocators: usize| {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            advice(&words, variables.split(' ').map(OsString::from), allocators)
        };
        let [general] = &of("llama -m model.gguf -ngl 3", "HOME LLAMA_ARG_CTX_SIZE", 1)[..] else {
            panic!("one advice")
        };
        assert!(general.starts_with("compare the properties given with --device "));
        let own = "leave out -nkvo, --override-tensor of the program's own arguments: the plan decides what they place";
        assert_eq!(of("llama -nkvo --override-tensor a=CPU --override-tensor b=CPU", "", 1), [own]);
        assert_eq!(of("llama --override-tensor=a=CPU --no-kv --prompt=-ot -nkvo", "", 1), [own]);
        let all = of("llama -ncmoe 3", "HOME LLAMA_ARG_KV_OFFLOAD LLAMA_ARG_N_CPU_MOE", 2);
        assert_eq!(all[1], "unset LLAMA_ARG_KV_OFFLOAD, LLAMA_ARG_N_CPU_MOE: the plan decides what they place");
        assert!(
            all[0].starts_with("leave out -ncmoe of ") && all[2].starts_with("the program has 2 graph allocators, ")
        );
        assert_eq!(all.len(), 3);
    }
}
