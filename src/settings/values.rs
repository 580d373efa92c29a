//! What the values of settings mean: each is parsed here, for the library and for those who write settings down for it.

use std::ffi::OsStr;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use super::{Key, Setting, is_one_of, means_off};
use crate::graph::{NamePattern, RuleSetting};
use crate::placement::{Bytes, Effort};
use crate::report::sizes::parse_size;

/// The settings of a new allocator.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The in-place and aliasing rules.
    pub rules: RuleSetting,
    /// The limit on the work of placement.
    pub effort: Effort,
    /// The checks made at run time.
    pub verify: Verify,
    /// The names of tensors that stay readable; existing allocators follow its changes.
    pub retain: NamePattern,
    /// Whether the nodes of graphs are put into an order with a lower peak.
    pub reorder: Switch,
    /// The bytes that the buffers of an allocator may need; large intermediates are tiled to keep them.
    pub budget: Budgets,
    /// The bytes that training graphs may need; forward results are computed again to keep them.
    pub recompute: Option<Bytes>,
    /// What takes memory when it is used.
    pub on_demand: OnDemand,
    /// Whether the allocators of schedulers share memory.
    pub arena: ArenaSetting,
}

impl Settings {
    /// Sets one of them; an empty value is the default. Returns false for a setting of the process, which is not here.
    ///
    /// # Errors
    /// A message: what is wrong with the value.
    pub fn set(&mut self, key: Key, value: &OsStr) -> Result<bool, String> {
        match key {
            Key::Rules => self.rules = parse(value)?,
            Key::Effort => self.effort = parse_effort(value)?,
            Key::Verify => self.verify = parse(value)?,
            Key::Retain => self.retain = parse(value)?,
            Key::Reorder => self.reorder = if value.is_empty() { Switch::Off } else { parse(value)? },
            Key::Budget => self.budget = parse(value)?,
            Key::Recompute => self.recompute = parse_budget(in_utf8(value)?)?,
            Key::OnDemand => self.on_demand = parse(value)?,
            Key::Arena => self.arena = parse(value)?,
            Key::Switch
            | Key::Log
            | Key::Report
            | Key::Recycle
            | Key::Capture
            | Key::DumpDir
            | Key::Dump
            | Key::Accounting
            | Key::Live => return Ok(false),
        }
        Ok(true)
    }
}

impl Setting {
    /// Checks a value, but for files and folders, which may be there where it is used.
    ///
    /// # Errors
    /// A message: what is wrong with the value.
    pub fn check(&self, value: &OsStr) -> Result<(), String> {
        if Settings::default().set(self.key, value)? {
            return Ok(());
        }
        match self.key {
            Key::Switch => parse::<Switch>(value).map(drop),
            Key::Log => parse_level(in_utf8(value)?).map(drop),
            Key::Recycle => parse_limit(value).map(drop),
            Key::Dump => parse::<NamePattern>(value).map(drop),
            _ => Ok(()),
        }
    }
}

/// The value of a variable that switches something on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// on, 1, true, yes or empty.
    On,
    /// off, 0, false or no.
    #[default]
    Off,
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.trim();
        match word {
            _ if means_off(word) => Ok(Self::Off),
            "" => Ok(Self::On),
            _ if is_one_of(word, &["on", "1", "true", "yes"]) => Ok(Self::On),
            _ => Err(unknown(text, "on, 1, true, yes, off, 0, false, no")),
        }
    }
}

/// The level of a message, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something cannot be done.
    Error,
    /// A request is not followed exactly.
    Warn,
    /// The plans of each allocator.
    Info,
    /// The decision at each call, and the time that it takes.
    Debug,
}

const LEVELS: [(&str, Level); 4] =
    [("error", Level::Error), ("warn", Level::Warn), ("info", Level::Info), ("debug", Level::Debug)];

/// Parses the least important level that is logged, in any case; `None` if that is not set, or off.
///
/// # Errors
/// A message that quotes the word.
pub fn parse_level(text: &str) -> Result<Option<Level>, String> {
    let word = text.trim();
    if word.is_empty() || means_off(word) {
        return Ok(None);
    }
    let level = LEVELS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
    level.map(|(_, level)| Some(*level)).ok_or_else(|| unknown(word, "error, warn, info, debug, off"))
}

/// The checks made at run time; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verify {
    /// Simulates each graph that an allocator assigns memory to.
    pub plan: bool,
    /// Compares memory while graphs run.
    pub memory: bool,
    /// Compares memory of buffers that are marked as weights too.
    pub weights: bool,
    /// Allows custom operations, functions of the program, to write anywhere.
    pub trusts_custom: bool,
}

impl FromStr for Verify {
    type Err = String;

    /// Parses words separated by commas, in any case; each adds to those before it, and `off` removes them.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut verify = Self::default();
        for word in text.split(',').map(str::trim) {
            match word.to_ascii_lowercase().as_str() {
                "" => {}
                off if means_off(off) => verify = Self::default(),
                "plan" => verify.plan = true,
                "memory" => verify = Self { plan: true, memory: true, ..verify },
                "weights" => verify = Self { plan: true, memory: true, weights: true, ..verify },
                "no-custom" => verify.trusts_custom = true,
                _ => return Err(unknown(word, "off, plan, memory, weights, no-custom")),
            }
        }
        Ok(verify)
    }
}

