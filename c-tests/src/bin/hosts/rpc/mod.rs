//! llama.cpp on two servers of ggml's RPC backend, which the test starts and stops.

mod gone;
mod servers;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{Result, aligned_table};
use lastuse_vendor::target_folder;

use self::servers::{Servers, free_endpoints};
use crate::changed::BudgetedJob;
use crate::compare::first_difference;
use crate::faults::run_faults;
use crate::job::{Job, OUTPUT, Way};
use crate::jobs::Options;
use crate::llama::{IN_TILES_WITH, LLAMA, LLAMA_4, LLAMA_OLDER, LlamaHost, LlamaPrograms, MODELS, Model, USES};
use crate::measured::{Measured, measure_jobs};
use crate::run::{Run, run};

/// A llama.cpp whose RPC backend is used.
struct Client {
    llama: &'static LlamaHost,
    /// The models that are split between the servers.
    models: &'static [&'static str],
    sizes: SizeRequests,
    /// Whether a context that is full can be shifted on two servers.
    can_shift: bool,
}

/// When the RPC backend asks a server for the size of a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SizeRequests {
    EachTime,
    /// It remembers what servers told it.
    Once,
    /// It remembers them, and servers do not print these requests.
    OnceUnseen,
}

const CLIENTS: [Client; 3] = [
    Client {
        llama: &LLAMA,
        models: &["llama", "qwen3moe", "gemma3", "falcon-h1", "lfm2"],
        sizes: SizeRequests::Once,
        can_shift: true,
    },
    Client {
        llama: &LLAMA_4,
        models: &["llama", "qwen3moe", "gemma3", "falcon-h1"],
        sizes: SizeRequests::OnceUnseen,
        can_shift: true,
    },
    // On ggml's own allocator as well, one server is asked to compute with memory of the other when a context is shifted,
    // and refuses: so it is with all graphs of lfm2.
    Client {
        llama: &LLAMA_OLDER,
        models: &["llama", "qwen3moe", "gemma3", "falcon-h1"],
        sizes: SizeRequests::EachTime,
        can_shift: false,
    },
];

/// Bytes for each device: the graphs that are computed need more, too.
const BUDGET: u64 = 4 << 20;

/// The most that is left of the compute buffer of a server.
const LARGEST_PART: f64 = 0.55;

struct Host {
    client: &'static Client,
    programs: LlamaPrograms,
    endpoints: Vec<String>,
    folder: PathBuf,
}

/// A run, and how many requests for sizes the servers got.
struct Served {
    run: Run,
    round_trips: usize,
}

/// Builds each llama.cpp.
///
/// # Errors
/// Missing packages, or the error of a build.
pub fn build() -> Result<()> {
    CLIENTS.iter().try_for_each(|client| client.llama.build())
}

/// Uses models on both allocators, with their layers on two servers; then kills a server in the middle. With each llama.cpp.
/// With [`Options::faults`], see [`run_faults`], and with [`Options::measured`], [`measure_jobs`].
///
/// # Errors
/// A failed check.
pub fn test(options: &Options) -> Result<()> {
    let folder = target_folder().join("hosts/rpc");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let host = |client: &'static Client| {
        Ok::<_, String>(Host {
            client,
            programs: LlamaPrograms::build(client.llama)?,
            endpoints: free_endpoints()?,
            folder: folder.clone(),
        })
    };
    if options.faults || options.measured {
        for client in &CLIENTS {
            let host = host(client)?;
            if options.faults { host.refuse_buffers(options)? } else { host.measure(options)? }
        }
        return Ok(());
    }
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for client in &CLIENTS {
        let host = host(client)?;
        let rows = host.use_models(&mut wrong)?;
        let in_tiles = host.in_tiles(&mut wrong)?;
        let gone = gone::test(&host, &mut wrong)?;
        let _ = writeln!(text, "{}\n\n{}\n{in_tiles}{gone}", host.heading(), aligned_table(&rows, 3));
    }
    let _ = match wrong.len() {
        0 => writeln!(text, "All results are the same, no buffer is larger."),
        _ => writeln!(text, "FAILED:\n- {}", wrong.join("\n- ")),
    };
    print!("{text}");
    let file = folder.join("report.txt");
    fs::write(&file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} checks of rpc failed", wrong.len())) }
}

impl Host {
    fn heading(&self) -> String {
        let sizes = match self.client.sizes {
            SizeRequests::EachTime => "asks a server for each size",
            SizeRequests::Once => "remembers sizes",
            SizeRequests::OnceUnseen => "remembers sizes, and whose servers do not print requests for them",
        };
        format!("{}, whose RPC backend {sizes}:", self.programs.sessions.version)
    }

    /// Uses each model on both allocators. Returns rows of a table, after their heading.
    fn use_models(&self, wrong: &mut Vec<String>) -> Result<Vec<Vec<String>>> {
        let heading = [
            "model",
            "job",
            "buffer",
            "bytes before",
            "after",
            "ratio",
            "sizes asked",
            "after",
            "round trips",
            "after",
        ];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        let mut round_trips = 0;
        for job in self.jobs()? {
            eprintln!("[rpc] {}", job.label());
            round_trips += self.compare(&job, &mut rows, wrong)?;
        }
        if round_trips == 0 && self.client.sizes != SizeRequests::OnceUnseen {
            wrong.push(format!(
                "{}: no server was asked for a size: nothing was compared",
                self.programs.sessions.version
            ));
        }
        Ok(rows)
    }

