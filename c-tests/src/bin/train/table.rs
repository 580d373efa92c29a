//! The runs as tables and as JSON.

use std::fmt::Write;

use lastuse_c_tests::{Result, TrainingDriver, TrainingRun, TrainingSetup, aligned_table};
use serde_json::{Value, json};

use crate::measure::{Group, Section};

const HEADING: [&str; 12] = [
    "graphs",
    "allocator",
    "method",
    "batches a step",
    "steps",
    "right",
    "losses",
    "memory, KiB",
    "memory",
    "resident",
    "step",
    "shortest",
];

const LEGEND: &str = "\
graphs: static and batches are built by ggml_opt, once or for each batch; loop by the program, once. right: data points
held out that the trained network is right about. losses: whether all, of training and of evaluation, are those of the
first run with the same number of batches a step, to the last bit. memory: the buffer of the graphs, and the additional
memory of the method. resident: the most that the process had in memory. step, shortest: the time of a step of the
optimizer, its median and its smallest value. The last four are ratios to the first run of the same graphs, lower is
better.
With the larger network, all methods take three turns, and the fastest is shown. outputs flags the results of layers by
ggml_set_output; everything retains all results; dump writes those of layers to files each time that a graph is
computed; combined is recompute, then order. docs/training.md has the others.
";

/// The values compared with the first run of a group.
const RATIOS: [&str; 4] = ["memory_bytes", "resident_bytes", "step_us", "shortest_step_us"];

/// The tables, one for each network.
///
/// # Errors
/// When a program did not print the numbers that they need.
pub fn text(sections: &[Section]) -> Result<String> {
    let mut text = String::new();
    for section in sections {
        let mut rows = vec![HEADING.map(str::to_owned).to_vec()];
        for group in &section.groups {
            for (setup, run) in &group.runs {
                rows.push(row(section, group, setup, run)?);
            }
        }
        let _ = write!(text, "\n{}\n\n{}", section.title, aligned_table(&rows, 3));
    }
    Ok(format!("{text}\n{LEGEND}"))
}

fn row(section: &Section, group: &Group, setup: &TrainingSetup, run: &TrainingRun) -> Result<Vec<String>> {
    let losses = if section.is_equal(setup, run) { "equal" } else { "DIFFERENT" };
    let right = format!("{} of {}", run.text("correct")?, run.text("held_out")?);
    let mut row = [setup.driver.name(), setup.allocator(), setup.method.name].map(str::to_owned).to_vec();
    row.extend([setup.accumulate.to_string(), run.text("steps")?.to_owned(), right, losses.to_owned()]);
    row.push(format!("{:.0}", run.number("memory_bytes")? / 1024.0));
    for key in RATIOS {
        row.push(format!("{:.3}", ratio(group, run, key)?));
    }
    Ok(row)
}

fn ratio(group: &Group, run: &TrainingRun, key: &str) -> Result<f64> {
    let (_, first) = group.runs.first().ok_or("a group without runs")?;
    Ok(run.number(key)? / first.number(key)?)
}

/// All runs as a JSON array of networks.
///
/// # Errors
/// When a program did not print the numbers that it needs.
pub fn json(sections: &[Section]) -> Result<String> {
    let mut networks = Vec::new();
    for section in sections {
        let mut runs = Vec::new();
        for group in &section.groups {
            for (setup, run) in &group.runs {
                runs.push(object(section, group, setup, run)?);
            }
        }
        networks.push(json!({ "network": section.title, "runs": runs }));
    }
    serde_json::to_string_pretty(&networks).map_err(|error| error.to_string())
}

fn object(section: &Section, group: &Group, setup: &TrainingSetup, run: &TrainingRun) -> Result<Value> {
    let mut object = json!({
        "graphs": setup.driver.name(),
        "is_ggml_opt": setup.driver != TrainingDriver::Loop,
        "allocator": setup.allocator(),
        "method": setup.method.name,
        "batches_a_step": setup.accumulate,
        "losses_equal": section.is_equal(setup, run),
        "loss_hash": run.text("loss_hash")?,
        "losses": run.losses,
    });
    let keys = ["epochs", "steps", "correct", "held_out", "first_epoch_loss", "last_epoch_loss", "compute_bytes"];
    for key in keys.into_iter().chain(RATIOS) {
        object[key] = json!(run.number(key)?);
    }
    for key in RATIOS {
        object[format!("{key}_ratio")] = json!(ratio(group, run, key)?);
    }
    Ok(object)
}
