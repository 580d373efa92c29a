//! The kinds of offload plans that llama.cpp has options for.

use lastuse::offload::captured::{CapturedItems, LayerHomes};
use lastuse::offload::item::{Item, ItemKind};
use lastuse::offload::planner::{NotPlaced, OffloadPlan};

use super::llama_cpp::{arguments, prepare};
use super::planning::Planner;

/// A kind of offload plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Whole layers (-ngl)
    Layers,
    /// All layers, but for the experts of the first ones (--n-cpu-moe)
    Experts,
    /// All layers, but for the FFNs of the first ones (--n-cpu-ffn)
    Ffns,
    /// Single tensors (-ot)
    Tensors,
}

impl Kind {
    /// All, the coarsest first.
    pub const ALL: [Self; 4] = [Self::Layers, Self::Experts, Self::Ffns, Self::Tensors];

    /// Returns the name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Layers => "layers",
            Self::Experts => "experts",
            Self::Ffns => "ffns",
            Self::Tensors => "tensors",
        }
    }

    /// Returns `true` for options that not every program with -ngl has.
    pub fn has_rare_option(self) -> bool {
        self.of_first_layers().is_some()
    }

    /// Returns the option that keeps such weights of the first layers on the host, and the parts of a layer that it names.
    fn of_first_layers(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Self::Experts => Some((
                "--n-cpu-moe",
                &[
                    "ffn_up_exps", "ffn_down_exps", "ffn_gate_exps", "ffn_gate_up_exps", "ffn_up_chexps", "ffn_down_chexps",
                    "ffn_gate_chexps", "ffn_gate_up_chexps",
                ],
            )),
            Self::Ffns => Some(("--n-cpu-ffn", &["ffn_up.", "ffn_down.", "ffn_gate."])),
            Self::Layers | Self::Tensors => None,
        }
    }
}

/// Weights of the first layers that an option of llama.cpp keeps on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstLayers {
    option: &'static str,
    parts: &'static [&'static str],
    /// How many layers.
    count: u32,
}

impl FirstLayers {
    /// Returns the arguments; none where nothing is kept.
    pub fn arguments(&self) -> Vec<String> {
        if self.count == 0 { Vec::new() } else { vec![self.option.to_owned(), self.count.to_string()] }
    }

    /// Returns `true` for a weight that is kept on the host.
    pub fn has(&self, item: &Item) -> bool {
        item.layer.is_some_and(|layer| layer < self.count) && self.is_part(item)
    }

    /// Returns `true` for a weight that is kept there in some layer.
    fn is_part(&self, item: &Item) -> bool {
        let part = item.layer.and_then(|layer| item.name.split_once(&format!("blk.{layer}.")));
        part.is_some_and(|(_, part)| self.parts.iter().any(|known| part.starts_with(known)))
    }
}

/// An offload plan and the arguments for it.
#[derive(Clone, Debug)]
pub struct Planned {
    pub kind: Kind,
    /// What is placed, with what is pinned for this kind.
    pub found: CapturedItems,
    pub plan: OffloadPlan,
    /// Whether operations on weights of the host may be on devices.
    pub op_offload: bool,
    pub arguments: Vec<String>,
}