    /// Computes the scores of attention in tiles on the servers. Returns a line for each.
    fn in_tiles(&self, wrong: &mut Vec<String>) -> Result<String> {
        // Where a budget cannot be met, smaller graphs may need more than the reserved one.
        let job = Job { may_reallocate: true, ..self.job(&MODELS[0], ("in tiles", IN_TILES_WITH))? };
        eprintln!("[rpc] {}", job.label());
        let BudgetedJob { job, .. } = BudgetedJob::of_scheduler(job, BUDGET, &[])?;
        let served = |with_lastuse: bool| {
            self.serve(&job, with_lastuse)
                .map_err(|why| format!("{}, with lastuse: {with_lastuse}: {why}", job.label()))
        };
        let (before, after) = (served(false)?, served(true)?);
        let mut found: Vec<String> = first_difference(&before.run.results, &after.run.results).into_iter().collect();
        let rows = self.rows(&job, &before, &after);
        let mut text = String::new();
        for row in rows.iter().filter(|row| row[2].starts_with("server")) {
            let [buffer, bytes, now, ratio] = [2, 3, 4, 5].map(|column| &row[column]);
            let _ = writeln!(
                text,
                "With LASTUSE_BUDGET={BUDGET}, no flash attention, {buffer}: {bytes} bytes, {now} ({ratio})"
            );
            if ratio.parse().unwrap_or(1.0) > LARGEST_PART {
                found.push(format!("{buffer} takes {now} bytes of {bytes}"));
            }
        }
        if text.is_empty() {
            found.push("no buffer of a server was compared".to_owned());
        }
        wrong.extend(found.iter().map(|why| format!("{}: {why}", job.label())));
        Ok(text)
    }

    /// Returns a job for each use of each model.
    fn jobs(&self) -> Result<Vec<Job>> {
        let models = MODELS.iter().filter(|model| self.client.models.contains(&model.name));
        models.flat_map(|model| USES.iter().map(|&used| self.job(model, used))).collect()
    }

    fn job(&self, model: &Model, (name, arguments): (&str, &str)) -> Result<Job> {
        let file = self.folder.join(model.name).with_extension("gguf");
        self.programs.write_model(model, &file)?;
        let endpoints = self.endpoints.join(",");
        let mut all = vec![file.to_string_lossy().into_owned(), "--output".to_owned(), OUTPUT.to_owned()];
        let shift = if self.client.can_shift { "on" } else { "off" };
        all.extend(arguments.split(' ').chain(["--shift", shift, "--rpc", &endpoints]).map(str::to_owned));
        let job = self.programs.sessions.job(Way::Preloaded, [&format!("{}: {}", model.name, model.kind), name], all);
        // Its graphs for one token take other buffers on two servers, which was not reserved for.
        let may_reallocate = model.name == "lfm2";
        Ok(Job { version: format!("{}, two servers", job.version), may_reallocate, ..job })
    }

    /// Runs the jobs of the first model with buffers of the host and of both servers refused.
    fn refuse_buffers(&self, options: &Options) -> Result<()> {
        let jobs: Vec<Job> = USES.iter().map(|&used| self.job(&MODELS[0], used)).collect::<Result<_>>()?;
        let _servers = self.start()?;
        run_faults("rpc", &self.folder, &jobs, options)
    }

    /// Compares dry runs with runs. Servers allocate nothing for the former.
    fn measure(&self, options: &Options) -> Result<()> {
        let jobs = self.jobs()?;
        let servers = self.start()?;
        let asked = |command| servers.count(command);
        Measured::of(&jobs[0], &self.folder)?.call("measure")?;
        if let (buffers @ 1.., tensors) | (buffers, tensors @ 1..) = (asked("alloc_buffer")?, asked("set_tensor")?) {
            return Err(format!("servers allocated {buffers} buffers and got {tensors} tensors for a dry run"));
        }
        measure_jobs("rpc", &self.folder, &jobs.iter().collect::<Vec<_>>(), options)?;
        if asked("alloc_buffer")? == 0 { Err("no server allocated a buffer for a run".to_owned()) } else { Ok(()) }
    }

    fn start(&self) -> Result<Servers> {
        Servers::start(&self.programs.rpc_server, self.programs.sessions.libraries(), &self.endpoints, &self.folder)
    }

    /// Runs a job with its own servers.
    fn serve(&self, job: &Job, with_lastuse: bool) -> Result<Served> {
        let servers = self.start()?;
        let launch = if with_lastuse { &job.with } else { &job.without };
        let run = run(job, launch, &self.folder)?;
        Ok(Served { run, round_trips: servers.count("get_alloc_size")? })
    }

