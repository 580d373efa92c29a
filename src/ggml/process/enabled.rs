//! Does lastuse do the work?

use std::fmt;

use super::ggml::{NoGgml, Server};
use super::reached::is_reached;
use crate::ggml::process::registry::{all_ggmls, ggml_of_caller};

/// Why lastuse does not do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEnabled {
    /// The program calls ggml's own allocator, and not lastuse.
    NotReached,
    /// lastuse hands every call to ggml's own allocator.
    HandsOn,
    /// There is no ggml.
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
            Self::HandsOn => write!(f, "ggml's own allocator does the work"),
            Self::NoGgml(why) => why.fmt(f),
        }
    }
}

/// Does lastuse do the work for the caller of lastuse? For one that uses no ggml itself: for any ggml of the process.
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
    if is_served { Ok(()) } else { Err(NotEnabled::HandsOn) }
}
