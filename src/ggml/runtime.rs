//! Which ggml is this, and who serves its programs: lastuse, or ggml's own allocator? Decided once.

use std::ffi::{CStr, c_int};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::capture::Captures;
use super::environment::text_of;
use super::events::Events;
use super::functions::Functions;
use super::loaded;
use super::log::{Level, c_string, is_heard, say};
use super::operations::Operations;
use super::original::Original;
use super::probe::{UnknownLayout, probe};
use super::settings::Settings;
use super::switch::Switch;

/// The version of lastuse.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What messages that name no function begin with.
pub const SIGNATURE: &str = concat!("lastuse ", env!("CARGO_PKG_VERSION"), ": ");

/// A [`Switch`]: off hands every call to ggml's own allocator, where lastuse stands before it.
const SWITCH: &CStr = c"LASTUSE";

/// A function that every ggml defines, and nobody who stands between a program and ggml's allocator does.
const ONLY_IN_GGML: &CStr = c"ggml_nbytes";

/// A ggml whose structs lastuse knows.
#[derive(Debug)]
pub struct Runtime {
    /// Its functions.
    pub functions: Functions,
    /// Its operations.
    pub operations: Operations,
    /// What holds for the allocators made from now on.
    settings: Mutex<Settings>,
    /// Where planned graphs are written.
    pub captures: Captures,
    version: String,
    /// Do `ggml_backend_tensor_alloc` and `ggml_backend_view_init` return a status? In old versions they return
    /// nothing; that they do is known only for those that can tell their version.
    pub returns_status: bool,
}

/// Who answers the calls of `ggml-alloc.h`.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for the whole process")]
pub enum Server {
    /// lastuse.
    Lastuse(Runtime),
    /// ggml's own allocator, which lastuse stands before.
    Original(Original),
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// What was decided for this process.
#[derive(Debug)]
struct Process {
    server: Server,
    /// The ggml of the process, where ggml's own allocator serves although lastuse knows this ggml.
    switched_off: Option<Runtime>,
    /// What the allocators do, where a report is wanted.
    events: Option<Events>,
}

/// Who answers the calls of this process. Aborts when neither lastuse nor ggml can.
pub fn runtime() -> &'static Server {
    &PROCESS.get_or_init(decide).server
}

/// The ggml of this process, also where its own allocator serves: for what only lastuse has. `None` when it has a layout
/// that lastuse does not know. Aborts as [`runtime`].
pub fn known_ggml() -> Option<&'static Runtime> {
    let process = PROCESS.get_or_init(decide);
    match &process.server {
        Server::Lastuse(runtime) => Some(runtime),
        Server::Original(_) => process.switched_off.as_ref(),
    }
}

/// Where the allocators of this process tell what they do; `None` where nobody wants to know, and before anything was
/// decided.
pub fn events() -> Option<&'static Events> {
    PROCESS.get()?.events.as_ref()
}

impl Runtime {
    /// What holds for the allocators made from now on.
    pub fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what holds for the allocators made from now on.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Says that something is done otherwise than was asked for: a line with its end.
    pub fn log_warning(&self, message: &str) {
        say(&self.functions, Level::Warn, message);
    }

    /// Says that something cannot be done.
    pub fn log_error(&self, message: &str) {
        say(&self.functions, Level::Error, message);
    }

    /// Says what only some want to read.
    pub fn log(&self, level: Level, message: impl FnOnce() -> String) {
        if self.is_heard(level) {
            say(&self.functions, level, &message());
        }
    }

    /// Will anybody hear of what is said so?
    pub fn is_heard(&self, level: Level) -> bool {
        is_heard(&self.functions, level)
    }
}

/// Ends the process through `ggml_abort`, so that the abort callback of the program hears the message.
pub fn abort(file: &str, line: u32, message: &str) -> ! {
    let functions = match PROCESS.get() {
        Some(Process { server: Server::Lastuse(runtime), .. }) => Ok(runtime.functions),
        _ => Functions::linked().or_else(|_| only_loaded_ggml().map(|(functions, _)| functions)),
    };
    if let Ok(functions) = functions {
        let (file, message) = (c_string(file), c_string(message));
        let line = c_int::try_from(line).unwrap_or(0);
        // SAFETY: three strings that end in NUL, one of them for the one conversion in the format.
        unsafe { (functions.ggml_abort)(file.as_ptr(), line, c"%s".as_ptr(), message.as_ptr()) };
    }
    eprintln!("{file}:{line}: {message}");
    std::process::abort();
}

