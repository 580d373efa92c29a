//! What a program, or its user, says about all allocators that are made from now on.

use std::ffi::CStr;
use std::fmt::Display;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::graph::RuleSetting;
use crate::placement::Effort;

use crate::ggml::environment::text_of;
use crate::ggml::observe::verify::Verify;
use crate::ggml::process::current::log_error;
use crate::ggml::version::SIGNATURE;

/// Says which memory may be shared: a [`RuleSetting`].
const RULES: &CStr = c"LASTUSE_RULES";

/// Says how much work placing may take: a whole number, as [`effort`] takes it.
const EFFORT: &CStr = c"LASTUSE_EFFORT";

/// Says what is watched at run time: a [`Verify`].
const VERIFY: &CStr = c"LASTUSE_VERIFY";

/// What holds for new allocators.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which memory they may share.
    pub rules: RuleSetting,
    /// How much work the search for smaller offsets may do.
    pub effort: Effort,
    /// What is watched at run time.
    pub verify: Verify,
}

impl Settings {
    /// What the environment says; what it says wrongly has no effect, and `complain` is told so.
    pub fn of_environment(variable: impl Fn(&CStr) -> Option<String>, complain: impl Fn(&str)) -> Self {
        let said = |name: &CStr| variable(name).unwrap_or_default();
        Self {
            rules: accepted(RULES, said(RULES).parse(), &complain),
            effort: accepted(EFFORT, effort_in(said(EFFORT).trim()), &complain),
            verify: accepted(VERIFY, said(VERIFY).parse(), &complain),
        }
    }
}

/// What holds for the allocators made from now on.
pub fn settings() -> Settings {
    of_process().lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Changes what holds for the allocators made from now on.
pub fn change_settings(change: impl FnOnce(&mut Settings)) {
    change(&mut of_process().lock().unwrap_or_else(PoisonError::into_inner));
}

/// First as the environment says.
fn of_process() -> &'static Mutex<Settings> {
    static OF_PROCESS: OnceLock<Mutex<Settings>> = OnceLock::new();
    let complain = |what: &str| log_error(&format!("{SIGNATURE}{what}\n"));
    OF_PROCESS.get_or_init(|| Mutex::new(Settings::of_environment(text_of, complain)))
}

/// The effort that a number of units stands for where C or the environment says it: 0 is the default.
pub fn effort(units: u64) -> Effort {
    if units == 0 { Effort::default() } else { Effort::units(units) }
}

fn effort_in(text: &str) -> Result<Effort, String> {
    let units = if text.is_empty() { Ok(0) } else { text.parse() };
    let wrong = |error| format!("{text:?} is no number of units ({error}); known are whole numbers, 0 for the default");
    units.map(effort).map_err(wrong)
}

/// What was said, where it is right.
fn accepted<T: Default, E: Display>(name: &CStr, said: Result<T, E>, complain: &impl Fn(&str)) -> T {
    said.unwrap_or_else(|wrong| {
        complain(&format!("{} has no effect: {wrong}", name.to_string_lossy()));
        T::default()
    })
}