/// What takes memory when it is used, not when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDemand {
    /// Buffers in which a program allocates the tensors of a context.
    pub caches: bool,
    /// Compute buffers, which also give back what later graphs do not need.
    pub compute: bool,
}

impl Default for OnDemand {
    fn default() -> Self {
        Self { caches: true, compute: false }
    }
}

impl FromStr for OnDemand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Ok(Self::default()),
            "caches" => Ok(Self { caches: true, compute: false }),
            "compute" => Ok(Self { caches: false, compute: true }),
            "all" => Ok(Self { caches: true, compute: true }),
            word if means_off(word) => Ok(Self { caches: false, compute: false }),
            word => Err(unknown(word, "caches, compute, all or off")),
        }
    }
}

/// Whether the allocators of schedulers share memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArenaSetting {
    /// Each has its own.
    #[default]
    Off,
    /// Those of one thread share it. Results are read before the graph of another one runs.
    Shared,
    /// As [`Self::Shared`], and each keeps its results.
    SharedButOutputs,
}

impl FromStr for ArenaSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "shared" => Ok(Self::Shared),
            "shared,outputs" => Ok(Self::SharedButOutputs),
            word if word.is_empty() || means_off(word) => Ok(Self::Off),
            word => Err(unknown(word, "shared, shared,outputs or off")),
        }
    }
}

/// How much memory waits for the next allocators, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes of all buffers that wait.
    pub bytes: Bytes,
    /// How long each waits at most.
    pub time: Duration,
}

/// Parses bytes and, after a comma, seconds, of which 60 are the default.
///
/// # Errors
/// A message that quotes the value.
pub fn parse_limit(value: &OsStr) -> Result<Option<Limit>, String> {
    let value = in_utf8(value)?.trim();
    if value.is_empty() || means_off(value) {
        return Ok(None);
    }
    let (bytes, seconds) = value.split_once(',').unwrap_or((value, "60"));
    let wrong =
        || format!("{value:?} is not a limit; expected bytes and seconds, such as 1GiB,60, bytes alone, or off");
    let (bytes, seconds) = parse_size(bytes).zip(seconds.trim().parse().ok()).ok_or_else(wrong)?;
    Ok(Some(Limit { bytes, time: Duration::from_secs(seconds) }))
}

/// Parses a number of units of work, of which 0 or none is the default.
///
/// # Errors
/// A message that quotes it.
pub fn parse_effort(value: &OsStr) -> Result<Effort, String> {
    let value = in_utf8(value)?.trim();
    let units = if value.is_empty() { Ok(0) } else { value.parse() };
    let wrong =
        |error| format!("{value:?} is not a number of units ({error}); expected a whole number, or 0 for the default");
    units.map(|units| if units == 0 { Effort::default() } else { Effort::units(units) }).map_err(wrong)
}

/// The bytes that buffers may need, by device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// For devices that are not named.
    others: Option<Bytes>,
    /// By name, those that are.
    named: Vec<(String, Option<Bytes>)>,
}

impl Budgets {
    /// Returns `true` if no device has a budget.
    pub fn is_none(&self) -> bool {
        self.others.is_none() && self.named.iter().all(|(_, bytes)| bytes.is_none())
    }

    /// Returns the budget of a device, by any of its names, in any case.
    pub fn of(&self, names: &[String]) -> Option<Bytes> {
        let is_it = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        self.named.iter().find(|(name, _)| is_it(name)).map_or(self.others, |(_, bytes)| *bytes)
    }
}

impl FromStr for Budgets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut budgets = Self::default();
        for word in text.split(',') {
            match word.trim().rsplit_once(':') {
                Some((name, bytes)) if !name.trim().is_empty() => {
                    budgets.named.push((name.trim().to_owned(), parse_budget(bytes)?));
                }
                _ => budgets.others = parse_budget(word)?,
            }
        }
        Ok(budgets)
    }
}

fn parse_budget(text: &str) -> Result<Option<Bytes>, String> {
    let text = text.trim();
    if text.is_empty() || means_off(text) {
        return Ok(None);
    }
    let wrong =
        || format!("{text:?} is not a budget; expected a number of bytes, such as 53000000, 512M or 2GiB, or off");
    parse_size(text).map(Some).ok_or_else(wrong)
}

/// Parses text.
///
/// # Errors
/// A message: what is wrong with it.
pub fn parse<T: FromStr<Err: Display>>(value: &OsStr) -> Result<T, String> {
    in_utf8(value)?.parse().map_err(|error: T::Err| error.to_string())
}

fn in_utf8(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| format!("{value:?} is not UTF-8"))
}

fn unknown(word: &str, expected: &str) -> String {
    format!("{word:?} is unknown; expected {expected}")
}
