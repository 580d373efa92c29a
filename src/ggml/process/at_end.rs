//! Reports, at the end of a process that has loaded a ggml, why lastuse has served no allocator.

use crate::ggml::environment::path_in;
use crate::ggml::observe::events::Events;
use crate::ggml::process::enabled::NotEnabled;
use crate::ggml::process::forwarding::why_bypassed;
use crate::ggml::process::reached::why_not_reached;
use crate::ggml::process::registry::decided_ggmls;
use crate::settings::Key;

/// Called by the dynamic linker when the process ends, or the library is unloaded.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = report;

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
