//! A ggml of this process, and the code that serves its calls.

use std::fmt;

use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::original::Original;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::observe::events::Events;

use super::reached::is_reached;

/// The code that serves the calls of `ggml-alloc.h`.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each ggml")]
pub enum Server {
    /// lastuse.
    Lastuse(Runtime),
    /// ggml's own allocator, which lastuse is interposed before.
    Original(Original),
}

/// A ggml of this process, and the decision for it.
#[derive(Debug)]
pub struct Ggml {
    /// The code that serves its calls.
    pub server: Server,
    /// Its own allocator, if lastuse is interposed before it.
    pub original: Option<Original>,
    /// Why its own allocator serves the calls, where lastuse is not switched off.
    pub handed_over: Option<String>,
    /// Access for functions that only lastuse has, if its own allocator serves the calls and the layout is known.
    pub switched_off: Option<Runtime>,
    /// Its functions; `None` if one is missing that every ggml has.
    pub functions: Option<Functions>,
    /// The report that its allocators write to, if one is requested.
    pub events: Option<Events>,
}

/// Why the ggml of a call is unknown or unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGgml {
    /// No ggml is loaded.
    NotLoaded,
    /// Several are loaded, and it is unclear which one the call belongs to.
    Several,
    /// Neither lastuse nor its own allocator can serve it, for this reason.
    Unusable(&'static str),
}

impl fmt::Display for NoGgml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotLoaded => "no ggml is loaded in this process",
            Self::Several => {
                "several ggmls are loaded in this process, and it is unclear which one the call belongs to: pass a buffer type, or \
                 call from code that is linked with one of them"
            }
            Self::Unusable(why) => why,
        })
    }
}

impl Ggml {
    /// Returns access for functions that only lastuse has, whichever code serves. `None` if the layout of its structs
    /// is unknown.
    pub fn runtime(&'static self) -> Option<&'static Runtime> {
        match &self.server {
            Server::Lastuse(runtime) => Some(runtime),
            Server::Original(_) => self.switched_off.as_ref(),
        }
    }

    /// Returns access if lastuse serves the calls of the program.
    pub fn served(&'static self) -> Option<&'static Runtime> {
        match &self.server {
            Server::Lastuse(runtime) if self.original_in_use().is_none() => Some(runtime),
            _ => None,
        }
    }

    /// Returns its own allocator if the calls of the program end there.
    pub fn original_in_use(&'static self) -> Option<&'static Original> {
        match &self.server {
            Server::Original(original) => Some(original),
            Server::Lastuse(_) => self.original.as_ref().filter(|_| !is_reached()),
        }
    }
}
