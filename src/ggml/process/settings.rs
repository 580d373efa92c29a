//! The settings of [`crate::settings`]: what their values mean. The environment sets them first, `lastuse_set` afterwards.

use std::ffi::OsStr;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use crate::ggml::environment::{Switch, is_path, value_of};
use crate::ggml::live::lock::{Lock, Locked};
use crate::ggml::live::recycled::{Limit, set_limit};
use crate::ggml::log::log_error;
use crate::ggml::observe::accounting::{recorder, set_live_file};
use crate::ggml::observe::capture::{Destination, captures};
use crate::ggml::observe::dump::dumps;
use crate::ggml::observe::verify::Verify;
use crate::ggml::retention::note_names_changed;
use crate::ggml::version::SIGNATURE;
use crate::graph::{NamePattern, RuleSetting};
use crate::placement::{Bytes, Effort};
use crate::report::sizes::parse_size;
use crate::settings::means_off;
use crate::settings::{Key, SETTINGS, Setting, find};

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
    pub budget: Option<Bytes>,
    /// What takes memory when it is used.
    pub on_demand: OnDemand,
    /// Whether the allocators of schedulers share memory.
    pub arena: ArenaSetting,
}

/// Whether the allocators of schedulers share memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArenaSetting {
    /// Each has its own.
    #[default]
    Off,
    /// Those of one thread share it. Results are read before the graph of another one runs.
    Shared,
    /// As above, and each keeps its results.
    SharedButOutputs,
}

impl FromStr for ArenaSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "shared" => Ok(Self::Shared),
            "shared,outputs" => Ok(Self::SharedButOutputs),
            word if word.is_empty() || means_off(word) => Ok(Self::Off),
            word => Err(format!("{word:?} is unknown; expected shared, shared,outputs or off")),
        }
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
            word => Err(format!("{word:?} is unknown; expected caches, compute, all or off")),
        }
    }
}

