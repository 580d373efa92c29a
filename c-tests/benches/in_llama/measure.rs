//! Runs llama.cpp with both allocators.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{Build, Outcome, Program, Result, lastuse, program_on_llama, write_model_without_data};
use lastuse_vendor::target_folder;

/// How many ways to lay out the address space are measured. Times of ggml-alloc differ by 5 % between them.
pub const LAYOUTS: usize = 24;

/// Only what is larger than a GiB gets its own pages.
const ON_HEAP: &str = "glibc.malloc.mmap_threshold=1073741824";

/// How many processes make their first calls, for each allocator and each kind of call.
const PROCESSES: usize = 45;

/// What llama.cpp computes after the prompt, besides single tokens: its name in the table, and the options of the program.
/// A pipeline is on two devices, whose scheduler reads four copies of each input in turns.
pub const OTHER_USES: [(&str, &[&str]); 4] = [
    ("2 shapes", &["--shapes", "2"]),
    ("6 shapes", &["--shapes", "6"]),
    ("12 shapes", &["--shapes", "12"]),
    ("pipeline", &["--gpus", "2"]),
];

/// In how many of the layouts other uses are measured.
const LAYOUTS_OF_OTHERS: usize = 8;

/// Addresses of contexts, besides the randomness of the system.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// 0, or the seed of paddings of random sizes between contexts.
    padding: usize,
    tunables: &'static str,
}

impl Layout {
    /// Returns a layout by its number. In a quarter of them, large contexts lie on the heap too.
    fn numbered(number: usize) -> Self {
        let on_heap = number / 4;
        if number % 4 == 3 {
            Self { padding: on_heap, tunables: ON_HEAP }
        } else {
            Self { padding: number - on_heap, tunables: "" }
        }
    }
}

/// The results for one model.
#[derive(Debug, Default)]
pub struct Measured {
    pub nodes: u64,
    /// By kind of call, time of lastuse divided by that of ggml's own allocator, by layout.
    pub ratios: BTreeMap<String, Vec<f64>>,
    /// By kind, the ratio of times of the first calls in a process.
    pub first: BTreeMap<&'static str, f64>,
    /// By use, the ratios of times of `alloc_graph` for the graphs that llama.cpp builds after the prompt, by layout.
    pub others: BTreeMap<&'static str, Vec<f64>>,
}

/// The programs and libraries that measuring needs.
pub struct Programs {
    times: Program,
    /// The folder with copies of llama.cpp's and ggml's shared libraries, and of lastuse.
    libraries: PathBuf,
    /// `liblastuse.so` there.
    lastuse: PathBuf,
}

impl Programs {
    /// # Errors
    /// When something does not build.
    pub fn build() -> Result<Self> {
        let lastuse = lastuse(Build::Release)?.shared;
        let (times, libraries) = program_on_llama("planning_times", "llama_cpp/planning_times.c")?;
        let installed = target_folder().join("c-tests/in_llama");
        install(&libraries, &installed)?;
        let lastuse = copy(&lastuse, &installed)?;
        Ok(Self { times, libraries: installed, lastuse })
    }

    /// Writes a model without data and returns its path.
    ///
    /// # Errors
    /// When that fails.
    pub fn write_model(&self, model: &str, layers: &str) -> Result<PathBuf> {
        let name = format!("{model}-{layers}.{}.gguf", std::process::id());
        let file = target_folder().join("c-tests").join(name);
        write_model_without_data(model, layers, &file).map(|()| file)
    }

    /// Measures a model. Tells `progress` how many of the layouts are done.
    ///
    /// # Errors
    /// When a program fails.
    pub fn measure(&self, model: &Path, progress: impl Fn(usize)) -> Result<Measured> {
        let mut measured = Measured::default();
        for number in 0..LAYOUTS {
            progress(number);
            self.measure_layout(model, Layout::numbered(number), &[], &mut measured)?;
        }
        for (name, options) in OTHER_USES {
            let options = [&["--rounds", "1", "--tokens", "240"], options].concat();
            let mut other = Measured::default();
            for number in 0..LAYOUTS_OF_OTHERS {
                self.measure_layout(model, Layout::numbered(number), &options, &mut other)?;
            }
            measured.others.insert(name, other.ratios.remove("alloc-rebuilt").unwrap_or_default());
        }
        progress(LAYOUTS);
        measured.first = self.measure_first_calls(model)?;
        Ok(measured)
    }

