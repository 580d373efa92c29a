//! The settings of new allocators, from the environment and from C functions.

use std::ffi::CStr;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::graph::{NamePattern, RuleSetting};
use crate::placement::{Bytes, Effort};
use crate::report::parse_size;

use crate::ggml::environment::{Switch, means_off, text_of};
use crate::ggml::observe::dump::dumps;
use crate::ggml::observe::verify::Verify;
use crate::ggml::process::current::log_error;
use crate::ggml::version::SIGNATURE;

/// The variable with the in-place and aliasing rules: a [`RuleSetting`].
const RULES: &CStr = c"LASTUSE_RULES";

/// The variable that limits the work of placement: a whole number, as [`effort`] takes it.
const EFFORT: &CStr = c"LASTUSE_EFFORT";

/// The variable that selects the checks at run time: a [`Verify`].
const VERIFY: &CStr = c"LASTUSE_VERIFY";

/// The variable with the names of tensors that stay readable: a [`NamePattern`].
const RETAIN: &CStr = c"LASTUSE_RETAIN";

/// The variable that has the nodes of graphs put into an order with a lower peak: a [`Switch`], off unless it is set.
const REORDER: &CStr = c"LASTUSE_REORDER";

/// The variable with the bytes that the buffers of an allocator may need: a size, or a word that means off.
const BUDGET: &CStr = c"LASTUSE_BUDGET";

/// The number of calls of [`set_retain`].
static RETAIN_CHANGES: AtomicU64 = AtomicU64::new(0);

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
    /// The bytes that the buffers of an allocator may need; large intermediates are computed in tiles to keep them.
    pub budget: Option<Bytes>,
}

impl Settings {
    /// Reads the settings from the environment. Invalid values have no effect, and are reported to `complain`.
    pub fn of_environment(variable: impl Fn(&CStr) -> Option<String>, complain: impl Fn(&str)) -> Self {
        let value = |name: &CStr| variable(name).unwrap_or_default();
        Self {
            rules: valid_or_default(RULES, value(RULES).parse(), &complain),
            effort: valid_or_default(EFFORT, parse_effort(value(EFFORT).trim()), &complain),
            verify: valid_or_default(VERIFY, value(VERIFY).parse(), &complain),
            retain: valid_or_default(RETAIN, value(RETAIN).parse(), &complain),
            reorder: valid_or_default(REORDER, variable(REORDER).map_or(Ok(Switch::Off), |it| it.parse()), &complain),
            budget: valid_or_default(BUDGET, parse_budget(value(BUDGET).trim()), &complain),
        }
    }
}

/// Returns the settings of allocators created from now on. Tensors that are dumped stay readable too.
pub fn settings() -> Settings {
    let mut settings = of_process().lock().unwrap_or_else(PoisonError::into_inner).clone();
    settings.retain = settings.retain.or(dumps().pattern());
    settings
}

/// Changes the settings of allocators created from now on.
pub fn change_settings(change: impl FnOnce(&mut Settings)) {
    change(&mut of_process().lock().unwrap_or_else(PoisonError::into_inner));
}

/// Sets the names of tensors that stay readable, for existing and for later allocators.
pub fn set_retain(retain: NamePattern) {
    change_settings(|settings| settings.retain = retain);
    RETAIN_CHANGES.fetch_add(1, Ordering::Release);
}

/// Returns a number that changes with the names of tensors that stay readable, and is 0 before the first change.
pub fn retain_changes() -> u64 {
    RETAIN_CHANGES.load(Ordering::Acquire) + dumps().changes()
}

/// The settings of the process, which start as the environment sets them.
fn of_process() -> &'static Mutex<Settings> {
    static OF_PROCESS: OnceLock<Mutex<Settings>> = OnceLock::new();
    let complain = |what: &str| log_error(&format!("{SIGNATURE}{what}\n"));
    OF_PROCESS.get_or_init(|| Mutex::new(Settings::of_environment(text_of, complain)))
}

/// Converts a number of units, as C functions and the environment pass it, to an effort: 0 is the default.
pub fn effort(units: u64) -> Effort {
    if units == 0 { Effort::default() } else { Effort::units(units) }
}

fn parse_effort(text: &str) -> Result<Effort, String> {
    let units = if text.is_empty() { Ok(0) } else { text.parse() };
    let wrong =
        |error| format!("{text:?} is not a number of units ({error}); expected a whole number, or 0 for the default");
    units.map(effort).map_err(wrong)
}

fn parse_budget(text: &str) -> Result<Option<Bytes>, String> {
    if text.is_empty() || means_off(text) {
        return Ok(None);
    }
    let wrong =
        || format!("{text:?} is not a budget; expected a number of bytes, such as 53000000, 512M or 2GiB, or off");
    parse_size(text).map(Some).ok_or_else(wrong)
}

/// Returns a parsed value, or the default after reporting that the variable `name` has no effect.
fn valid_or_default<T: Default, E: Display>(name: &CStr, value: Result<T, E>, complain: &impl Fn(&str)) -> T {
    value.unwrap_or_else(|error| {
        complain(&format!("{} has no effect: {error}", name.to_string_lossy()));
        T::default()
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn budget_in(value: &str) -> (Option<Bytes>, Vec<String>) {
        let complaints = RefCell::new(Vec::new());
        let variable = |name: &CStr| (name == BUDGET).then(|| value.to_owned());
        let settings = Settings::of_environment(variable, |what: &str| complaints.borrow_mut().push(what.to_owned()));
        (settings.budget, complaints.into_inner())
    }

    #[test]
    fn budgets_are_sizes_or_off() {
        let expected = [("700MiB", Some(700 << 20)), (" 1g ", Some(1 << 30)), ("", None), ("off", None), ("0", None)];
        for (text, budget) in expected {
            assert_eq!(budget_in(text), (budget, Vec::new()), "{text:?}");
        }
    }

    #[test]
    fn malformed_budgets_have_no_effect_and_are_quoted() {
        for text in ["much", "40%", "-1", "99999999999T"] {
            let (budget, complaints) = budget_in(text);
            let [complaint] = complaints.as_slice() else { panic!("{complaints:?}") };
            assert_eq!(budget, None);
            assert!(
                complaint.starts_with(&format!("LASTUSE_BUDGET has no effect: {text:?} is not a budget")),
                "{complaint}"
            );
        }
    }
}