    /// Compares both allocators. Returns how many requests for sizes the servers got without lastuse, which may be none: the RPC
    /// backend computes the sizes of most results by itself.
    fn compare(&self, job: &Job, rows: &mut Vec<Vec<String>>, wrong: &mut Vec<String>) -> Result<usize> {
        let before = self.serve(job, false).map_err(|why| format!("{}, without lastuse: {why}", job.label()))?;
        let found = match self.serve(job, true) {
            Ok(after) => {
                rows.extend(self.rows(job, &before, &after));
                self.client.differences(&before, &after)
            }
            Err(why) => vec![format!("with lastuse it failed: {why}")],
        };
        wrong.extend(found.iter().map(|why| format!("{}: {why}", job.label())));
        Ok(before.round_trips)
    }

    /// Returns a row for each buffer of the first allocator.
    fn rows(&self, job: &Job, before: &Served, after: &Served) -> Vec<Vec<String>> {
        let [old, new] = [before, after].map(|served| &served.run.counted);
        let mut of_first: Vec<_> = old.buffers.iter().filter(|((allocator, _), _)| *allocator == 1).collect();
        of_first.sort_by_key(|((_, buffer_type), _)| self.short_name(buffer_type));
        let row = |(place, (buffer, &bytes)): (usize, (&(u32, String), &u64))| {
            let now = new.buffers.get(buffer).copied().unwrap_or(0);
            #[allow(clippy::cast_precision_loss, reason = "a ratio of three digits is shown")]
            let ratio = now as f64 / bytes as f64;
            let mut cells = vec![job.model.clone(), job.name.clone(), self.short_name(&buffer.1)];
            cells.extend([bytes.to_string(), now.to_string(), format!("{ratio:.3}")]);
            let round_trips = [before, after].map(|served| match self.client.sizes {
                SizeRequests::OnceUnseen => "-".to_owned(),
                _ => served.round_trips.to_string(),
            });
            let counts = [old.asked, new.asked].map(|count| count.to_string()).into_iter().chain(round_trips);
            // They are of all buffers together.
            cells.extend(counts.map(|count| if place == 0 { count } else { String::new() }));
            cells
        };
        of_first.into_iter().enumerate().map(row).collect()
    }

    /// Returns the name of a buffer type with the number of the server for its address.
    fn short_name(&self, buffer_type: &str) -> String {
        let server = self.endpoints.iter().position(|endpoint| buffer_type.contains(endpoint.as_str()));
        server.map_or_else(|| buffer_type.to_owned(), |server| format!("server {}", server + 1))
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Client {
    /// Returns the failed checks.
    fn differences(&self, before: &Served, after: &Served) -> Vec<String> {
        let mut wrong: Vec<String> = first_difference(&before.run.results, &after.run.results).into_iter().collect();
        let [old, new] = [before, after].map(|served| &served.run.counted);
        wrong.extend(new.wrong(old));
        // A backend that remembers no sizes asks about few operations, and for some models about none.
        if old.asked == 0 || (self.sizes == SizeRequests::Once && before.round_trips == 0) {
            wrong.push("no server was asked for a size: nothing was compared".to_owned());
        }
        // A server that is asked once for each shape cannot be asked less.
        let (factor, share) = if self.sizes == SizeRequests::EachTime { (3, "a third") } else { (1, "all") };
        if after.round_trips.saturating_mul(factor) > before.round_trips {
            wrong.push(format!(
                "{} round trips for sizes, more than {share} of {}",
                after.round_trips, before.round_trips
            ));
        }
        if new.asked.saturating_mul(3) > old.asked {
            wrong.push(format!("sizes were asked for {} times, more than a third of {}", new.asked, old.asked));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::Counted;

    fn served(report: &str, results: &str, round_trips: usize) -> Served {
        let counted = Counted::read(report).expect("a report");
        Served {
            run: Run { results: results.into(), counted, units_per_second: 1.0, reallocations: 0, peak_resident: None },
            round_trips,
        }
    }

    #[test]
    fn more_requests_than_promised_are_wrong() {
        let [remembering, _, asking] = &CLIENTS;
        let before = served("buffer 1 9 RPC0\nmost 9\nasked 20\n", "x", 6);
        let right = |round_trips| served("buffer 1 9 RPC0\nmost 9\nasked 6\nlastuse 1 1\n", "x", round_trips);
        assert_eq!(remembering.differences(&before, &right(6)), Vec::<String>::new());
        assert_eq!(asking.differences(&before, &right(2)), Vec::<String>::new());
        assert_eq!(asking.differences(&before, &right(3)), ["3 round trips for sizes, more than a third of 6"]);
        let wrong = served("buffer 1 9 RPC0\nmost 9\nasked 7\nlastuse 1 1\n", "y", 7);
        let wrong = remembering.differences(&before, &wrong).join("; ");
        for part in [
            "the results differ",
            "7 round trips for sizes, more than all of 6",
            "sizes were asked for 7 times, more than a third of 20",
        ] {
            assert!(wrong.contains(part), "{wrong}");
        }
        let nothing = served("buffer 1 9 RPC0\nmost 9\nasked 0\n", "x", 0);
        assert!(remembering.differences(&nothing, &right(0)).join("; ").contains("nothing was compared"));
    }
}
