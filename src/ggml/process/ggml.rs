//! A ggml of this process, and the decision whether lastuse or its own allocator serves its calls.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr::null;
use std::sync::OnceLock;

use crate::ggml::environment::text_of;
use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::loaded::Object;
use crate::ggml::linking::original::Original;
use crate::ggml::linking::owner::is_linked;
use crate::ggml::live::probe::{UnknownLayout, probe};
use crate::ggml::live::runtime::{Runtime, version};
use crate::ggml::log::log_message;
use crate::ggml::observe::events::Events;
use crate::ggml::platform::next_symbol;
use crate::ggml::process::reached::{bound_in_part, is_reached};
use crate::ggml::version::SIGNATURE;
use crate::settings::{Key, Level, Switch};

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
    /// Its own allocator, if lastuse is interposed before it, or linked together with it.
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

/// A ggml as the dynamic linker describes it.
pub struct LinkedGgml {
    /// The object that it lies in, for messages.
    object: String,
    /// Its functions, or the name of the first that is missing.
    functions: Result<Functions, &'static CStr>,
    /// Its own allocator, if lastuse is interposed before that, or linked together with it.
    original: Option<Original>,
    /// Which calls of its allocator do not reach lastuse, if others do.
    in_part: Option<String>,
}

impl LinkedGgml {
    /// Looks up the functions of the ggml in `object`. A single ggml (not `is_one_of_several`) is used as the linker
    /// binds lastuse to it, so that functions of ggml that the program interposes are called.
    pub fn new(object: &Object, is_one_of_several: bool) -> Self {
        let library = object.open();
        let in_library = |name: &CStr| library.as_ref().map_or(null(), |library| not_own(library.symbol(name)));
        let loaded = || library.as_ref().map_or(Err(c"the library"), Functions::loaded);
        let (functions, original) = if Object::own() == Some(object) {
            (Functions::linked(), Original::linked())
        } else if is_linked(object) && !is_one_of_several {
            let original = Original::find(next_symbol).or_else(|| Original::find(in_library));
            (Functions::linked().or_else(|_| loaded()), original)
        } else {
            (loaded(), Original::find(in_library))
        };
        Self { object: object.name(), functions, original, in_part: bound_in_part(object) }
    }
}

/// Decides which code serves a ggml.
///
/// # Errors
/// The reason if neither lastuse nor its own allocator can.
pub fn decide(linked: LinkedGgml) -> Result<Ggml, String> {
    let LinkedGgml { object, functions, original, in_part } = linked;
    let missing = match functions {
        Ok(functions) => return decide_known(functions, original, in_part),
        Err(missing) => format!("{} is missing in {object}", missing.to_string_lossy()),
    };
    let original = original.ok_or_else(|| missing.clone())?;
    // The functions of its log may be missing too.
    eprintln!("{SIGNATURE}{missing}; ggml's own allocator does the work");
    let server = Server::Original(original);
    let original = Some(original);
    Ok(Ggml { server, original, handed_over: Some(missing), switched_off: None, functions: None, events: None })
}

fn decide_known(functions: Functions, original: Option<Original>, in_part: Option<String>) -> Result<Ggml, String> {
    let version = version(&functions);
    let log = |level, message: &str| log_message(&functions, level, &format!("{SIGNATURE}{message}\n"));
    let events = |is_lastuse| Events::from_environment(functions, &version, is_lastuse, |why| log(Level::Error, why));
    let known = |layout| Runtime::new(functions, original.as_ref(), &version, layout);
    let all = |server, switched_off, events| {
        Ok(Ggml { server, original, handed_over: None, switched_off, functions: Some(functions), events })
    };
    let hand_over = |original, why: String, known| {
        log(Level::Warn, &format!("{why}; ggml's own allocator does the work"));
        all(Server::Original(original), known, events(false)).map(|ggml| Ggml { handed_over: Some(why), ..ggml })
    };
    let is_off = switched_off(|why| log(Level::Error, why));
    match (probe(&functions), original, in_part) {
        (layout, Some(original), _) if is_off => {
            let switched_off = layout.ok().map(known);
            all(Server::Original(original), switched_off, events(false))
        }
        (Ok(layout), Some(original), Some(why)) => hand_over(original, why, Some(known(layout))),
        (Ok(layout), ..) => {
            if is_off {
                log(Level::Warn, "there is no other allocator to forward calls to: LASTUSE=off has no effect");
            }
            all(Server::Lastuse(known(layout)), None, events(true))
        }
        (Err(UnknownLayout(field)), Some(original), _) => {
            hand_over(original, format!("ggml {version} has {field} at an unknown offset"), None)
        }
        (Err(UnknownLayout(field)), None, _) => {
            Err(format!("cannot work with ggml {version}, which has {field} at an unknown offset"))
        }
    }
}

/// Replaces an address in lastuse itself by null.
fn not_own(address: *const c_void) -> *const c_void {
    if Object::own().is_some_and(|own| own.contains(address)) { null() } else { address }
}

/// Returns `true` if the environment switches lastuse off. An unknown word leaves it on, and is reported to `complain`
/// once.
fn switched_off(complain: impl Fn(&str)) -> bool {
    static SWITCHED_OFF: OnceLock<bool> = OnceLock::new();
    *SWITCHED_OFF.get_or_init(|| {
        let switch = text_of(Key::Switch).unwrap_or_default().parse::<Switch>().unwrap_or_else(|unknown| {
            complain(&format!("{} has no effect: {unknown}", Key::Switch.variable().to_string_lossy()));
            Switch::On
        });
        switch == Switch::Off
    })
}
