//! `lastuse draw`: pictures of memory over time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferSpec, GraphPlan, RuleSetting};
use lastuse::report::picture::{self, Options, View};

use super::input::Input;
use super::output::Output;
use super::planning::{buffers, check};
use super::print::complain;
use super::progress::Progress;

/// Draw the memory of graphs over time: a rectangle for each tensor, the bytes alive below.
///
/// From files in the format "lastuse-graph", compressed by gzip or not, as SVG for documents or as one HTML page to
/// explore: zoom, search, and follow what reads what. The page needs no network. What ggml's own allocator makes of the
/// same graph is drawn beside it, on the same scale. Of several graphs the page shows one at a time, the largest first;
/// an SVG has one below the other.
#[derive(clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:
  lastuse draw llama.jsonl -o map.html               to explore in a browser
  lastuse draw llama.jsonl -o map.svg --theme dark   for a document
  lastuse draw graphs/*.jsonl -o all.html            many graphs in one page
  lastuse draw llama.jsonl -o map.svg --against none --rules ggml   a single plan
  lastuse draw llama.jsonl -o - --format svg | less  to the standard output

Exit codes: 0 drawn, 1 a file is malformed or cannot be read, or the picture cannot be written, 2 wrong usage. A graph that
is wrong does not keep the others from being drawn.")]
pub struct Arguments {
    /// The graphs; "-" is the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// Where the picture goes; "-" is the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// What kind of picture; when nothing is said, what the name of the output ends with.
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// What to draw beside lastuse's plan, on the same scale.
    #[arg(long, value_enum, default_value_t = Against::Ggml)]
    against: Against,

    /// Which memory may be shared, as in "lastuse plan": all, ggml, none, or the names of rules. When nothing is said, what
    /// the file records of its program, and otherwise all.
    #[arg(long)]
    rules: Option<RuleSetting>,

    /// How much work the search for a smaller placement may do, as in "lastuse plan".
    #[arg(long, value_name = "UNITS")]
    effort: Option<u64>,

    /// Draw the buffer with this name alone, such as "CPU".
    #[arg(long, value_name = "NAME")]
    buffer: Option<String>,

    /// What is written above; the label of the graph when nothing is said.
    #[arg(long)]
    title: Option<String>,

    /// Light or dark; "auto" is as whoever looks at it prefers.
    #[arg(long, value_enum, default_value_t = Theme::Auto)]
    theme: Theme,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Svg,
    Html,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Against {
    /// What ggml's own allocator makes of the graph.
    Ggml,
    /// Nothing.
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum Theme {
    Auto,
    Light,
    Dark,
}

/// Draws all graphs into one picture.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let format = match format(arguments) {
        Ok(format) => format,
        Err(message) => {
            complain(&format!("{message}; see --help"));
            return Ok(ExitCode::from(2));
        }
    };
    // Before the work, which may take long.
    let output = Output::open(&arguments.output)?;
    let mut graphs = Vec::new();
    let mut is_wrong = false;
    for file in &arguments.files {
        match Planned::new(file, arguments) {
            Ok(planned) => graphs.push(planned),
            Err(message) => {
                complain(&format!("{}: {message}", file.display()));
                is_wrong = true;
            }
        }
    }
    if graphs.is_empty() {
        output.give_up();
        return Ok(ExitCode::FAILURE);
    }
    let progress = Progress::start(&arguments.output);
    progress.go_on("drawing");
    let picture = picture_of(&graphs, format, arguments);
    drop(progress);
    output.write(picture.as_bytes())?;
    Ok(if is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn format(arguments: &Arguments) -> Result<Format, String> {
    if let Some(format) = arguments.format {
        return Ok(format);
    }
    let ending = arguments.output.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("svg") => Ok(Format::Svg),
        Some("html" | "htm") => Ok(Format::Html),
        _ => Err(format!(
            "{:?} ends neither in .svg nor in .html: name the picture so, or say --format",
            arguments.output.display()
        )),
    }
}

/// A graph with what is drawn of it.
struct Planned {
    snapshot: Snapshot,
    plans: Vec<(String, GraphPlan)>,
}

impl Planned {
    fn new(file: &Path, arguments: &Arguments) -> Result<Self, String> {
        let progress = Progress::start(file);
        let Input::Graph(snapshot) = Input::read(file)? else {
            return Err("this is a CSV file, and graphs are drawn; \"lastuse plan\" takes it".to_owned());
        };
        let missing = |name: &&String| snapshot.buffers.iter().all(|buffer| buffer.name != **name);
        if let Some(name) = arguments.buffer.as_ref().filter(missing) {
            let known: Vec<_> = snapshot.buffers.iter().map(|buffer| format!("{:?}", buffer.name)).collect();
            return Err(format!("there is no buffer {name:?}; there are {}", known.join(", ")));
        }
        progress.go_on("planning");
        let buffers = buffers(&snapshot, arguments.rules.as_ref(), arguments.effort);
        Self::in_buffers(snapshot, &buffers, arguments.against)
    }

    fn in_buffers(snapshot: Snapshot, buffers: &[BufferSpec], against: Against) -> Result<Self, String> {
        let plan = snapshot.plan_in(buffers).map_err(|error| error.to_string())?;
        check(&snapshot, &plan)?;
        let mut plans = Vec::new();
        if against == Against::Ggml {
            plans.push(("ggml-alloc".to_owned(), snapshot.plan_as_ggml().map_err(|error| error.to_string())?));
        }
        plans.push(("lastuse".to_owned(), plan));
        Ok(Self { snapshot, plans })
    }

    fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.plans.iter().map(|(label, plan)| View { label, snapshot: &self.snapshot, plan })
    }
}

/// A page with graphs as their program planned them, beside what ggml's own allocator makes of them.
///
/// # Errors
/// What is wrong with one of the files.
pub fn page(files: &[PathBuf], title: &str) -> Result<String, String> {
    let planned = |file: &PathBuf| {
        let snapshot = Snapshot::open(file).map_err(|unreadable| unreadable.to_string())?;
        let buffers = snapshot.recorded_buffers();
        Planned::in_buffers(snapshot, &buffers, Against::Ggml)
    };
    let named = |file: &PathBuf| planned(file).map_err(|message| format!("{}: {message}", file.display()));
    let graphs: Vec<Planned> = files.iter().map(named).collect::<Result<_, _>>()?;
    let views: Vec<View<'_>> = graphs.iter().flat_map(Planned::views).collect();
    Ok(picture::html(&views, &Options { title: Some(title), theme: picture::Theme::Auto, buffer: None }))
}

fn picture_of(graphs: &[Planned], format: Format, arguments: &Arguments) -> String {
    let views: Vec<View<'_>> = graphs.iter().flat_map(Planned::views).collect();
    let theme = match arguments.theme {
        Theme::Auto => picture::Theme::Auto,
        Theme::Light => picture::Theme::Light,
        Theme::Dark => picture::Theme::Dark,
    };
    let options = Options { title: arguments.title.as_deref(), theme, buffer: arguments.buffer.as_deref() };
    match format {
        Format::Svg => picture::svg(&views, &options),
        Format::Html => picture::html(&views, &options),
    }
}
