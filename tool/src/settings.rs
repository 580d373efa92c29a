//! Settings of the library as options of the tool: those that "run" gives to a program, and "enable" to a service.

use std::ffi::OsStr;

use lastuse::graph::NamePattern;
use lastuse::placement::Bytes;
use lastuse::settings::{Budgets, SETTINGS, means_off};

use crate::passes::size_option;

/// Settings that reach programs on a scheduler through the guard, or that it carries out.
pub const NEED_GUARD: [&str; 4] = ["LASTUSE_BUDGET", "LASTUSE_RECOMPUTE", "LASTUSE_REORDER", "LASTUSE_DUMP"];

/// Settings that do more with it.
pub const USE_GUARD: [&str; 3] = ["LASTUSE_ARENA", "LASTUSE_ACCOUNTING", "LASTUSE_LIVE"];

/// How a run uses the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardUse {
    None,
    IfThere,
    Needed,
}

impl GuardUse {
    /// Returns what the settings of a run say, in its options and in the environment.
    pub fn of(variables: &[(&'static str, String)]) -> Self {
        let is_set = |name: &&str| {
            let given = variables.iter().any(|(given, value)| given == name && !means_off(value));
            given || std::env::var(name).is_ok_and(|value| !value.is_empty() && !means_off(&value))
        };
        let watches = |(name, value): &(&str, String)| *name == "LASTUSE_VERIFY" && value == "memory";
        if variables.iter().any(watches) || NEED_GUARD.iter().any(&is_set) {
            Self::Needed
        } else if USE_GUARD.iter().any(is_set) {
            Self::IfThere
        } else {
            Self::None
        }
    }
}

/// Options that are variables of a program.
#[derive(clap::Args)]
pub struct Settings {
    /// Check each plan before it is used; a defect ends the program. "memory" also checks what each operation writes: it
    /// compares all memory of graphs after each, and may take minutes for a few tokens.
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "plan",
          value_parser = ["plan", "memory"])]
    pub verify: Option<String>,

    /// Run the nodes of graphs in an order with a lower peak. On several backends, a graph stays as it is unless none of them needs
    /// more then.
    #[arg(long)]
    reorder: bool,

    /// Compute large intermediates in tiles (on GPUs: heads of attention), so that the compute buffers of each graph allocator
    /// or scheduler take at most this many bytes on each device; for some devices alone by name, as in "CPU:2GiB" or
    /// "1GiB,CPU:4GiB".
    #[arg(long, value_name = "BYTES", value_parser = budgets)]
    budget: Option<String>,

    /// Compute forward results of training graphs again in the backward pass, so that the compute buffers of each graph
    /// allocator or scheduler take at most this many bytes.
    #[arg(long, value_name = "BYTES", value_parser = size_option)]
    recompute: Option<Bytes>,

    /// Keep the tensors with these names readable to the end of each run: names separated by commas, in which "*"
    /// matches any characters and "?" one.
    #[arg(long, value_name = "NAMES")]
    pub retain: Option<String>,

    /// The rules for sharing memory [default: default]
    ///
    /// A list of: default (what is correct on each device), all, ggml (those of ggml-alloc), none, and names of rules, with no- to
    /// switch one off: "no-unread-inputs", "ggml,views". "lastuse plan --help" lists them. A word that names a device is for that
    /// alone: cpu:, gpu:, vulkan:, cuda:, metal:, as in "gpu:ggml".
    #[arg(long)]
    rules: Option<String>,

    /// The work limit of the search for a smaller placement, as in "lastuse plan".
    #[arg(long, value_name = "UNITS")]
    effort: Option<u64>,

    /// What takes memory when it is used, not when it is allocated: "caches", the default, "compute" (buffers), "all" or "off".
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = ["caches", "compute", "all", "off"])]
    on_demand: Option<String>,

    /// Let schedulers that take turns on one thread share compute buffers: "shared", the default, if results are read
    /// before the next one runs; "shared,outputs" if not.
    #[arg(long, value_name = "WORDS", num_args = 0..=1, require_equals = true, default_missing_value = "shared",
          value_parser = ["shared", "shared,outputs", "off"])]
    arena: Option<String>,

    /// Keep compute buffers of freed allocators for the next ones, at most these bytes, for at most these seconds.
    #[arg(long, value_name = "BYTES,SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1GiB,60")]
    recycle: Option<String>,
}

impl Settings {
    /// Returns `true` if graphs of trainings have a budget.
    pub fn recomputes(&self) -> bool {
        self.recompute.is_some()
    }

    /// Returns the variables and their values.
    ///
    /// # Errors
    /// Values that the library would only log as wrong.
    pub fn variables(&self) -> Result<Vec<(&'static str, String)>, String> {
        let retain = self.retain.as_ref().map(|names| checked_pattern("--retain", names)).transpose()?;
        let values = [
            ("LASTUSE_VERIFY", self.verify.clone()),
            ("LASTUSE_RULES", self.rules.clone()),
            ("LASTUSE_EFFORT", self.effort.map(|units| units.to_string())),
            ("LASTUSE_REORDER", self.reorder.then(|| "on".to_owned())),
            ("LASTUSE_BUDGET", self.budget.clone()),
            ("LASTUSE_RECOMPUTE", self.recompute.map(|bytes| bytes.to_string())),
            ("LASTUSE_ON_DEMAND", self.on_demand.clone()),
            ("LASTUSE_ARENA", self.arena.clone()),
            ("LASTUSE_RECYCLE", self.recycle.clone()),
            ("LASTUSE_RETAIN", retain),
        ];
        let given: Vec<_> = values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        for (name, value) in &given {
            let known = SETTINGS.iter().find(|setting| setting.variable.to_str() == Ok(name));
            let checked = known.map_or(Ok(()), |setting| setting.check(OsStr::new(value)));
            checked.map_err(|why| format!("{}: {why}", Self::option_of(name)))?;
        }
        Ok(given)
    }

    /// Returns the option that sets a variable.
    pub fn option_of(variable: &str) -> String {
        format!("--{}", variable.trim_start_matches("LASTUSE_").to_ascii_lowercase().replace('_', "-"))
    }
}

/// Checks budgets by device, which the library would only log.
fn budgets(text: &str) -> Result<String, String> {
    let parsed = text.parse::<Budgets>().map(|_| text.to_owned());
    parsed.map_err(|why| format!("{why}; also for a device alone, as in CPU:4GiB"))
}

/// Checks a pattern, which the library would only log.
pub fn checked_pattern(option: &str, text: &str) -> Result<String, String> {
    let pattern: NamePattern = text.parse().map_err(|invalid| format!("{option}: {invalid}"))?;
    if pattern.is_empty() {
        return Err(format!("{option}: no names of tensors; \"*\" matches all"));
    }
    Ok(pattern.to_string())
}
