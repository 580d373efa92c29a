//! Checks whether lastuse serves the calls of a program, and reports at the end of a process why it has not.

use std::fmt;

use crate::ggml::environment::path_in;
use crate::ggml::observe::events::Events;
use crate::ggml::platform::at_end;
use crate::ggml::process::forwarding::why_bypassed;
use crate::ggml::process::ggml::{NoGgml, Server};
use crate::ggml::process::reached::why_not_reached;
use crate::ggml::process::registry::{all_ggmls, decided_ggmls, ggml_of_caller};
use crate::settings::Key;

/// Why lastuse does not serve the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotEnabled {
    /// The program calls ggml's own allocator, and not lastuse, for this reason.
    NotReached(String),
    /// lastuse forwards every call to ggml's own allocator, for this reason if it is not switched off.
    ForwardsCalls(Option<&'static str>),
    /// No ggml is known.
    NoGgml(NoGgml),
}

impl NotEnabled {
    /// Returns why lastuse has not made an allocator of ggml's that came to it.
    pub fn of_allocator(is_forwarded: bool) -> Self {
        let ggml = || ggml_of_caller().ok().and_then(|ggml| ggml.handed_over.as_deref());
        if is_forwarded {
            return Self::ForwardsCalls(ggml());
        }
        Self::NotReached(why_not_reached().unwrap_or_else(|| "it has looked them up in ggml's library".to_owned()))
    }
}

impl fmt::Display for NotEnabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReached(why) => {
                write!(f, "the functions of ggml-alloc.h that the program calls are ggml's own: {why}")
            }
            Self::ForwardsCalls(None) => write!(f, "ggml's own allocator does the work"),
            Self::ForwardsCalls(Some(why)) => write!(f, "ggml's own allocator does the work: {why}"),
            Self::NoGgml(why) => why.fmt(f),
        }
    }
}

/// Checks that lastuse serves the ggml of the caller, or any ggml of the process if the caller uses none.
///
/// # Errors
/// [`NotEnabled`].
pub fn check_enabled() -> Result<(), NotEnabled> {
    if let Some(why) = why_not_reached() {
        return Err(NotEnabled::NotReached(why));
    }
    let ggmls = match ggml_of_caller() {
        Ok(ggml) => vec![ggml],
        Err(NoGgml::Several) => all_ggmls(),
        Err(other) => return Err(NotEnabled::NoGgml(other)),
    };
    let is_served = ggmls.iter().any(|ggml| matches!(ggml.server, Server::Lastuse(_)));
    let why = || ggmls.iter().find_map(|ggml| ggml.handed_over.as_deref());
    if is_served { Ok(()) } else { Err(NotEnabled::ForwardsCalls(why())) }
}

at_end!(report);

/// Reports why no allocator was served, if a report is requested. Nothing is decided any more, and nothing of ggml is
/// called: its backends may be gone.
extern "C" fn report() {
    if path_in(Key::Report).is_none() {
        return;
    }
    let handed_over = || decided_ggmls().iter().find_map(|ggml| ggml.handed_over.as_deref()).or_else(why_bypassed);
    let why = match why_not_reached() {
        Some(why) => Some(NotEnabled::NotReached(why)),
        None => handed_over().map(|why| NotEnabled::ForwardsCalls(Some(why))),
    };
    if let Some(why) = why {
        Events::write_not_served(&why.to_string());
    }
}
