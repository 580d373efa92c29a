//! Where nodes are computed, as far as rules of sharing depend on it.

use super::Rules;

/// Where the nodes of a buffer are computed, as far as rules depend on it.
///
/// Backends of GPUs fuse nodes, relying on the in-place decisions of ggml's own allocator, so these stay as they are on
/// every device. What else a backend's kernels tolerate is in `docs/internals/device-kernels.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Memory in which ggml's CPU backend computes, and nothing else.
    Cpu,
    /// A device of ggml's Vulkan backend, as of ggml 0.26, whose kernels are tested on a device.
    Vulkan,
    /// A device of ggml's CUDA backend, with CUDA, ROCm or MUSA.
    Cuda,
    /// A device of ggml's Metal backend.
    Metal,
    /// Another GPU, or a device of which nothing is known.
    Gpu,
    /// Several devices behind one buffer type, which divide each node among them. They sum up parts also of nodes that
    /// lack [`Flags::COMPUTE`](super::Flags::COMPUTE).
    Several,
}

/// Rules that are correct on every device, beyond those of ggml's own allocator, and tensors that may be kept there.
const EVERYWHERE: Rules =
    Rules { leafs_last: true, unread_inputs: true, inactive: true, keep_inputs: true, ..Rules::NONE };

/// Rules that are correct where the kernels of ggml's Vulkan backend compute. Views are not: its check of fusions
/// ignores sources that are leafs, and would miss one that a view of it was computed in place of.
const VULKAN: Rules = Rules { rows: true, scans: true, copies: true, concat: true, ..EVERYWHERE };

impl Device {
    /// The names of devices that [`RuleSetting`](super::RuleSetting) knows.
    pub(super) const NAMES: [&'static str; 5] = ["cpu", "gpu", "vulkan", "cuda", "metal"];

    /// Returns the device other than a CPU of which ggml's device or buffer type has this name: that of the backend,
    /// and a number.
    pub fn named(name: &str) -> Self {
        match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "Vulkan" => Self::Vulkan,
            "CUDA" | "ROCm" | "MUSA" => Self::Cuda,
            "MTL" | "Metal" => Self::Metal,
            _ => Self::Gpu,
        }
    }

    /// Returns `true` if its backend is known to run some sequences of nodes as one kernel only where their addresses allow it.
    pub fn fuses_by_address(self) -> bool {
        matches!(self, Self::Vulkan | Self::Cuda)
    }

    /// Returns the rules in force where a user sets none, in allocators of schedulers: all that are known to be correct
    /// there.
    pub fn default_rules(self) -> Rules {
        Rules { in_place: true, keep_inputs: false, ..self.open_rules() }
    }

    /// Returns the rules that a word without a device may change.
    pub(super) fn open_rules(self) -> Rules {
        match self {
            Self::Cpu => Rules { keep_inputs: true, ..Rules::ALL },
            Self::Vulkan => VULKAN,
            Self::Cuda | Self::Metal | Self::Gpu => EVERYWHERE,
            Self::Several => Rules { inactive: false, ..EVERYWHERE },
        }
    }

    /// Returns `true` if a prefix of a word names this device.
    pub(super) fn is_named(self, prefix: &str) -> bool {
        match prefix {
            "cpu" => self == Self::Cpu,
            "vulkan" => self == Self::Vulkan,
            "cuda" => self == Self::Cuda,
            "metal" => self == Self::Metal,
            _ => self != Self::Cpu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::RuleSetting;

    const ALL: [Device; 6] = [Device::Cpu, Device::Vulkan, Device::Cuda, Device::Metal, Device::Gpu, Device::Several];

    fn rules(words: &str, device: Device) -> Rules {
        words.parse::<RuleSetting>().expect("known words").rules_on(device)
    }

    #[test]
    fn devices_are_known_by_the_names_of_ggml() {
        assert_eq!(Device::named("Vulkan0"), Device::Vulkan);
        assert!(["CUDA1", "ROCm0", "MUSA12"].into_iter().all(|name| Device::named(name) == Device::Cuda));
        assert!(["MTL0", "Metal"].into_iter().all(|name| Device::named(name) == Device::Metal));
        let others = ["Vulkan_Host", "CUDA0_Split", "RPC0[127.0.0.1:1]", "SYCL0", "", "7"];
        assert!(others.into_iter().all(|name| Device::named(name) == Device::Gpu));
    }

    #[test]
    fn words_reach_the_devices_that_they_name() {
        for (word, named) in [
            ("vulkan:no-rows", vec![Device::Vulkan]),
            ("cuda:rows", vec![Device::Cuda]),
            ("metal:rows", vec![Device::Metal]),
            ("gpu:views", ALL[1..].to_vec()),
            ("cpu:no-rows", vec![Device::Cpu]),
        ] {
            let reached = ALL.into_iter().filter(|&device| rules(word, device) != device.default_rules());
            assert_eq!(reached.collect::<Vec<_>>(), named, "{word}");
        }
    }

    #[test]
    fn in_place_decisions_of_ggml_follow_only_words_that_name_the_device() {
        for device in &ALL[1..] {
            assert!(rules("none", *device).in_place, "{device:?}");
            assert!(!rules("gpu:none", *device).in_place, "{device:?}");
            assert_eq!(rules("ggml", *device), Rules::GGML, "{device:?}");
            assert_eq!(rules("gpu:all,default", *device), device.default_rules(), "{device:?}");
        }
    }

    #[test]
    fn inputs_are_kept_in_direct_use_unless_their_own_word_says_otherwise() {
        let kept = |words: &str, device| {
            let setting: RuleSetting = words.parse().expect("known words");
            [setting.rules_on(device).keep_inputs, setting.for_direct_use().rules_on(device).keep_inputs]
        };
        for device in ALL {
            for words in ["", "default", "ggml", "all", "none", "no-rows", "gpu:all,cpu:none"] {
                assert_eq!(kept(words, device), [false, true], "{words} on {device:?}");
            }
            assert_eq!(kept("keep-inputs,ggml,keep-inputs", device), [true, true], "{device:?}");
            assert_eq!(kept("no-keep-inputs", device), [false, false], "{device:?}");
        }
        assert_eq!(Rules { keep_inputs: true, ..Rules::GGML }.to_string(), "ggml,keep-inputs");
    }

    #[test]
    fn words_without_a_device_change_what_is_correct_there() {
        assert_eq!(rules("all", Device::Vulkan), Device::Vulkan.default_rules());
        let vulkan = rules("no-rows", Device::Vulkan);
        assert!(!vulkan.rows && vulkan.scans && vulkan.copies && vulkan.concat);
        assert!(!rules("rows,scans,copies,views", Device::Cuda).rows);
        let cuda = rules("cuda:rows", Device::Cuda);
        assert!(cuda.rows && !cuda.scans && !cuda.copies && !cuda.concat && !cuda.views);
    }
}
