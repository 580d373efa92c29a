//! Contexts of llama.cpp that take turns with all layers on a device, each with a compute buffer of its own and in an arena.

use lastuse_c_tests::{DENSE, PlacedProgram, PlacedRun, Result, Variable, aligned_table};

use super::Findings;

/// The arguments of a context, and how many there are.
const CASES: [(&str, u32); 3] = [
    ("-fa on --prompt 96 -ub 64 -c 128", 2),
    ("-fa off --prompt 96 -ub 64 -c 128", 3),
    ("-fa on --prompt 96 -ub 64 -c 128 -nkvo", 2),
];

/// The variables of a run in an arena.
const ARENAS: [&[Variable]; 3] = [
    &[("LASTUSE_ARENA", "shared")],
    &[("LASTUSE_ARENA", "shared"), ("LLAMA_GRAPH_REUSE_DISABLE", "1")],
    &[("LASTUSE_ARENA", "shared"), ("LASTUSE_ON_DEMAND", "all")],
];

/// What all contexts in an arena take, as a share of what one takes with lastuse.
const MOST_OF_ONE: f64 = 1.02;

/// Runs all cases: ggml-alloc, lastuse, and with each arena.
///
/// # Errors
/// When something cannot be run.
pub fn test(program: &PlacedProgram, device: &str, findings: &mut Findings) -> Result<()> {
    let heading =
        ["arguments", "contexts", "compute buffers", "with lastuse", "arena", "of one", "on demand", "logits"];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    let model = program.model(&DENSE)?;
    let compute = |run: &PlacedRun| run.devices.get(device).map_or(0, |asked| asked.compute);
    for (arguments, contexts) in CASES {
        let run = |contexts: u32, with_lastuse: bool, more: &[Variable]| {
            let all = format!("-t 1 -ngl 99 {arguments} --tokens 6 --contexts {contexts}");
            let all: Vec<String> = all.split_whitespace().map(str::to_owned).collect();
            program.run_with(&model, &all, with_lastuse, more)
        };
        let [one, plain, ours] = [run(1, true, &[])?, run(contexts, false, &[])?, run(contexts, true, &[])?];
        let [shared, rebuilt, on_demand] = ARENAS.map(|variables| run(contexts, true, variables));
        let (shared, rebuilt, on_demand) = (shared?, rebuilt?, on_demand?);
        let all = [&ours, &shared, &rebuilt, &on_demand];
        let are_equal = plain.is_complete() && all.iter().all(|run| run.is_complete() && run.logits == plain.logits);
        let of_one = share(compute(&shared), compute(&one));
        let is_small = share(compute(&rebuilt), compute(&one)).max(of_one) <= MOST_OF_ONE;
        let is_smaller = compute(&on_demand) <= compute(&shared);
        if !are_equal || !is_small || !is_smaller || compute(&one) == 0 {
            let described: Vec<String> = all.iter().map(|run| run.describe()).collect();
            findings.wrong.push(format!("{device}, {contexts} contexts, {arguments}: {}", described.join("; ")));
        }
        let bytes = [&plain, &ours, &shared].map(|run| compute(run).to_string());
        let logits = if are_equal { "equal" } else { "OTHER" };
        let [plain, ours, shared] = bytes;
        table.push(vec![
            arguments.to_owned(),
            contexts.to_string(),
            plain,
            ours,
            shared,
            format!("{of_one:.3}"),
            compute(&on_demand).to_string(),
            logits.to_owned(),
        ]);
    }
    let title = format!("{device}, contexts of llama.cpp in turns, bytes");
    findings.add(&format!("\n{title}\n\n{}", aligned_table(&table, 2)));
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn share(bytes: u64, of: u64) -> f64 {
    bytes as f64 / of.max(1) as f64
}
