//! `lastuse draw`: pictures of memory over time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use lastuse::accounting::Accounting;
use lastuse::graph::snapshot::Snapshot;
use lastuse::graph::{BufferSpec, GraphPlan};

use crate::formats::open_graph;
use crate::input::{Input, expanded, shape_of};
use crate::output::{Output, Progress, print_error};
use crate::passes::{RecomputeOptions, TilingOptions};
use crate::planning::{self, check, expect_name};
use crate::report::picture::{self, Options, PlanView};
use crate::usage::Failure;

/// Draw the memory of graphs over time, as a page or a picture.
///
/// Draws a rectangle for each tensor, and the live bytes below. Reads files in the format "lastuse-graph", compressed
/// by gzip or not. Draws an SVG for documents, or one HTML page to explore: zoom, search, and follow sources and uses.
/// The page needs no network. The plan of ggml-alloc is drawn next to that of lastuse, on the same scale; a map whose
/// long-lived tensors are at the end of the buffer is upside down, so that both can be compared. With
/// --recompute the recomputed graph is one more, in which tensors that are computed again have " (again)" appended to
/// their names; with --tile the tiled one is, in which these have "(tile 2 of 8)" and the
/// like appended. The page shows several graphs one at a time, the largest first; an SVG has one below the other. With
/// two files, the page first shows the tensors that grew and disappeared from the first to the second.
#[derive(clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:
  lastuse draw llama.jsonl -o map.html               to explore in a browser
  lastuse draw llama.jsonl -o map.svg --theme dark   for a document
  lastuse draw graphs -o all.html                    a folder in one page
  lastuse draw old.jsonl new.jsonl -o changes.html   two captures compared
  lastuse draw llama.jsonl -o map.svg --against none --rules ggml   one plan
  lastuse draw train.jsonl -o map.html --recompute 40%   computed again to fit
  lastuse draw vae.jsonl -o map.html --tile 700M    in tiles, to fit
  lastuse draw llama.jsonl -o - --format svg         to the standard output
  lastuse draw llama.jsonl -o map.html --retain 'l_out-*'   kept readable

Exit codes: 0 drawn, 1 a file is malformed or cannot be read, no graph fits --tile or --recompute, or the picture cannot be \
written, 2 wrong usage. A file \
that cannot be read does not stop the others.")]
pub struct Arguments {
    /// The graphs (*.jsonl, *.jsonl.gz), or folders of them; "-" is the standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// The picture (*.svg) or page (*.html); "-" is the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The kind of picture [default: by the ending of the output's name]
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// The plan to draw next to that of lastuse.
    #[arg(long, value_enum, default_value_t = Against::Ggml)]
    against: Against,

    #[command(flatten)]
    planning: planning::Options,

    #[command(flatten)]
    recompute: RecomputeOptions,

    #[command(flatten)]
    tiling: TilingOptions,

    /// Draw only the buffer with this name, such as "CPU".
    #[arg(long, value_name = "NAME")]
    buffer: Option<String>,

    /// The title [default: the label of the graph]
    #[arg(long)]
    title: Option<String>,

    /// The colours; "auto" follows the reader's system.
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
    /// That of ggml-alloc.
    Ggml,
    /// No other plan.
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum Theme {
    Auto,
    Light,
    Dark,
}

/// Draws all graphs into one picture.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let format = format(arguments).map_err(Failure::usage)?;
    // Before the work, which may take long.
    let output = Output::open(&arguments.output)?;
    let mut graphs = Vec::new();
    let mut is_wrong = false;
    let files = expanded(&arguments.files);
    for file in &files {
        match Planned::all(file, arguments) {
            Ok(planned) => graphs.extend(planned),
            Err(message) => {
                print_error(&format!("{}: {message}", file.display()));
                is_wrong = true;
            }
        }
    }
    if graphs.is_empty() {
        output.discard();
        return Ok(ExitCode::FAILURE);
    }
    let progress = Progress::start(&arguments.output);
    progress.set("drawing");
    // With --recompute or --tile, a single file gives two graphs.
    let compared = files.len() == 2 && graphs.len() == 2;
    let picture = picture_of(&graphs, format, compared, arguments);
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
            "{:?} ends neither in .svg nor in .html: rename the output, or set --format",
            arguments.output.display()
        )),
    }
}