    /// Both allocators in turn in one process.
    fn measure_layout(&self, model: &Path, layout: Layout, options: &[&str], measured: &mut Measured) -> Result<()> {
        let (lastuse, padding) = (self.lastuse.to_string_lossy(), layout.padding.to_string());
        let arguments = [&["--lastuse", &*lastuse, "--padding", &*padding], options].concat();
        let outcome = self.run(model, &arguments, &[("GLIBC_TUNABLES", OsStr::new(layout.tunables))])?;
        for line in outcome.stdout.lines() {
            let unclear = || format!("planning_times printed {line:?}");
            let (name, numbers) = line.split_once('=').ok_or_else(unclear)?;
            match numbers.split(' ').collect::<Vec<_>>()[..] {
                [nodes] => measured.nodes = nodes.parse().map_err(|_| unclear())?,
                [_, _, ratio] => {
                    let ratio = ratio.parse().map_err(|_| unclear())?;
                    measured.ratios.entry(name.to_owned()).or_default().push(ratio);
                }
                _ => return Err(unclear()),
            }
        }
        Ok(())
    }

    /// The first calls of processes with either allocator.
    fn measure_first_calls(&self, model: &Path) -> Result<BTreeMap<&'static str, f64>> {
        let mut first = BTreeMap::new();
        for (kind, keys) in [("reserve", ["reserve", "new and reserve"]), ("size", ["size", "new and size"])] {
            let (mut ggml, mut lastuse) = (FirstCalls::default(), FirstCalls::default());
            for _ in 0..PROCESSES {
                ggml.add(&self.run(model, &["--first", kind], &[])?)?;
                lastuse.add(&self.run(model, &["--first", kind], &[("LD_PRELOAD", self.lastuse.as_os_str())])?)?;
            }
            first.insert(keys[0], median_ratio(&lastuse.plan, &ggml.plan));
            first.insert(keys[1], median_ratio(&lastuse.new_and_plan, &ggml.new_and_plan));
            if kind == "reserve" {
                first.insert("alloc", median_ratio(&lastuse.alloc, &ggml.alloc));
            }
        }
        Ok(first)
    }

    fn run(&self, model: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<Outcome> {
        let model = model.to_string_lossy();
        let arguments: Vec<&str> = [&*model].into_iter().chain(arguments.iter().copied()).collect();
        let libraries = ("LD_LIBRARY_PATH", self.libraries.as_os_str());
        let variables: Vec<_> = variables.iter().copied().chain([libraries]).collect();
        let outcome = self.times.run_with(&arguments, &variables)?;
        if outcome.code == Some(0) { Ok(outcome) } else { Err(outcome.describe()) }
    }
}

/// Copies the shared libraries in `from` to the folder `to`, as installing them does. The first calls of a process
/// mainly map pages of libraries, and those of a file that a linker has just written are mapped in smaller groups.
fn install(from: &Path, to: &Path) -> Result<()> {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "so") {
            copy(&path, to)?;
        }
    }
    Ok(())
}

/// Copies a file to a folder, and returns the path of the copy.
fn copy(file: &Path, folder: &Path) -> Result<PathBuf> {
    let to = folder.join(file.file_name().ok_or("a file has no name")?);
    fs::copy(file, &to).map_err(|error| format!("cannot copy {} to {}: {error}", file.display(), to.display()))?;
    Ok(to)
}

/// Times of the first calls of several processes.
#[derive(Default)]
struct FirstCalls {
    plan: Vec<f64>,
    new_and_plan: Vec<f64>,
    alloc: Vec<f64>,
}

impl FirstCalls {
    fn add(&mut self, outcome: &Outcome) -> Result<()> {
        let time = |key: &str| outcome.value(key).and_then(|time| time.parse::<f64>().ok());
        let (Some(new), Some(plan)) = (time("new"), time("plan")) else { return Err(outcome.describe()) };
        self.plan.push(plan);
        self.new_and_plan.push(new + plan);
        self.alloc.extend(time("alloc"));
        Ok(())
    }
}

/// Returns the median of the ratios of times that were measured one after the other. A machine is faster or slower for
/// seconds, so times of different moments have other ratios.
fn median_ratio(times: &[f64], others: &[f64]) -> f64 {
    median(times.iter().zip(others).map(|(time, other)| time / other).collect())
}

/// The one in the middle; there is one at least.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
