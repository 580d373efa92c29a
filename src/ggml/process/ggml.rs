//! A ggml of this process, and which code serves its calls.

use std::fmt;

use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::original::Original;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::observe::events::Events;

use super::reached::is_reached;

/// Who answers the calls of `ggml-alloc.h`.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each ggml")]
pub enum Server {
    /// lastuse.
    Lastuse(Runtime),
    /// ggml's own allocator, which lastuse stands before.
    Original(Original),
}

/// A ggml of this process, and what was decided for it.
#[derive(Debug)]
pub struct Ggml {
    /// What answers its calls.
    pub server: Server,
    /// Its own allocator, where lastuse stands before it.
    pub original: Option<Original>,
    /// The same ggml for what only lastuse has, where its own allocator serves and the layout is known.
    pub switched_off: Option<Runtime>,
    /// `None` when something is missing that every ggml has.
    pub functions: Option<Functions>,
    /// The report that its allocators write to, if one is requested.
    pub events: Option<Events>,
}

/// Why no ggml can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGgml {
    /// There is none.
    NotLoaded,
    /// There are several, and nothing tells which one is meant.
    Several,
    /// It can be served neither by lastuse nor by its own allocator: why.
    Unusable(&'static str),
}

impl fmt::Display for NoGgml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotLoaded => "no ggml is loaded in this process",
            Self::Several => {
                "several ggmls are loaded in this process, and nothing tells which one is meant: pass a buffer type, or call \
                 from code that is linked with one of them"
            }
            Self::Unusable(why) => why,
        })
    }
}

impl Ggml {
    /// The ggml for what only lastuse has, also where its own allocator serves. `None` when its layout is not known.
    pub fn known(&'static self) -> Option<&'static Runtime> {
        match &self.server {
            Server::Lastuse(runtime) => Some(runtime),
            Server::Original(_) => self.switched_off.as_ref(),
        }
    }

    /// Its own allocator, where the calls of the program end up there.
    pub fn original_in_use(&'static self) -> Option<&'static Original> {
        match &self.server {
            Server::Original(original) => Some(original),
            Server::Lastuse(_) => self.original.as_ref().filter(|_| !is_reached()),
        }
    }
}
