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
                    "ffn_up_exps",
                    "ffn_down_exps",
                    "ffn_gate_exps",
                    "ffn_gate_up_exps",
                    "ffn_up_chexps",
                    "ffn_down_chexps",
                    "ffn_gate_chexps",
                    "ffn_gate_up_chexps",
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
    pub fn of_kind(
        &self,
        found: &CapturedItems,
        kind: Kind,
        coarser: &[Planned],
    ) -> Option<Result<Planned, NotPlaced>> {
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
            // No device is short, but some layers are on the host.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lastuse::graph::snapshot::Snapshot;
    use lastuse::offload::captured::CapturedRule;
    use lastuse::offload::device::Device;
    use lastuse::offload::item::ItemClass;
    use lastuse::offload::planner::Order;
    use lastuse::offload::rules::{SchedulerOptions, unscheduled};

    use super::*;
    use crate::input::Input;

    fn graph(name: &str) -> [Snapshot; 1] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../c-tests/graphs").join(name);
        [unscheduled(&Input::read_graph(&file).expect("a graph"))]
    }

    /// Plans of the kinds on devices of these bytes.
    fn planned(graph: &[Snapshot], budgets: &[u64]) -> Vec<Planned> {
        let named = |(at, &budget): (usize, &u64)| Device {
            budget: Some(budget),
            alignment: 128,
            ..Device::new(format!("GPU{at}"))
        };
        let mut devices: Vec<Device> = budgets.iter().enumerate().map(named).collect();
        devices.push(Device::new("cpu"));
        let rule = CapturedRule::Scheduler(SchedulerOptions::default());
        let planner = Planner {
            snapshots: graph,
            devices: &devices,
            order: Order::Benefit,
            rule,
            has_events: false,
            op_offload: true,
        };
        let found = CapturedItems::of(graph).expect("items");
        let mut all = Vec::new();
        for kind in Kind::ALL {
            all.extend(planner.of_kind(&found, kind, &all).and_then(Result::ok));
        }
        for planned in &all {
            let per_token = planner.per_token(planned).expect("traffic");
            assert!((0.0..=1.0).contains(&per_token.on_devices) && per_token.moved > 0, "{per_token:?}");
            for (usage, device) in planned.plan.usage.iter().zip(&devices) {
                assert!(usage.fits(device), "{:?}", planned.kind);
            }
        }
        all
    }

    fn kinds(all: &[Planned]) -> Vec<&'static str> {
        all.iter().map(|planned| planned.kind.name()).collect()
    }

    #[test]
    fn experts_and_ffns_of_as_few_layers_as_fit_are_on_the_host() {
        for (name, kind, option) in [
            ("flash-v32k-llama-moe.jsonl.gz", Kind::Experts, "--n-cpu-moe"),
            ("flash-v32k-llama.jsonl.gz", Kind::Ffns, "--n-cpu-ffn"),
        ] {
            let graph = graph(name);
            let everything = planned(&graph, &[1 << 40]);
            assert_eq!(kinds(&everything), ["layers", kind.name(), "tensors"]);
            assert!(everything.iter().all(|planned| planned.arguments == everything[0].arguments));
            let all = everything[0].plan.usage[0].total();
            let mut before = u32::MAX;
            for part in [60, 75, 90] {
                let plans = planned(&graph, &[all / 100 * part]);
                assert_eq!(kinds(&plans), ["layers", kind.name(), "tensors"]);
                let [ngl, _, given, count] = &plans[1].arguments[..] else { panic!("{:?}", plans[1].arguments) };
                assert_eq!((ngl.as_str(), given.as_str()), ("-ngl", option));
                let count: u32 = count.parse().expect("a number");
                assert!(count > 0 && count < before, "{count} layers at {part} %");
                before = count;
                let best = plans.iter().map(|planned| planned.plan.benefit).fold(0.0, f64::max);
                assert!(plans[2].plan.benefit >= best, "single tensors are no worse");
            }
        }
    }

    #[test]
    fn several_devices_have_ranges_of_layers_and_experts_on_the_host() {
        let graph = graph("flash-v32k-llama-moe.jsonl.gz");
        let all = planned(&graph, &[1 << 40])[0].plan.usage[0].total();
        let plans = planned(&graph, &[all / 2, all / 2]);
        let experts = plans.iter().find(|planned| planned.kind == Kind::Experts).expect("it fits");
        let text = experts.arguments.join(" ");
        assert!(text.starts_with("-ngl ") && text.contains(" -ts ") && text.contains(" --n-cpu-moe "), "{text}");
    }

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
        };
        let has = |kind: Kind, name: &str, layer: u32| {
            let (option, parts) = kind.of_first_layers().expect("an option");
            FirstLayers { option, parts, count: 12 }.has(&item(name, layer))
        };
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
