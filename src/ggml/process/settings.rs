//! The settings of the process: the environment sets them first, `lastuse_set` afterwards.

use std::ffi::OsStr;
use std::sync::{Once, OnceLock};

use crate::ggml::environment::{is_path, value_of};
use crate::ggml::live::lock::{Lock, Locked};
use crate::ggml::live::recycled::set_limit;
use crate::ggml::log::log_error;
use crate::ggml::observe::accounting::{recorder, set_live_file};
use crate::ggml::observe::capture::{Destination, captures};
use crate::ggml::observe::dump::dumps;
use crate::ggml::retention::note_names_changed;
use crate::ggml::version::SIGNATURE;
use crate::graph::{NamePattern, RuleSetting};
use crate::placement::Effort;
use crate::settings::{Key, SETTINGS, Setting, Settings, find, parse, parse_effort, parse_limit};

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
        | Key::Recompute
        | Key::OnDemand
        | Key::Arena => {}
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
