//! The settings: one table behind the environment variables, `lastuse_set`, `lastuse_gallocr_set`, `lastuse run --help` and
//! docs/settings.md. What a value changes is in `ggml::process::settings`.

#[cfg(test)]
mod tests;
mod values;

use std::ffi::CStr;

pub use values::{
    ArenaSetting, Budgets, Level, Limit, OnDemand, Settings, Switch, Verify, parse, parse_effort, parse_level,
    parse_limit,
};

/// A setting, apart from its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Whether lastuse serves the process at all.
    Switch,
    /// The level of the log.
    Log,
    /// The file with the events of all allocators.
    Report,
    /// The in-place and aliasing rules.
    Rules,
    /// The limit on the work of placement.
    Effort,
    /// Whether the nodes of graphs are put into an order with a lower peak.
    Reorder,
    /// The bytes that the buffers of an allocator may need.
    Budget,
    /// The bytes that training graphs may need.
    Recompute,
    /// What takes memory when it is used.
    OnDemand,
    /// Whether the allocators of schedulers share memory.
    Arena,
    /// What waits for the next allocator.
    Recycle,
    /// The checks at run time.
    Verify,
    /// The names of tensors that stay readable.
    Retain,
    /// The folder of captured graphs.
    Capture,
    /// The folder of dumped tensors.
    DumpDir,
    /// The names of dumped tensors.
    Dump,
    /// The file with what devices held.
    Accounting,
    /// The file with what devices hold now.
    Live,
}

/// How a setting can be changed once its variable was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Not at all.
    Start,
    /// For the process, from now on.
    Process,
    /// For allocators that are created from now on.
    LaterAllocators,
    /// For allocators that are created from now on, and for one allocator.
    EachAllocator,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// What is set.
    pub key: Key,
    /// The environment variable.
    pub variable: &'static CStr,
    /// What a value is, in capitals, or the only one that makes sense.
    pub value: &'static str,
    /// What holds if the variable is not set or empty.
    pub default: &'static str,
    /// How it can be changed.
    pub scope: Scope,
    /// One line for people.
    pub help: &'static str,
}

/// All settings. Those that others depend on come first.
pub const SETTINGS: [Setting; 18] = [
    Setting {
        key: Key::Switch,
        variable: c"LASTUSE",
        value: "off",
        default: "on",
        scope: Scope::Start,
        help: "hands every call to ggml's own allocator",
    },
    Setting {
        key: Key::Log,
        variable: c"LASTUSE_LOG",
        value: "LEVEL",
        default: "off",
        scope: Scope::Start,
        help: "logs to the standard error: error, warn, info or debug",
    },
    Setting {
        key: Key::Report,
        variable: c"LASTUSE_REPORT",
        value: "FILE",
        default: "none",
        scope: Scope::Start,
        help: "appends what the allocators do, as lines of JSON",
    },
    Setting {
        key: Key::Rules,
        variable: c"LASTUSE_RULES",
        value: "WORDS",
        default: "default",
        scope: Scope::EachAllocator,
        help: "which memory tensors may share",
    },
    Setting {
        key: Key::Effort,
        variable: c"LASTUSE_EFFORT",
        value: "UNITS",
        default: "100000",
        scope: Scope::EachAllocator,
        help: "how long to search where a plan is above its lower bound",
    },
    Setting {
        key: Key::Reorder,
        variable: c"LASTUSE_REORDER",
        value: "on",
        default: "off",
        scope: Scope::LaterAllocators,
        help: "runs nodes in an order with a lower peak, in graphs for one backend",
    },
    Setting {
        key: Key::Budget,
        variable: c"LASTUSE_BUDGET",
        value: "BYTES",
        default: "none",
        scope: Scope::LaterAllocators,
        help: "tiles graphs that need more, such as 700M, or 1GiB,CPU:4GiB for some devices",
    },
    Setting {
        key: Key::Recompute,
        variable: c"LASTUSE_RECOMPUTE",
        value: "BYTES",
        default: "none",
        scope: Scope::LaterAllocators,
        help: "computes forward results of training graphs again that need more, such as 2GiB",
    },
    Setting {
        key: Key::OnDemand,
        variable: c"LASTUSE_ON_DEMAND",
        value: "WORDS",
        default: "caches",
        scope: Scope::LaterAllocators,
        help: "what takes memory when it is used, not when it is allocated: caches, compute, all or off",
    },
    Setting {
        key: Key::Arena,
        variable: c"LASTUSE_ARENA",
        value: "WORDS",
        default: "off",
        scope: Scope::LaterAllocators,
        help: "schedulers that take turns share compute buffers: shared, or shared,outputs",
    },
    Setting {
        key: Key::Recycle,
        variable: c"LASTUSE_RECYCLE",
        value: "LIMIT",
        default: "off",
        scope: Scope::Process,
        help: "keeps compute buffers of freed allocators for the next ones: bytes and seconds, such as 1GiB,60",
    },
    Setting {
        key: Key::Verify,
        variable: c"LASTUSE_VERIFY",
        value: "WORDS",
        default: "off",
        scope: Scope::LaterAllocators,
        help: "checks plans, and memory between operations: plan, memory, weights, no-custom",
    },
    Setting {
        key: Key::Retain,
        variable: c"LASTUSE_RETAIN",
        value: "NAMES",
        default: "none",
        scope: Scope::Process,
        help: "keeps tensors with these names readable after the run: l_out-*,kq*, or * for all",
    },
    Setting {
        key: Key::Capture,
        variable: c"LASTUSE_CAPTURE",
        value: "DIR",
        default: "none",
        scope: Scope::Process,
        help: "writes each planned graph to a file in a folder, or to names such as graphs/%s.jsonl.gz",
    },
    Setting {
        key: Key::DumpDir,
        variable: c"LASTUSE_DUMP_DIR",
        value: "DIR",
        default: "lastuse-dump",
        scope: Scope::Process,
        help: "the folder of dumped tensors",
    },
    Setting {
        key: Key::Dump,
        variable: c"LASTUSE_DUMP",
        value: "NAMES",
        default: "none",
        scope: Scope::Process,
        help: "writes the values of tensors with these names after each run",
    },
    Setting {
        key: Key::Accounting,
        variable: c"LASTUSE_ACCOUNTING",
        value: "FILE",
        default: "none",
        scope: Scope::Process,
        help: "writes what devices held when they held the most, as JSON, at the end",
    },
    Setting {
        key: Key::Live,
        variable: c"LASTUSE_LIVE",
        value: "FILE",
        default: "none",
        scope: Scope::Process,
        help: "writes what devices hold now, as JSON, at most four times a second while the program runs",
    },
];

