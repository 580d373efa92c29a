//! Dumps: after a run, the values of the tensors whose names match a pattern are written to files, as arrays of NumPy.
//!
//! `selection` finds the tensors, `overwritten` those that a later node has written over, `values` reads them, `folder`
//! writes the files of each run to its own folder. Dumped tensors are also retained when later graphs are planned.

mod selection;
mod overwritten;
mod values;
mod folder;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::live::tensor_mut::TensorMut;
use crate::ggml::observe::whole_file::NotWritten;
use crate::ggml::retention::note_names_changed;
use crate::ggml::version::SIGNATURE;
use crate::graph::{Flags, NamePattern};
use folder::{DumpFolder, RunFolder};
use overwritten::{Change, changed_by};
use selection::{Selected, is_selected, select, similar_names};

/// The folder where none is given.
const DEFAULT_FOLDER: &str = "lastuse-dump";

/// The dumps of a process.
#[derive(Debug)]
pub struct Dumps {
    state: Mutex<DumpState>,
}

#[derive(Debug, Default)]
struct DumpState {
    /// Where later dumps go; `None` for the default.
    folder: Option<OsString>,
    setting: Option<Arc<DumpSetting>>,
    /// By the address of a graph: its nodes that were flagged as outputs, by address.
    flagged: HashMap<usize, Vec<usize>>,
}

/// The tensors to dump, and the destination.
#[derive(Debug)]
pub struct DumpSetting {
    pattern: NamePattern,
    folder: DumpFolder,
    /// Whether a tensor has matched, or it was logged that none has.
    has_reported_names: AtomicBool,
    /// Whether a failure was logged.
    has_logged_failure: AtomicBool,
}

/// The files written after a run.
#[derive(Debug, Default)]
pub struct Dumped {
    /// The number of the run in the folder; `None` if nothing was written.
    pub run: Option<u64>,
    /// The number of arrays written.
    pub written: usize,
    /// The number of tensors that could not be written.
    pub failed: usize,
    /// The first failure.
    pub failure: Option<String>,
    /// If no tensor matches, names of the graph that are similar to the pattern.
    pub similar: Vec<String>,
}

/// No names of tensors are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPattern;

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no names of tensors are set: set LASTUSE_DUMP, or call lastuse_set(\"dump\", names) before the graph is allocated"
        )
    }
}

/// Returns the dumps of this process.
pub fn dumps() -> &'static Dumps {
    static OF_PROCESS: OnceLock<Dumps> = OnceLock::new();
    OF_PROCESS.get_or_init(|| Dumps { state: Mutex::default() })
}

impl DumpSetting {
    /// Creates a setting for a pattern that is not empty.
    ///
    /// # Errors
    /// [`NotWritten`].
    fn new(pattern: NamePattern, folder: Option<&OsStr>) -> Result<Self, NotWritten> {
        let folder = DumpFolder::new(Path::new(folder.unwrap_or(OsStr::new(DEFAULT_FOLDER))))?;
        let [has_reported_names, has_logged_failure] = [const { AtomicBool::new(false) }; 2];
        Ok(Self { pattern, folder, has_reported_names, has_logged_failure })
    }
}

impl Dumps {
    /// Sets the names of the tensors to dump after later runs, none if they are empty.
    ///
    /// # Errors
    /// [`NotWritten`]; nothing is changed then.
    pub fn set_names(&self, names: NamePattern) -> Result<(), NotWritten> {
        let folder = self.state().folder.clone();
        self.set(names, folder)
    }

    /// Sets the folder of the dumps after later runs. Without one, it is `lastuse-dump` in the working folder.
    ///
    /// # Errors
    /// [`NotWritten`]; nothing is changed then.
    pub fn set_folder(&self, folder: Option<&OsStr>) -> Result<(), NotWritten> {
        self.set(self.pattern(), folder.map(OsStr::to_owned))
    }

    fn set(&self, names: NamePattern, folder: Option<OsString>) -> Result<(), NotWritten> {
        let setting = (!names.is_empty()).then(|| DumpSetting::new(names, folder.as_deref())).transpose()?;
        let mut state = self.state();
        (state.setting, state.folder) = (setting.map(Arc::new), folder);
        note_names_changed();
        Ok(())
    }

    /// Returns the names of the tensors to be dumped.
    pub fn pattern(&self) -> NamePattern {
        self.state().setting.as_ref().map(|setting| setting.pattern.clone()).unwrap_or_default()
    }

    /// Returns the folder, if any tensors are dumped.
    pub fn folder(&self) -> Option<String> {
        self.state().setting.as_ref().map(|setting| setting.folder.path().display().to_string())
    }

    /// Flags the nodes of `graph` that will be dumped as outputs until [`Dumps::dump`] is called for it: no backend then
    /// leaves out a result by fusing a node with the next one. `graph` lies at `address`.
    ///
    /// # Errors
    /// [`NoPattern`].
    ///
    /// # Safety
    /// No reference into the tensors of the graph is used meanwhile (see [`TensorMut::new`]).
    pub unsafe fn begin(&self, graph: GraphRef<'_>, address: usize) -> Result<(), NoPattern> {
        let mut state = self.state();
        let setting = state.setting.clone().ok_or(NoPattern)?;
        let mut flagged = state.flagged.remove(&address).unwrap_or_default();
        for &node in graph.nodes.iter().filter(|node| is_selected(**node, &setting.pattern)) {
            if !Flags(node.flags()).has(Flags::OUTPUT) {
                // SAFETY: no reference into the tensors is used meanwhile, as the caller guarantees.
                unsafe { TensorMut::new(node) }.set_flags(node.flags() | Flags::OUTPUT.0);
                flagged.push(node.address());
            }
        }
        if !flagged.is_empty() {
            state.flagged.insert(address, flagged);
        }
        Ok(())
    }

