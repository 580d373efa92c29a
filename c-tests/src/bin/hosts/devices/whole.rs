//! llama.cpp with all layers on a device, with lastuse preloaded and without.

use std::path::Path;

use lastuse_c_tests::{
    DENSE, EXPERTS, PlacedModel, PlacedProgram, PlacedRun, Program, Result, Variable, aligned_table,
};

use super::log::Logged;
use super::{DeviceTests, Findings};
use crate::measured::Measured;

/// A model, the arguments of its runs, and whether it may fail on the device as it is.
pub type Case = (PlacedModel, &'static [&'static str], bool);

/// Prompts of a single token, of less than a batch, of several batches, and of 300 tokens in one.
pub const SMALL: [Case; 2] = [
    (
        DENSE,
        &[
            "-fa on --prompt 1 -ub 64 -c 128",
            "-fa on --prompt 7 -ub 64 -c 128",
            "-fa on --prompt 96 -ub 64 -c 128",
            "-fa on --prompt 200 -ub 32 -c 256",
            "-fa on --prompt 300 -ub 512 -c 512",
            "-fa off --prompt 7 -ub 64 -c 128",
            "-fa off --prompt 96 -ub 64 -c 128",
            "-fa off --prompt 300 -ub 512 -c 512",
        ],
        false,
    ),
    // Larger batches of experts crash some versions of llvmpipe, also without lastuse.
    (EXPERTS, &["-fa on --prompt 7 -ub 64 -c 128", "-fa off --prompt 7 -ub 64 -c 128"], true),
];

/// 1.2 GiB of weights, for devices that compute fast: layers of a model of 1.5 billion parameters.
pub const LARGE: Case = (
    PlacedModel {
        name: "large.gguf",
        shape: "--layers 8 --width 2048 --heads 16 --kv-heads 8 --ffn 8192 --vocab 32000 --context 8192",
    },
    &[
        "-fa on --prompt 2048 -ub 512 -c 4096 --tokens 256",
        "-fa off --prompt 2048 -ub 512 -c 4096 --tokens 256",
        "-fa on --prompt 2048 -ub 2048 -c 4096 --tokens 64",
    ],
    false,
);

/// Runs all cases with lastuse and without.
///
/// # Errors
/// When something cannot be run.
pub fn test(tests: &DeviceTests<'_>, device: &str, findings: &mut Findings) -> Result<()> {
    let heading = [
        "model",
        "arguments",
        "compute buffer",
        "with lastuse",
        "ratio",
        "on demand",
        "ratio",
        "logits",
        "fused",
        "with lastuse",
        "kernels",
        "with lastuse",
        "barriers",
        "with lastuse",
        "driver MiB",
        "with lastuse",
        "time",
    ];
    let program = &tests.programs.placed;
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    for (model, arguments, may_fail) in tests.models {
        let path = program.model(model)?;
        for arguments in *arguments {
            let row = Row::new(program, &path, arguments, tests.logging)?;
            let wrong = row.wrong(device, *may_fail).into_iter();
            findings.wrong.extend(wrong.map(|wrong| format!("{device}, {}, {arguments}: {wrong}", model.name)));
            if !may_fail {
                let measured = measured(program, &path, arguments, &tests.folder);
                let wrong = measured.err().map(|why| format!("{device}, {}, {arguments}: {why}", model.name));
                findings.wrong.extend(wrong);
            }
            table.push(row.cells(model, device));
        }
    }
    findings.add(&format!("\n{device}, all layers of llama.cpp, bytes\n\n{}", aligned_table(&table, 2)));
    Ok(())
}

/// Checks that a dry run says what the run holds, on the device and on the host.
fn measured(program: &PlacedProgram, model: &Path, arguments: &str, folder: &Path) -> Result<String> {
    let all = format!("{} -t 1 -ngl 99 {arguments}", model.display());
    let all: Vec<String> = all.split_whitespace().map(str::to_owned).collect();
    let (tool, variables) = (Program::existing(program.tool()), program.environment());
    Measured { tool, program: program.path(), arguments: all, variables, folder }.compare()
}

/// A model run as it is, and with lastuse.
struct Row {
    arguments: String,
    plain: PlacedRun,
    ours: PlacedRun,
    /// With compute buffers on demand.
    on_demand: PlacedRun,
    logged: Option<[Logged; 2]>,
}

