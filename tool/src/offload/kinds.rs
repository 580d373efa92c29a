//! The kinds of offload plans that llama.cpp has options for.

use lastuse::offload::captured::{CapturedItems, LayerHomes};
use lastuse::offload::item::{Item, ItemKind};
use lastuse::offload::planner::{NotPlaced, OffloadPlan};

use super::first_layers::FirstLayers;
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
        FirstLayers::of(self, 0).is_some()
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
    /// Returns the best plan of a kind, of which single tensors are no worse than `coarser` plans. `None` where the model
    /// has no such weights.
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
        match FirstLayers::of(kind, 0) {
            None => {
                let mut placed = self.plan(&found, kind == Kind::Layers);
                for from in coarser.iter().filter(|_| kind == Kind::Tensors) {
                    let Ok(plan) = self.with_more(&found, from) else { continue };
                    // Whole layers are moved less.
                    if placed.as_ref().map_or(true, |(best, _)| plan.benefit >= best.benefit) {
                        placed = Ok((plan, from.op_offload));
                    }
                }
                Some(placed.map(|(plan, op_offload)| planned(found, plan, op_offload, None)))
            }
            // Models of experts may have other FFNs in their first layers, and llama.cpp's option for FFNs is for those without.
            Some(_) if kind == Kind::Ffns && first_layers_in(&found.items, Kind::Experts) > 0 => None,
            Some(_) if first_layers_in(&found.items, kind) == 0 => None,
            Some(none) => {
                let placed = self.with_first_layers(&found, none, first_layers_in(&found.items, kind));
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

    /// Returns the plan with all layers on devices that keeps weights of the fewest layers on the host, at most of so many.
    fn with_first_layers(
        &self,
        found: &CapturedItems,
        none: FirstLayers,
        layers: u32,
    ) -> Result<(CapturedItems, OffloadPlan, bool, FirstLayers), NotPlaced> {
        let kept = |count: u32| none.with(count);
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
        let plan = self.plan_with(&found, true, op_offload).map_err(|why| match why {
            // A tensor is too large for a buffer of the device where it would be with its layer.
            NotPlaced::Invalid(_) => NotPlaced::Infeasible(Vec::new()),
            other => other,
        })?;
        let homes = LayerHomes::of(&found.items, &plan.assignment, host);
        let in_layers = |item: &Item| item.layer.is_some() && !item.is_on_host;
        let mut places = found.items.iter().zip(&plan.assignment.0).filter(|(item, _)| in_layers(item));
        let is_whole = places.all(|(item, place)| place.device != host || item.pinned == Some(host));
        if !is_whole || !homes.is_all_on_devices() {
            // No device is short, but some layers are on the host.
            return Err(NotPlaced::Infeasible(Vec::new()));
        }
        Ok((found, plan))
    }
}

/// Returns how many layers, the first ones, have all the weights that the option of a kind names; 0 if there are none.
fn first_layers_in(items: &[Item], kind: Kind) -> u32 {
    let Some(all) = FirstLayers::of(kind, u32::MAX) else { return 0 };
    items.iter().filter(|item| all.has(item)).filter_map(|item| item.layer).max().map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lastuse::graph::snapshot::Snapshot;
    use lastuse::offload::captured::CapturedRule;
    use lastuse::offload::device::Device;
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
}