impl Key {
    /// Returns the environment variable of the setting.
    pub fn variable(self) -> &'static CStr {
        SETTINGS.iter().find(|setting| setting.key == self).map_or(c"", |setting| setting.variable)
    }
}

impl Setting {
    /// Returns the name in C: that of the variable, without `LASTUSE_`, in lower case.
    pub fn name(&self) -> String {
        let variable = self.variable.to_string_lossy();
        variable.strip_prefix("LASTUSE_").unwrap_or(&variable).to_ascii_lowercase()
    }

    /// Returns whether `lastuse_set` may change it.
    pub fn is_of_process(&self) -> bool {
        self.scope != Scope::Start
    }

    /// Returns whether `lastuse_gallocr_set` may change it.
    pub fn is_of_allocator(&self) -> bool {
        self.scope == Scope::EachAllocator
    }
}

/// Returns the setting that a name stands for, in any case, if it `may` be set; otherwise what is expected.
///
/// # Errors
/// A message that lists the names.
pub fn find(name: &str, may: fn(&Setting) -> bool) -> Result<&'static Setting, String> {
    let named = |setting: &&Setting| setting.name().eq_ignore_ascii_case(name);
    let names = || SETTINGS.iter().filter(|setting| may(setting)).map(Setting::name).collect::<Vec<_>>().join(", ");
    match SETTINGS.iter().find(named) {
        Some(setting) if may(setting) => Ok(setting),
        Some(Setting { scope: Scope::Start, variable, .. }) => {
            let variable = variable.to_string_lossy();
            Err(format!("{name} is set by {variable} alone, which was read at the start; expected {}", names()))
        }
        Some(_) => Err(format!("{name} is set for the process, by lastuse_set; expected {}", names())),
        None => Err(format!("unknown setting {name:?}; expected {}", names())),
    }
}

/// Returns the table as text: each variable, and below it what it does.
pub fn variables() -> String {
    let line = |setting: &Setting| {
        let default = Some(setting.default).filter(|default| *default != "none");
        let default = default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
        format!("  {}={}\n          {}{default}", setting.variable.to_string_lossy(), setting.value, setting.help)
    };
    SETTINGS.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns `true` for the words that mean off, in any case: off, 0, false, no.
pub fn means_off(word: &str) -> bool {
    is_one_of(word.trim(), &["off", "0", "false", "no"])
}

fn is_one_of(word: &str, known: &[&str]) -> bool {
    known.iter().any(|known| word.eq_ignore_ascii_case(known))
}
