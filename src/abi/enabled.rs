//! Whether lastuse plans the graphs of the caller, for functions that have no effect otherwise.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ggml::{NoGgml, NotEnabled, check_enabled, log_error};

use super::last_error::set_last_error;

/// Checks that lastuse is enabled. Before a ggml is loaded it is taken to be.
///
/// # Errors
/// [`NotEnabled`].
pub(super) fn check_enabled_or_not_loaded() -> Result<(), NotEnabled> {
    check_enabled().or_else(|why| if why == NotEnabled::NoGgml(NoGgml::NotLoaded) { Ok(()) } else { Err(why) })
}

/// Returns `true` if lastuse is enabled or no ggml is loaded yet; sets the last error otherwise.
pub(super) fn is_enabled(function: &str) -> bool {
    check_enabled_or_not_loaded().inspect_err(|why| set_not_enabled(function, why)).is_ok()
}

/// Sets the last error. That the program is linked in the wrong order also goes to ggml's log, once.
pub(super) fn set_not_enabled(function: &str, why: &NotEnabled) {
    static IS_LOGGED: AtomicBool = AtomicBool::new(false);
    set_last_error(function, why);
    if matches!(why, NotEnabled::NotReached(_)) && !IS_LOGGED.swap(true, Ordering::Relaxed) {
        log_error(&format!("{function}: {why}\n"));
    }
}
