//! llama.cpp without flash attention and with a budget, for the device or for what the CPU computes beside it: the backends of the
//! nodes stay, and so do the bits and what is fused.

use lastuse_c_tests::{DENSE, PlacedRun, Result, Variable, aligned_table};

use super::log::Logged;
use super::{DeviceTests, Findings};

/// The arguments of runs, and whether the device has the budget rather than the CPU. Scores of attention are what needs most memory. With
/// operator offload, the caches are elsewhere than the kernels.
const CASES: [(&str, bool); 4] = [
    ("-ngl 1 --prompt 300 -ub 256 -c 4096 --no-op-offload", false),
    ("-ngl 4 --prompt 300 -ub 256 -c 2048 --no-op-offload", false),
    ("-ngl 99 --prompt 600 -ub 512 -c 8192", true),
    ("-ngl 99 --prompt 300 -ub 256 -c 8192", true),
];

/// Bytes for the CPU, and none for the device.
const ON_CPU: Variable = ("LASTUSE_BUDGET", "CPU:12MiB");

/// Bytes that the reserved graphs do not fit, nor those that are computed.
const EVERYWHERE: Variable = ("LASTUSE_BUDGET", "1MiB");

/// The most that is left of the compute buffer of a device.
const LARGEST_PART: f64 = 0.25;

/// The log tells what was computed in tiles.
const LOG: Variable = ("LASTUSE_LOG", "info");

/// Runs all cases: ggml-alloc, and with the budget.
///
/// # Errors
/// When something cannot be run.
pub fn test(tests: &DeviceTests<'_>, device: &str, findings: &mut Findings) -> Result<()> {
    let program = &tests.programs.placed;
    let heading = [
        "arguments",
        "budget",
        "in tiles",
        "compute buffer",
        "ratio",
        "logits",
        "kernels",
        "in tiles",
        "fused",
        "in tiles",
    ];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    let model = program.model(&DENSE)?;
    for (arguments, is_on_device) in CASES {
        let all = format!("-t 1 -fa off {arguments} --tokens 6");
        let all: Vec<String> = all.split_whitespace().map(str::to_owned).collect();
        let budget = if is_on_device { EVERYWHERE } else { ON_CPU };
        let run = |with_lastuse: bool, more: &[Variable]| program.run_with(&model, &all, with_lastuse, more);
        let with_budget = [budget, LOG];
        let (plain, ours) = (run(false, &[])?, run(true, &with_budget)?);
        let logged = if tests.logging.is_empty() {
            None
        } else {
            let all_logged = [&with_budget[..], tests.logging].concat();
            let logged = |run: &PlacedRun| Logged::read(run.log());
            Some([logged(&run(false, tests.logging)?), logged(&run(true, &all_logged)?)])
        };
        let row = Row { device, is_on_device, plain, ours, logged };
        let wrong = row.wrong().into_iter();
        findings.wrong.extend(wrong.map(|wrong| format!("{device}, {arguments}, {}: {wrong}", budget.1)));
        table.push([arguments, budget.1].map(str::to_owned).into_iter().chain(row.cells()).collect());
    }
    findings.add(&format!("\n{device}, llama.cpp with a budget\n\n{}", aligned_table(&table, 2)));
    Ok(())
}

/// A model run as it is, and with a budget.
struct Row<'a> {
    device: &'a str,
    is_on_device: bool,
    plain: PlacedRun,
    ours: PlacedRun,
    /// Without lastuse, and in tiles.
    logged: Option<[Logged; 2]>,
}

impl Row<'_> {
    /// Returns the bytes of the compute buffer on the device.
    fn compute(&self) -> [u64; 2] {
        [&self.plain, &self.ours].map(|run| run.devices.get(self.device).map_or(0, |asked| asked.compute))
    }

    fn ratio(&self) -> f64 {
        let [before, after] = self.compute().map(|bytes| bytes as f64);
        after / before.max(1.0)
    }

    /// Returns what the log says of the tiles: what, and the bytes that become others.
    fn tiled(&self) -> Option<&str> {
        self.ours.log().lines().find_map(|line| Some(line.split_once("intermediates are computed in tiles: ")?.1))
    }

    fn has_equal_logits(&self) -> bool {
        self.plain.is_complete() && self.ours.is_complete() && self.plain.logits == self.ours.logits
    }

    fn wrong(&self) -> Vec<String> {
        let other_fusions = self.logged.is_some_and(|[plain, ours]| {
            plain.fused != ours.fused || self.is_on_device != (ours.kernels > plain.kernels)
        });
        let is_large = self.is_on_device && self.ratio() > LARGEST_PART;
        let wrong = [
            (!self.has_equal_logits()).then(|| format!("other logits: {}", self.ours.describe())),
            self.tiled().is_none().then(|| format!("nothing is in tiles: {}", self.ours.log())),
            is_large.then(|| format!("the compute buffer becomes {:?}", self.compute())),
            other_fusions.then(|| format!("other fusions, or no tiles were computed: {:?}", self.logged)),
        ];
        wrong.into_iter().flatten().collect()
    }

    fn cells(&self) -> [String; 8] {
        let [before, after] = self.compute();
        let on_device = |text: String| if self.is_on_device { text } else { String::new() };
        let logged = |count: fn(&Logged) -> u64| {
            self.logged
                .map_or_else(Default::default, |logged| logged.each_ref().map(|logged| count(logged).to_string()))
        };
        let ([kernels, more_kernels], [fused, still_fused]) = (logged(|log| log.kernels), logged(|log| log.fused));
        [
            self.tiled().unwrap_or("none").to_owned(),
            on_device(format!("{before} -> {after}")),
            on_device(format!("{:.3}", self.ratio())),
            if self.has_equal_logits() { "equal" } else { "OTHER" }.to_owned(),
            kernels,
            more_kernels,
            fused,
            still_fused,
        ]
    }
}
