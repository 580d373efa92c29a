//! Options of llama.cpp that keep a part of the first layers on the host.

use lastuse::offload::item::Item;

use super::kinds::Kind;

/// Weights of the first layers that an option keeps on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstLayers {
    option: &'static str,
    /// The beginnings of their names in a layer.
    parts: &'static [&'static str],
    /// How many layers.
    count: u32,
}

/// What `--n-cpu-moe` names.
const EXPERTS: [&str; 8] = [
    "ffn_up_exps",
    "ffn_down_exps",
    "ffn_gate_exps",
    "ffn_gate_up_exps",
    "ffn_up_chexps",
    "ffn_down_chexps",
    "ffn_gate_chexps",
    "ffn_gate_up_chexps",
];

/// What `--n-cpu-ffn` names.
const FFNS: [&str; 3] = ["ffn_up.", "ffn_down.", "ffn_gate."];

impl FirstLayers {
    /// Returns those of a kind of plan; `None` for kinds without such an option.
    pub fn of(kind: Kind, count: u32) -> Option<Self> {
        match kind {
            Kind::Experts => Some(Self { option: "--n-cpu-moe", parts: &EXPERTS, count }),
            Kind::Ffns => Some(Self { option: "--n-cpu-ffn", parts: &FFNS, count }),
            Kind::Layers | Kind::Tensors => None,
        }
    }

    /// Returns those of so many layers.
    pub fn with(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// Returns the arguments; none where nothing is kept.
    pub fn arguments(&self) -> Vec<String> {
        if self.count == 0 { Vec::new() } else { vec![self.option.to_owned(), self.count.to_string()] }
    }

    /// Returns `true` for a weight that is kept on the host.
    pub fn has(&self, item: &Item) -> bool {
        let Some(layer) = item.layer.filter(|&layer| layer < self.count) else { return false };
        let part = item.name.split_once(&format!("blk.{layer}."));
        part.is_some_and(|(_, part)| self.parts.iter().any(|known| part.starts_with(known)))
    }
}

#[cfg(test)]
mod tests {
    use lastuse::offload::item::{ItemClass, ItemKind};

    use super::*;

    #[test]
    fn options_name_the_weights_that_llama_cpp_keeps() {
        let item = |name: &str, layer: u32| Item {
            name: name.to_owned(),
            kind: ItemKind::Weight,
            class: ItemClass::Ffn,
            bytes: 1,
            layer: Some(layer),
            benefit: 1.0,
            pinned: None,
            rows: None,
            is_on_host: false,
        };
        let has =
            |kind: Kind, name: &str, layer: u32| FirstLayers::of(kind, 12).expect("an option").has(&item(name, layer));
        assert!(
            has(Kind::Experts, "blk.3.ffn_up_exps.weight", 3) && has(Kind::Experts, "blk.11.ffn_gate_up_exps.bias", 11)
        );
        assert!(!has(Kind::Experts, "blk.12.ffn_up_exps.weight", 12) && !has(Kind::Experts, "blk.3.ffn_up.weight", 3));
        assert!(
            !has(Kind::Experts, "blk.3.ffn_gate_inp.weight", 3) && !has(Kind::Experts, "blk.3.ffn_up_shexp.weight", 3)
        );
        assert!(has(Kind::Ffns, "blk.3.ffn_up.weight", 3) && has(Kind::Ffns, "blk.0.ffn_down.bias", 0));
        assert!(!has(Kind::Ffns, "blk.3.ffn_norm.weight", 3) && !has(Kind::Ffns, "blk.3.ffn_up_exps.weight", 3));
    }
}