/// A graph and the plans to draw.
pub struct Planned {
    snapshot: Snapshot,
    plans: Vec<(String, GraphPlan)>,
}

impl Planned {
    /// Plans the graph of a file, and the recomputed one and the one in tiles if the options are set.
    fn all(file: &Path, arguments: &Arguments) -> Result<Vec<Self>, String> {
        let progress = Progress::start(file);
        let snapshot = arguments.planning.retain_in(Input::read_graph(file)?);
        if let Some(name) = &arguments.buffer {
            expect_name(&snapshot, name)?;
        }
        progress.set("planning");
        let buffers = arguments.planning.buffers(&snapshot);
        let mut graphs = vec![snapshot];
        if arguments.recompute.is_set() {
            let mut recomputed = graphs[0].clone();
            arguments.recompute.apply(&mut recomputed, &buffers, &progress)?;
            graphs.push(recomputed);
        }
        if arguments.tiling.is_set() {
            let mut cut = graphs[graphs.len() - 1].clone();
            arguments.tiling.apply(&mut cut, &buffers, &progress)?;
            graphs.push(cut);
        }
        graphs.into_iter().map(|graph| Self::in_buffers(graph, &buffers, arguments.against)).collect()
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

    /// Returns the label of the graph.
    pub fn label(&self) -> &str {
        &self.snapshot.label
    }

    fn views(&self) -> impl Iterator<Item = PlanView<'_>> {
        self.plans.iter().map(|(label, plan)| PlanView { label, snapshot: &self.snapshot, plan })
    }
}

/// Draws an HTML page with graphs as `program` planned them, next to the plans of ggml-alloc, and with the memory of
/// the devices of its processes.
///
/// # Errors
/// One of the files is malformed or cannot be read.
pub fn page(files: &[PathBuf], program: &str, accountings: &[&Accounting]) -> Result<String, String> {
    let named = |(number, file): (usize, &PathBuf)| {
        planned(program, number, file).map_err(|message| format!("{}: {message}", file.display()))
    };
    let graphs: Vec<Planned> = (1..).zip(files).map(named).collect::<Result<_, _>>()?;
    let title = format!("The memory of {program}");
    Ok(picture::html(&views(&graphs), &Options { title: Some(&title), accountings, ..Options::default() }))
}

/// Plans the graph of a file as `program` planned it, and as ggml-alloc does. `number` is its place among those of the program.
///
/// # Errors
/// The file is malformed or cannot be read.
pub fn planned(program: &str, number: usize, file: &Path) -> Result<Planned, String> {
    let mut snapshot = open_graph(file).map_err(|unreadable| unreadable.to_string())?;
    let shape = shape_of(&snapshot).map_or_else(String::new, |shape| format!(": {shape}"));
    snapshot.label = format!("{program}, graph {number}{shape}");
    let buffers = snapshot.recorded_buffers();
    Planned::in_buffers(snapshot, &buffers, Against::Ggml)
}

/// Draws the page of `lastuse run --live`, which asks for what is new.
pub fn live_page(graphs: &[Planned], program: &str) -> String {
    let title = format!("The memory of {program}");
    picture::html(&views(graphs), &Options { title: Some(&title), live: true, ..Options::default() })
}

/// Returns the data of that page, for when there are more graphs.
pub fn live_lines(graphs: &[Planned]) -> String {
    picture::html_data(&views(graphs), &Options::default())
}

fn views(graphs: &[Planned]) -> Vec<PlanView<'_>> {
    graphs.iter().flat_map(Planned::views).collect()
}

fn picture_of(graphs: &[Planned], format: Format, compared: bool, arguments: &Arguments) -> String {
    let views = views(graphs);
    let theme = match arguments.theme {
        Theme::Auto => picture::Theme::Auto,
        Theme::Light => picture::Theme::Light,
        Theme::Dark => picture::Theme::Dark,
    };
    let (title, buffer) = (arguments.title.as_deref(), arguments.buffer.as_deref());
    let options = Options { title, theme, buffer, compared, ..Options::default() };
    match format {
        Format::Svg => picture::svg(&views, &options),
        Format::Html => picture::html(&views, &options),
    }
}