impl Settings {
    /// Sets one of them. Returns false for a setting of the process, which is not here.
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
            Key::Budget => self.budget = parse_budget(value)?,
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

/// Returns the settings of allocators created from now on. Tensors that are dumped stay readable too.
pub fn settings() -> Settings {
    let mut settings = of_allocators().clone();
    settings.retain = settings.retain.or(dumps().pattern());
    settings
}

/// Returns the names of the tensors that stay readable.
pub fn retained_names() -> NamePattern {
    settings().retain
}

/// Sets a setting of the process by name, from now on. An empty value is the default.
///
/// # Errors
/// A message: the name is unknown, or what is wrong with the value. Nothing is changed then.
pub fn set(name: &str, value: &OsStr) -> Result<(), String> {
    let setting = find(name, Setting::is_of_process)?;
    // The environment must not override a call before the first graph.
    read_environment();
    let named = |why| format!("{}: {why}", setting.name());
    if !of_allocators().set(setting.key, value).map_err(named)? {
        observe(setting.key, value).map_err(named)?;
    }
    if setting.key == Key::Retain {
        note_names_changed();
    }
    Ok(())
}

/// A setting of one allocator.
#[derive(Clone, Debug)]
pub enum AllocatorSetting {
    /// The in-place and aliasing rules.
    Rules(RuleSetting),
    /// The limit on the work of placement.
    Effort(Effort),
}

impl AllocatorSetting {
    /// Parses the value of a setting by name. An empty value is the default.
    ///
    /// # Errors
    /// A message: the name is not one of them, or what is wrong with the value.
    pub fn parse(name: &str, value: &OsStr) -> Result<Self, String> {
        let setting = find(name, Setting::is_of_allocator)?;
        let parsed = if setting.key == Key::Rules {
            parse(value).map(Self::Rules)
        } else {
            parse_effort(value).map(Self::Effort)
        };
        parsed.map_err(|why| format!("{}: {why}", setting.name()))
    }
}

/// Reads the settings of the process from the environment, once. Values that are not valid have no effect, and are logged.
pub fn read_environment() {
    static READ: Once = Once::new();
    READ.call_once(|| {
        drop(of_allocators());
        from_environment(|setting, value| observe(setting.key, value));
    });
}

/// The settings of new allocators, which start as the environment sets them.
fn of_allocators() -> Locked<Settings> {
    static OF_ALLOCATORS: OnceLock<Lock<Settings>> = OnceLock::new();
    let settings = OF_ALLOCATORS.get_or_init(|| {
        let mut settings = Settings::default();
        from_environment(|setting, value| settings.set(setting.key, value).map(|_| ()));
        Lock::new(settings)
    });
    settings.lock()
}

fn from_environment(mut set: impl FnMut(&Setting, &OsStr) -> Result<(), String>) {
    for setting in &SETTINGS {
        let Some(value) = value_of(setting.variable) else { continue };
        if let Err(why) = set(setting, &value) {
            log_error(&format!("{SIGNATURE}{} has no effect: {why}\n", setting.variable.to_string_lossy()));
        }
    }
}

/// Starts or ends what the process writes to files, for settings that are about that.
///
/// # Errors
/// A message: why the file or folder cannot be used. Nothing is changed then.
fn observe(key: Key, value: &OsStr) -> Result<(), String> {
    let path = Some(value).filter(|value| is_path(value));
    match key {
        Key::Capture => captures().set(path.map(Destination::new).transpose().map_err(text)?),
        Key::DumpDir => dumps().set_folder(path).map_err(text)?,
        Key::Dump => dumps().set_names(parse(value)?).map_err(text)?,
        Key::Accounting => recorder().set(path).map_err(text)?,
        Key::Live => set_live_file(path).map_err(text)?,
        Key::Recycle => set_limit(parse_limit(value)?),
        Key::Switch | Key::Log | Key::Report => {}
        Key::Rules
        | Key::Effort
        | Key::Verify
        | Key::Retain
        | Key::Reorder
        | Key::Budget
        | Key::OnDemand
        | Key::Arena => {}
    }
    Ok(())
}

/// Parses text.
///
/// # Errors
/// A message: what is wrong with it.
fn parse<T: FromStr<Err: Display>>(value: &OsStr) -> Result<T, String> {
    in_utf8(value)?.parse().map_err(text)
}

/// Parses a number of units of work, of which 0 or none is the default.
///
/// # Errors
/// A message that quotes it.
fn parse_effort(value: &OsStr) -> Result<Effort, String> {
    let value = in_utf8(value)?.trim();
    let units = if value.is_empty() { Ok(0) } else { value.parse() };
    let wrong =
        |error| format!("{value:?} is not a number of units ({error}); expected a whole number, or 0 for the default");
    units.map(|units| if units == 0 { Effort::default() } else { Effort::units(units) }).map_err(wrong)
}

fn parse_budget(value: &OsStr) -> Result<Option<Bytes>, String> {
    let value = in_utf8(value)?.trim();
    if value.is_empty() || means_off(value) {
        return Ok(None);
    }
    let wrong =
        || format!("{value:?} is not a budget; expected a number of bytes, such as 53000000, 512M or 2GiB, or off");
    parse_size(value).map(Some).ok_or_else(wrong)
}

/// Parses bytes and, after a comma, seconds, of which 60 are the default.
fn parse_limit(value: &OsStr) -> Result<Option<Limit>, String> {
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

fn in_utf8(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| format!("{value:?} is not UTF-8"))
}

fn text(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn budget_of(value: &str) -> Result<Option<Bytes>, String> {
        let mut settings = Settings::default();
        settings.set(Key::Budget, OsStr::new(value)).map(|_| settings.budget)
    }

    #[test]
    fn budgets_are_sizes_or_off() {
        let expected = [("700MiB", Some(700 << 20)), (" 1g ", Some(1 << 30)), ("", None), ("off", None), ("0", None)];
        for (text, budget) in expected {
            assert_eq!(budget_of(text), Ok(budget), "{text:?}");
        }
    }

    #[test]
    fn limits_are_bytes_and_seconds() {
        let limit =
            |text: &str| parse_limit(OsStr::new(text)).map(|limit| limit.map(|it| (it.bytes, it.time.as_secs())));
        assert_eq!(limit("1GiB,5"), Ok(Some((1 << 30, 5))));
        assert_eq!(limit(" 4096 "), Ok(Some((4096, 60))));
        assert_eq!([limit(""), limit("off"), limit("0")], [const { Ok(None) }; 3]);
        for text in ["1GiB,", "much", "1GiB,-1", "1GiB,5,6"] {
            assert!(limit(text).is_err_and(|why| why.starts_with(&format!("{text:?} is not a limit"))), "{text}");
        }
    }

    #[test]
    fn malformed_budgets_are_quoted() {
        for text in ["much", "40%", "-1", "99999999999T"] {
            let wrong = budget_of(text).expect_err(text);
            assert!(wrong.starts_with(&format!("{text:?} is not a budget; expected ")), "{wrong}");
        }
    }

    #[test]
    fn each_kind_of_memory_is_on_demand_alone() {
        let of = |text: &str| text.parse::<OnDemand>().map(|of| (of.caches, of.compute));
        let expected = [
            ("", (true, false)),
            ("caches", (true, false)),
            ("compute", (false, true)),
            (" all ", (true, true)),
            ("off", (false, false)),
        ];
        for (text, parts) in expected {
            assert_eq!(of(text), Ok(parts), "{text:?}");
        }
        assert!(of("weights").is_err_and(|why| why.contains("is unknown; expected caches, compute, all or off")));
    }

    #[test]
    fn arenas_are_shared_or_not() {
        let of = |text: &str| text.parse::<ArenaSetting>();
        assert_eq!(["", "off", "0"].map(of), [const { Ok(ArenaSetting::Off) }; 3]);
        assert_eq!(
            (of(" shared "), of("shared,outputs")),
            (Ok(ArenaSetting::Shared), Ok(ArenaSetting::SharedButOutputs))
        );
        assert!(of("outputs").is_err_and(|why| why.contains("is unknown; expected shared, shared,outputs or off")));
    }

    #[test]
    fn values_that_are_not_valid_change_nothing() {
        let mut settings = Settings::default();
        assert_eq!(settings.set(Key::Effort, OsStr::new("7000")), Ok(true));
        assert!(settings.set(Key::Effort, OsStr::new("7k")).is_err_and(|why| why.contains("expected a whole number")));
        assert_eq!(settings.effort, Effort::units(7000));
        assert!(settings.set(Key::Retain, OsStr::from_bytes(b"\xff")).is_err_and(|why| why.ends_with("is not UTF-8")));
        assert_eq!(settings.set(Key::Effort, OsStr::new("")), Ok(true));
        assert_eq!(settings.effort, Effort::default());
    }

    #[test]
    fn each_setting_is_of_allocators_or_of_the_process() {
        let of_allocators = |setting: &&Setting| Settings::default().set(setting.key, OsStr::new("")) == Ok(true);
        let names: Vec<String> = SETTINGS.iter().filter(of_allocators).map(Setting::name).collect();
        assert_eq!(names, ["rules", "effort", "reorder", "budget", "on_demand", "arena", "verify", "retain"]);
    }
}
