//! Checks whether lastuse serves the calls of a program.

use std::fmt;

use super::ggml::{NoGgml, Server};
use super::reached::is_reached;
use crate::ggml::process::registry::{all_ggmls, ggml_of_caller};

/// Why lastuse does not serve the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEnabled {
    /// The program calls ggml's own allocator, and not lastuse.
    NotReached,
    /// lastuse forwards every call to ggml's own allocator.
    ForwardsCalls,
    /// No ggml is known.
    NoGgml(NoGgml),
}

impl fmt::Display for NotEnabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReached => write!(
                f,
                "the functions of ggml-alloc.h that the program calls are ggml's own: liblastuse has to come before libggml-base \
                 on the link line, or be preloaded"
            ),
            Self::ForwardsCalls => write!(f, "ggml's own allocator does the work"),
            Self::NoGgml(why) => why.fmt(f),
        }
    }
}

/// Checks that lastuse serves the ggml of the caller, or any ggml of the process if the caller uses none.
///
/// # Errors
/// [`NotEnabled`].
pub fn check_enabled() -> Result<(), NotEnabled> {
    if !is_reached() {
        return Err(NotEnabled::NotReached);
    }
    let ggmls = match ggml_of_caller() {
        Ok(ggml) => vec![ggml],
        Err(NoGgml::Several) => all_ggmls(),
        Err(other) => return Err(NotEnabled::NoGgml(other)),
    };
    let is_served = ggmls.iter().any(|ggml| matches!(ggml.server, Server::Lastuse(_)));
    if is_served { Ok(()) } else { Err(NotEnabled::ForwardsCalls) }
}