fn decide() -> Process {
    let linked = Functions::linked().map(|functions| (functions, Original::find(loaded::next_symbol)));
    let (functions, original) = match linked.or_else(|missing| only_loaded_ggml().map_err(|why| (missing, why))) {
        Ok(found) => found,
        Err((missing, why)) => refuse(&format!("{} is missing: {why}", missing.to_string_lossy())),
    };
    if original.is_some() && loaded::paths_with(ONLY_IN_GGML).len() > 1 {
        refuse("more than one ggml is loaded, and lastuse can serve one only");
    }
    let version = version(&functions);
    let complain = |what: &str| say(&functions, Level::Error, &format!("{SIGNATURE}{what}\n"));
    let known = |original: Option<Original>| {
        let operations = Operations::new(functions, original.and_then(|it| it.op_can_inplace), number(&version));
        let settings = Mutex::new(Settings::of_environment(text_of, complain));
        let (captures, version) = (Captures::default(), version.clone());
        Runtime { functions, operations, settings, captures, version, returns_status: functions.ggml_version.is_some() }
    };
    let events = |is_lastuse| Events::of_environment(functions, &version, is_lastuse, complain);
    let is_off = switched_off(complain);
    match (probe(&functions), original) {
        (layout, Some(original)) if is_off => {
            let switched_off = layout.is_ok().then(|| known(Some(original)));
            Process { server: Server::Original(original), switched_off, events: events(false) }
        }
        (Ok(()), original) => {
            if is_off {
                let message = "there is no other allocator to hand over to: LASTUSE=off has no effect\n";
                say(&functions, Level::Warn, &format!("{SIGNATURE}{message}"));
            }
            let runtime = known(original);
            runtime.captures.set_as_environment_says(complain);
            Process { server: Server::Lastuse(runtime), switched_off: None, events: events(true) }
        }
        (Err(UnknownLayout(field)), Some(original)) => {
            let reason = format!("ggml {version} has {field} at an unknown place; ggml's own allocator does the work");
            say(&functions, Level::Warn, &format!("{SIGNATURE}{reason}\n"));
            Process { server: Server::Original(original), switched_off: None, events: events(false) }
        }
        (Err(UnknownLayout(field)), None) => {
            refuse(&format!("it cannot work with ggml {version}, which has {field} at an unknown place"))
        }
    }
}

fn refuse(reason: &str) -> ! {
    abort(file!(), line!(), &format!("{SIGNATURE}{reason}"))
}

/// The ggml of a library that was loaded after the start of the program.
fn only_loaded_ggml() -> Result<(Functions, Option<Original>), String> {
    let mut found = loaded::libraries_with(ONLY_IN_GGML);
    let names: Vec<_> = found.iter().map(|(_, path)| path.to_string_lossy().into_owned()).collect();
    match (found.pop(), names.len()) {
        (Some((library, path)), 1) => {
            let functions = Functions::loaded(&library)
                .map_err(|name| format!("{} is missing in {}", name.to_string_lossy(), path.to_string_lossy()))?;
            let original = Original::find(|name| library.symbol(name));
            library.keep();
            Ok((functions, original))
        }
        (None, _) => Err("no ggml is loaded in this process".to_owned()),
        _ => Err(format!("more than one ggml is loaded, and lastuse can serve one only: {}", names.join(", "))),
    }
}

/// Is lastuse switched off? An unknown word leaves it on, and `complain` is told so.
fn switched_off(complain: impl Fn(&str)) -> bool {
    let switch = text_of(SWITCH).unwrap_or_default().parse::<Switch>().unwrap_or_else(|unknown| {
        complain(&format!("{} has no effect: {unknown}", SWITCH.to_string_lossy()));
        Switch::On
    });
    switch == Switch::Off
}

fn version(functions: &Functions) -> String {
    match functions.ggml_version {
        // SAFETY: takes nothing.
        Some(version) => text(unsafe { version() }),
        None => "of an unknown version (before July 2025)".to_owned(),
    }
}

/// `major.minor.patch`, whatever follows.
fn number(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// A string of ggml.
fn text(string: *const std::ffi::c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: ggml's names are strings that end in NUL.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

impl Runtime {
    /// The version of ggml, as it says it itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The operation of a tensor for people: which of the unary ones it is, say.
    pub fn description(&self, tensor: super::TensorRef<'_>) -> String {
        match self.functions.ggml_op_desc {
            // SAFETY: a live tensor.
            Some(description) => text(unsafe { description(tensor.as_ptr()) }),
            None => self.operations.name(tensor.op()).to_string_lossy().into_owned(),
        }
    }

    /// The name of the element type of a tensor, or its number.
    pub fn element_name(&self, tensor: super::TensorRef<'_>) -> String {
        match self.functions.ggml_type_name {
            // SAFETY: takes the number of a type, which a live tensor has.
            Some(name) => text(unsafe { name(tensor.element()) }),
            None => tensor.element().to_string(),
        }
    }

    /// Bytes from the first to the last element.
    pub fn nbytes(&self, tensor: super::TensorRef<'_>) -> u64 {
        // SAFETY: a live tensor.
        unsafe { (self.functions.ggml_nbytes)(tensor.as_ptr()) as u64 }
    }

    /// Does it lie without gaps, in the order of its elements?
    pub fn is_contiguous(&self, tensor: super::TensorRef<'_>) -> bool {
        // SAFETY: a live tensor.
        unsafe { (self.functions.ggml_is_contiguous)(tensor.as_ptr()) }
    }

    /// Are its elements in blocks?
    pub fn is_quantized(&self, tensor: super::TensorRef<'_>) -> bool {
        // SAFETY: takes the number of a type, which a live tensor has.
        unsafe { (self.functions.ggml_is_quantized)(tensor.element()) }
    }
}