    /// Ends what [`Dumps::begin`] began: removes the flags that it has set.
    ///
    /// # Safety
    /// The promise of [`Dumps::begin`].
    unsafe fn end(&self, graph: GraphRef<'_>, address: usize) {
        let Some(mut flagged) = self.state().flagged.remove(&address) else { return };
        flagged.sort_unstable();
        // Only live tensors are written: the graph may be another one in the same memory.
        for &node in graph.nodes.iter().filter(|node| flagged.binary_search(&node.address()).is_ok()) {
            // SAFETY: no reference into the tensors is used meanwhile, as the caller guarantees.
            unsafe { TensorMut::new(node) }.set_flags(node.flags() & !Flags::OUTPUT.0);
        }
    }

    /// Writes the values of the matching tensors of `graph`, which has run and lies at `address`. Failures are part of
    /// the result; the first is logged.
    ///
    /// # Errors
    /// [`NoPattern`].
    ///
    /// # Safety
    /// The promise of [`Dumps::begin`]; the tensors are in live buffers, which no backend writes to.
    pub unsafe fn dump(
        &self,
        runtime: &'static Runtime,
        graph: GraphRef<'_>,
        address: usize,
    ) -> Result<Dumped, NoPattern> {
        // SAFETY: no reference into the tensors is used meanwhile, as the caller guarantees.
        unsafe { self.end(graph, address) };
        let setting = self.state().setting.clone().ok_or(NoPattern)?;
        let selected = select(graph, &setting.pattern);
        let dumped = if selected.is_empty() {
            setting.without_match(runtime, graph)
        } else {
            setting.write(runtime, graph, &selected)
        };
        if let Some(failure) = &dumped.failure
            && !setting.has_logged_failure.swap(true, Ordering::Relaxed)
        {
            runtime.log_error(&format!("{SIGNATURE}{failure}; only the first failure is logged\n"));
        }
        Ok(dumped)
    }

    fn state(&self) -> MutexGuard<'_, DumpState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DumpSetting {
    /// Logs once that no tensor matches, unless one has before.
    fn without_match(&self, runtime: &Runtime, graph: GraphRef<'_>) -> Dumped {
        if self.has_reported_names.swap(true, Ordering::Relaxed) {
            return Dumped::default();
        }
        let names = graph.nodes.iter().map(|node| node.name());
        let similar = similar_names(&self.pattern.to_string(), names);
        let quoted: Vec<String> = similar.iter().map(|name| format!("{name:?}")).collect();
        let (pattern, nodes, quoted) = (&self.pattern, graph.nodes.len(), quoted.join(", "));
        runtime.log_warning(&format!(
            "{SIGNATURE}no tensor to dump: {pattern:?} matches none of a graph with {nodes} nodes, which has, for example, \
             {quoted}; this is logged once\n",
            pattern = pattern.to_string(),
        ));
        Dumped { similar, ..Dumped::default() }
    }

    fn write(&self, runtime: &'static Runtime, graph: GraphRef<'_>, selected: &[Selected<'_>]) -> Dumped {
        self.has_reported_names.store(true, Ordering::Relaxed);
        let mut run = match self.folder.begin_run() {
            Ok(run) => run,
            Err(error) => {
                let failure = Some(format!("no tensor is dumped: {error}"));
                return Dumped { failed: selected.len(), failure, ..Dumped::default() };
            }
        };
        let mut dumped = Dumped::default();
        for (one, change) in selected.iter().zip(changed_by(runtime, graph, selected)) {
            match write_one(runtime, &mut run, one, change) {
                Ok(()) => dumped.written += 1,
                Err(why) => dumped.fail(&run, runtime, one.tensor, &why),
            }
        }
        let number = run.number();
        match run.finish() {
            Ok(()) => dumped.run = (dumped.written > 0).then_some(number),
            Err(error) => {
                dumped.failed += 1;
                dumped.failure.get_or_insert_with(|| format!("the index of run {number} cannot be written: {error}"));
            }
        }
        dumped
    }
}

impl Dumped {
    fn fail(&mut self, run: &RunFolder<'_>, runtime: &Runtime, tensor: TensorRef<'_>, why: &str) {
        self.failed += 1;
        let message = || format!("run {}: {} is not dumped: {why}", run.number(), runtime.describe(tensor));
        self.failure.get_or_insert_with(message);
    }
}

/// Writes the values of one tensor.
///
/// # Errors
/// Why they cannot be written.
fn write_one(
    runtime: &'static Runtime,
    run: &mut RunFolder<'_>,
    one: &Selected<'_>,
    change: Change,
) -> Result<(), String> {
    if let Change::Lost(by) = &change {
        run.skip(runtime, one, by);
        return Err(format!(
            "{by} has overwritten it, since the graph was planned without retaining it: set the names before the graph is \
             allocated, by lastuse"
        ));
    }
    let values = values::read(runtime, one.tensor)?;
    run.write(runtime, one, &values, &change)
        .map_err(|error| format!("cannot write to {}: {error}", run.path().display()))
}