impl Planner<'_> {
    /// Returns the best plan of a kind, of which single tensors are no worse than `coarser` plans. `None` where the model has no such
    /// weights.
    pub fn of_kind(&self, found: &CapturedItems, kind: Kind, coarser: &[Planned]) -> Option<Result<Planned, NotPlaced>> {
        let mut found = found.clone();
        prepare(&mut found.items, self.host(), kind != Kind::Tensors);
        let planned = |found: CapturedItems, plan: OffloadPlan, op_offload: bool, kept: Option<&FirstLayers>| {
            let arguments = arguments(self.devices, &found.items, &plan.assignment, kept, op_offload);
            Planned { kind, found, plan, op_offload, arguments }
        };
        match kind.of_first_layers() {
            None => {
                let mut placed = self.plan(&found, kind == Kind::Layers);
                for from in coarser.iter().filter(|_| kind == Kind::Tensors) {
                    let (plan, op_offload) = match self.with_more(&found, from) {
                        Ok(plan) => (plan, from.op_offload),
                        Err(_) => continue,
                    };
                    if placed.as_ref().map_or(true, |(best, _)| plan.benefit > best.benefit) {
                        placed = Ok((plan, op_offload));
                    }
                }
                Some(placed.map(|(plan, op_offload)| planned(found, plan, op_offload, None)))
            }
            // Models of experts may have other FFNs in their first layers, and llama.cpp's option for FFNs is for those without.
            Some(_) if kind == Kind::Ffns && has_parts(&found.items, Kind::Experts) => None,
            Some(_) if !has_parts(&found.items, kind) => None,
            Some((option, parts)) => {
                let kept = |count: u32| FirstLayers { option, parts, count };
                let placed = self.with_first_layers(&found, kept);
                Some(placed.map(|(found, plan, op_offload, kept)| planned(found, plan, op_offload, Some(&kept))))
            }
        }
    }

    /// Returns the best plan that adds tensors to what another one has on devices.
    fn with_more(&self, found: &CapturedItems, from: &Planned) -> Result<OffloadPlan, NotPlaced> {
        let host = self.host();
        let mut found = found.clone();
        for (item, place) in found.items.iter_mut().zip(&from.plan.assignment.0) {
            if place.device != host || item.kind == ItemKind::Cache {
                item.pinned = Some(place.device);
            }
        }
        self.plan_with(&found, false, from.op_offload)
    }

    /// Returns the plan with all layers on devices that keeps weights of the fewest layers on the host.
    fn with_first_layers(
        &self,
        found: &CapturedItems,
        kept: impl Fn(u32) -> FirstLayers,
    ) -> Result<(CapturedItems, OffloadPlan, bool, FirstLayers), NotPlaced> {
        let all = kept(u32::MAX);
        let layers = found.items.iter().filter(|item| all.is_part(item)).filter_map(|item| item.layer).max();
        let layers = layers.map_or(0, |last| last + 1);
        let mut op_offload = self.op_offload;
        loop {
            let planned = |count: u32| self.kept_on_host(found, &kept(count), op_offload);
            match planned(layers) {
                Ok(most) => {
                    // Copies of weights on the host may need more room than the weights of a layer, so none is tried apart.
                    let (mut best, mut fits, mut fails) = (most, layers, 0);
                    if let Ok(none) = planned(0) {
                        (best, fits) = (none, 0);
                    }
                    while fits > fails + 1 {
                        let middle = fails + (fits - fails) / 2;
                        match planned(middle) {
                            Ok(plan) => (best, fits) = (plan, middle),
                            Err(_) => fails = middle,
                        }
                    }
                    let (found, plan) = best;
                    return Ok((found, plan, op_offload, kept(fits)));
                }
                Err(NotPlaced::Infeasible(_)) if op_offload => op_offload = false,
                Err(why) => return Err(why),
            }
        }
    }

    /// Returns the plan with all layers on devices but for what is kept, if that is within the budgets.
    fn kept_on_host(
        &self,
        found: &CapturedItems,
        kept: &FirstLayers,
        op_offload: bool,
    ) -> Result<(CapturedItems, OffloadPlan), NotPlaced> {
        let host = self.host();
        let mut found = found.clone();
        for item in &mut found.items {
            if kept.has(item) {
                item.pinned = Some(host);
            } else if host == 1 && item.layer.is_some() {
                // There is one plan, so nothing is searched for.
                item.pinned = Some(0);
            }
        }
        let plan = self.plan_with(&found, true, op_offload)?;
        let homes = LayerHomes::of(&found.items, &plan.assignment, host);
        let mut places = found.items.iter().zip(&plan.assignment.0).filter(|(item, _)| item.layer.is_some());
        let is_whole = places.all(|(item, place)| place.device != host || item.pinned == Some(host));
        if !is_whole || !homes.is_all_on_devices() {
            return Err(NotPlaced::Infeasible(Vec::new()));
        }
        Ok((found, plan))
    }
}

/// Returns `true` if a model has weights that the option of a kind names.
fn has_parts(items: &[Item], kind: Kind) -> bool {
    let of_option = |(option, parts)| FirstLayers { option, parts, count: 0 };
    kind.of_first_layers().map(of_option).is_some_and(|first| items.iter().any(|item| first.is_part(item)))
}
