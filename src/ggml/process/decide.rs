//! Decides for one ggml whether lastuse or ggml's own allocator serves its calls.

use std::ffi::{CStr, c_void};
use std::ptr::null;
use std::sync::OnceLock;

use super::ggml::{Ggml, Server};
use crate::ggml::environment::{Switch, text_of};
use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::loaded::{Object, next_symbol};
use crate::ggml::linking::original::Original;
use crate::ggml::linking::owner::is_linked;
use crate::ggml::live::probe::{UnknownLayout, probe};
use crate::ggml::live::runtime::{Runtime, version};
use crate::ggml::log::{Level, log_message};
use crate::ggml::observe::events::Events;
use crate::ggml::process::reached::bound_in_part;
use crate::ggml::version::SIGNATURE;
use crate::settings::Key;

/// A ggml as the dynamic linker describes it.
pub struct LinkedGgml {
    /// The object that it lies in, for messages.
    object: String,
    /// Its functions, or the name of the first that is missing.
    functions: Result<Functions, &'static CStr>,
    /// Its own allocator, if lastuse is interposed before that.
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
            (Functions::linked(), None)
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
