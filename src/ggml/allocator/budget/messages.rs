//! What is logged and reported of budgets.

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::observe::events::Events;
use crate::ggml::version::SIGNATURE;
use crate::placement::Bytes;
use crate::report::sizes::exact;
use crate::settings::Level;

use super::change::Change;
use super::search::Target;

/// Maximum number of logged messages on budgets that cannot be met.
const MOST_LOGGED: usize = 64;

/// Why graphs of nodes that the program lists itself stay as they are: ggml could not add nodes to them without listing unvisited
/// ones again.
pub const LISTED_BY_HAND: &str = "graphs that are not built by ggml_build_forward_expand";

/// Why graphs that share tensors stay as they are: each would change what the others compute.
pub const SHARED: &str =
    "graphs that share large tensors, or whose large tensors are retained or dedicated after they were reserved,";

/// Logs, once for each allocator, which graphs stay as they are.
pub fn log_once(runtime: &Runtime, has_logged: &mut bool, which: &str) {
    if !std::mem::replace(has_logged, true) {
        runtime.log_warning(&format!("{SIGNATURE}LASTUSE_BUDGET: {which} stay whole, whatever they need\n"));
    }
}

/// Logs that a device does not compute what a graph was changed to.
pub fn log_unsupported(buffer_type: BufferType) {
    buffer_type.runtime().log_warning(&format!(
        "{SIGNATURE}LASTUSE_BUDGET: {} does not support the operations of a tile, so graphs stay whole\n",
        buffer_type.name()
    ));
}

/// Logs the result of a search; a budget that is not met is logged once for each number of bytes.
pub fn log_change(buffer_type: BufferType, found: &Change, target: Target, capacity: usize) {
    static LOGGED: Lock<Vec<Bytes>> = Lock::new(Vec::new());
    let variable = match found {
        Change::Tiles(_) => "LASTUSE_BUDGET",
        Change::Again(_) => "LASTUSE_RECOMPUTE",
    };
    let (runtime, before, after) = (buffer_type.runtime(), found.before(), found.after());
    if let Some(budget) = target.bytes(found) {
        let with_copies = [budget, before, after].map(|bytes| bytes.saturating_add(target.copies));
        Events::write_budget(variable, &buffer_type.name(), with_copies);
    }
    if let Some(what) = found.text() {
        runtime
            .log(Level::Info, || format!("{SIGNATURE}{variable}: {what}: {} become {}\n", exact(before), exact(after)));
    }
    let Some(budget) = target.bytes(found).filter(|budget| after > *budget) else { return };
    let mut logged = LOGGED.lock();
    if logged.contains(&after) || logged.len() == MOST_LOGGED {
        return;
    }
    logged.push(after);
    drop(logged);
    let copies = match target.copies {
        0 => String::new(),
        copies => format!(", beside {copies} bytes of copies between backends,"),
    };
    runtime.log_warning(&format!(
        "{SIGNATURE}{variable}: no graph was found that fits {budget} bytes{copies} and has room in the {capacity} nodes \
         of the program's graph: {after} bytes are the least that were found, and are used\n"
    ));
}