impl Row {
    fn new(program: &PlacedProgram, model: &Path, arguments: &str, logging: &[Variable]) -> Result<Self> {
        let all: Vec<String> = format!("-t 1 -ngl 99 {arguments}").split_whitespace().map(str::to_owned).collect();
        let run = |with_lastuse: bool, more: &[Variable]| program.run_with(model, &all, with_lastuse, more);
        let (plain, ours) = (run(false, &[])?, run(true, &[])?);
        let on_demand = run(true, &[("LASTUSE_ON_DEMAND", "all")])?;
        let has_log = !logging.is_empty() && plain.is_complete();
        let logged = |with_lastuse: bool| Ok::<_, String>(Logged::read(run(with_lastuse, logging)?.log()));
        let logged = if has_log { Some([logged(false)?, logged(true)?]) } else { None };
        Ok(Self { arguments: arguments.to_owned(), plain, ours, on_demand, logged })
    }

    /// Returns the bytes of the compute buffer without lastuse, with it, and with it on demand.
    fn bytes(&self, device: &str) -> [u64; 3] {
        let compute = |run: &PlacedRun| run.devices.get(device).map_or(0, |asked| asked.compute);
        [&self.plain, &self.ours, &self.on_demand].map(compute)
    }

    fn has_equal_logits(&self) -> bool {
        let ours = [&self.ours, &self.on_demand];
        ours.into_iter().all(|run| run.is_complete() && run.logits == self.plain.logits)
    }

    /// Returns what is wrong. Where the model does not run without lastuse either, nothing is compared, which only a model
    /// that `may_fail` is allowed to do.
    fn wrong(&self, device: &str, may_fail: bool) -> Vec<String> {
        if !self.plain.is_complete() {
            let failed = || format!("fails without lastuse, so nothing is compared: {}", self.plain.describe());
            return if may_fail { Vec::new() } else { vec![failed()] };
        }
        let [before, after, on_demand] = self.bytes(device);
        let less_fused =
            self.logged.is_some_and(|[plain, ours]| ours.fused < plain.fused || ours.kernels > plain.kernels);
        let wrong = [
            (!self.has_equal_logits()).then(|| {
                format!("other logits with lastuse: {}; on demand: {}", self.ours.describe(), self.on_demand.describe())
            }),
            (before == 0).then(|| "no compute buffer was counted".to_owned()),
            (after > before).then(|| format!("the compute buffer of {before} bytes becomes {after}")),
            (on_demand > after).then(|| format!("the compute buffer of {after} bytes becomes {on_demand} on demand")),
            less_fused.then(|| format!("less is fused: {:?}", self.logged)),
        ];
        wrong.into_iter().flatten().collect()
    }

    fn cells(&self, model: &PlacedModel, device: &str) -> Vec<String> {
        let mut cells = vec![model.name.to_owned(), self.arguments.clone()];
        if !self.plain.is_complete() {
            cells.extend(["fails without lastuse, too"].into_iter().chain(["-"; 14]).map(str::to_owned));
            return cells;
        }
        let [before, after, on_demand] = self.bytes(device);
        cells.extend([before.to_string(), after.to_string(), ratio(after, before)]);
        cells.extend([on_demand.to_string(), ratio(on_demand, before)]);
        cells.push(if self.has_equal_logits() { "equal" } else { "OTHER" }.to_owned());
        let numbers: [fn(&Logged) -> u64; 3] = [|it| it.fused, |it| it.kernels, |it| it.barriers];
        for number in numbers {
            let of = |which: usize| self.logged.map_or("-".to_owned(), |both| number(&both[which]).to_string());
            cells.extend([of(0), of(1)]);
        }
        let taken = |run: &PlacedRun| run.devices.get(device).map_or(0, |asked| asked.taken >> 20).to_string();
        cells.extend([taken(&self.plain), taken(&self.ours)]);
        let times = self.ours.milliseconds().zip(self.plain.milliseconds());
        cells.push(times.map_or("-".to_owned(), |(after, before)| format!("{:.2}", after / before)));
        cells
    }
}

#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn ratio(after: u64, before: u64) -> String {
    format!("{:.3}", after as f64 / before.max(1) as f64)
}
