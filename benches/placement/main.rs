//! Time and quality of placement, from a thousand to a million blocks.
//!
//! `cargo bench -p lastuse --bench placement`; a part of a name, as in `-- window/1000000`, selects benchmarks. Each
//! problem is first placed once, which prints the size over the lower bound, the strategy, and the peak memory of the
//! process so far. With a million blocks, a size more than 5 % above the lower bound is an error.

mod families;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use families::{FAMILIES, Family};
use lastuse::placement::{Choice, Effort, Problem, Workspace, choose};

const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// The most that the size of the largest problems may be over the lower bound.
const MOST_ABOVE: f64 = 1.05;

fn main() {
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    for size in SIZES {
        for family in &FAMILIES {
            bench(&mut criterion, family, size);
        }
    }
    criterion.final_summary();
}

fn bench(criterion: &mut Criterion, family: &Family, size: u32) {
    let mut group = criterion.benchmark_group(family.name);
    group.sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(u64::from(size)));
    let mut placed: Option<Problem> = None;
    group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
        let problem = placed.get_or_insert_with(|| place_once(family, size));
        bencher.iter(|| black_box(choose(problem, None, Effort::default(), &mut Workspace::default())));
    });
    group.finish();
}

/// Creates a problem and prints how well it can be placed.
fn place_once(family: &Family, size: u32) -> Problem {
    let problem = (family.make)(size);
    let choice = choose(&problem, None, Effort::default(), &mut Workspace::default());
    let above = above_bound(&choice);
    let blocks = problem.blocks().len();
    println!(
        "{}/{size}: {blocks} blocks, {above:.4} of the bound, {}, {}",
        family.name,
        choice.strategy,
        peak_memory()
    );
    assert!(size < SIZES[3] || above <= MOST_ABOVE, "{}/{size} is {above} of the bound", family.name);
    problem
}

#[allow(clippy::cast_precision_loss, reason = "a ratio of byte counts needs no more digits")]
fn above_bound(choice: &Choice) -> f64 {
    choice.placement.size() as f64 / choice.lower_bound as f64
}

/// Returns the peak memory of the process, VmHWM of Linux.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("memory unknown".to_owned(), |size| format!("{} at most", size.trim()))
}
