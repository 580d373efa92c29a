//! llama.cpp as the unstable Debian has it: its programs, with lastuse preloaded.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lastuse_c_tests::models::write_llama;
use lastuse_c_tests::packages::{ReportedRun, output_of, packages_folder};
use lastuse_c_tests::{Build, Result, clear_variables, lastuse};

use crate::debian_root::unpack_packages;

/// The names of files in the root of the programs.
const LIBRARY: &str = "/liblastuse.so";
const MODEL: &str = "/model.gguf";
const REPORT: &str = "/tmp/report.jsonl";
const SOCKET: &str = "/tmp/server.sock";

/// How long a server may take to load the model, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// What serves a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allocator {
    /// Nothing is preloaded.
    Plain,
    Lastuse,
    /// lastuse is preloaded, and `LASTUSE=off`.
    Off,
}

const ALLOCATORS: [Allocator; 3] = [Allocator::Plain, Allocator::Off, Allocator::Lastuse];

/// Unpacks Debian's llama.cpp, and runs a benchmark and a server of it: lastuse must serve them, with fewer bytes, and the
/// server must compute the same probabilities.
///
/// # Errors
/// What does not hold, and the messages of apt.
pub fn test() -> Result<()> {
    let folder = packages_folder().join("debian");
    eprintln!("[debian] downloading llama.cpp of the unstable Debian to {}", folder.display());
    let root = unpack_packages(&folder, "unstable", &["llama.cpp-tools"])?;
    let library = lastuse(Build::Release)?.shared;
    fs::copy(&library, inside(&root, LIBRARY)).map_err(|error| format!("{}: {error}", library.display()))?;
    write_llama(&inside(&root, MODEL), 1)?;
    let bench = ALLOCATORS.map(|allocator| bench(&root, allocator));
    report("llama-bench", &bench.into_iter().collect::<Result<Vec<_>>>()?)?;
    let answers = ALLOCATORS.map(|allocator| answer(&root, allocator));
    let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
    if answers.iter().any(|(answer, _)| *answer != answers[0].0) {
        return Err(format!("the answers of llama-server differ: {answers:?}"));
    }
    report("llama-server", &answers.into_iter().map(|(_, run)| run).collect::<Vec<_>>())?;
    println!("debian: the probabilities that llama-server computes are the same on all");
    Ok(())
}

/// Prints the bytes of a program's runs, and checks them: of nothing, of `LASTUSE=off`, and of lastuse.
fn report(program: &str, runs: &[Option<ReportedRun>]) -> Result<()> {
    let [None, Some(off), Some(with)] = runs else {
        return Err(format!("{program} has these reports: {runs:?}"));
    };
    println!("debian: {program} on ggml {}: {} bytes, {} with LASTUSE=off", with.ggml, with.bytes, off.bytes);
    let is_right = with.server == "lastuse" && off.server == "ggml-alloc" && 0 < with.bytes && with.bytes < off.bytes;
    is_right.then_some(()).ok_or_else(|| format!("{program}: lastuse does not serve it with less: {with:?}, {off:?}"))
}

fn inside(root: &Path, name: &str) -> PathBuf {
    root.join(name.trim_start_matches('/'))
}

/// A command of a program in the root.
fn command(root: &Path, allocator: Allocator, words: &str) -> Command {
    let mut words = words.split(' ');
    let mut command = Command::new("chroot");
    command.arg(root).arg(format!("/usr/bin/{}", words.next().unwrap_or_default())).args(words);
    clear_variables(&mut command);
    if allocator != Allocator::Plain {
        // chroot itself does not find it, and goes on.
        command.env("LD_PRELOAD", LIBRARY).env("LASTUSE_REPORT", REPORT);
    }
    if allocator == Allocator::Off {
        command.env("LASTUSE", "off");
    }
    command
}

/// Returns the report of the last run, which is removed.
fn take_report(root: &Path) -> Result<Option<ReportedRun>> {
    let file = inside(root, REPORT);
    let Ok(text) = fs::read_to_string(&file) else { return Ok(None) };
    fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    ReportedRun::read(&text).map(Some)
}

fn bench(root: &Path, allocator: Allocator) -> Result<Option<ReportedRun>> {
    let words = format!("llama-bench -m {MODEL} -p 256 -n 8 -r 1 -t 1");
    let text = output_of(command(root, allocator, &words))?;
    if !text.contains("pp256") || !text.contains("tg8") {
        return Err(format!("llama-bench has no results:\n{text}"));
    }
    take_report(root)
}

/// Starts a server, has it complete a text, and returns the words and their probabilities, and the report.
fn answer(root: &Path, allocator: Allocator) -> Result<(String, Option<ReportedRun>)> {
    let socket = inside(root, SOCKET);
    let _ = fs::remove_file(&socket);
    let log = packages_folder().join("debian/server.log");
    let file = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let words = format!("llama-server -m {MODEL} -t 1 -np 1 -c 1024 --no-warmup --host {SOCKET}");
    let mut command = command(root, allocator, &words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let server = Server(command.spawn().map_err(|error| format!("cannot run chroot: {error}"))?);
    let text = complete(&socket).map_err(|why| format!("llama-server: {why}; see {}", log.display()))?;
    server.end()?;
    let answer: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let probabilities = &answer["completion_probabilities"];
    if probabilities.as_array().is_none_or(Vec::is_empty) {
        return Err(format!("the answer of llama-server has no probabilities: {text}"));
    }
    Ok((probabilities.to_string(), take_report(root)?))
}

/// A server that does not outlive its value.
struct Server(Child);

impl Server {
    /// Ends it as its user would, so that it writes its report.
    fn end(mut self) -> Result<()> {
        let mut kill = Command::new("kill");
        kill.args(["-TERM", &self.0.id().to_string()]);
        output_of(kill)?;
        let status = self.0.wait().map_err(|error| format!("llama-server: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("llama-server: {status}")) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks a server to complete a text as soon as it has loaded its model.
fn complete(socket: &Path) -> Result<String> {
    let start = Instant::now();
    while !ask(socket, "GET /health", "").is_ok_and(|answer| answer.contains("ok")) {
        if start.elapsed() > PATIENCE {
            return Err(format!("it does not answer within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let wanted = serde_json::json!({
        "prompt": "hello w1 w2", "n_predict": 24, "temperature": 0, "seed": 1, "n_probs": 3, "ignore_eos": true,
        "cache_prompt": false,
    });
    ask(socket, "POST /completion", &wanted.to_string())
}

/// Sends a request, and returns the body of the answer.
fn ask(socket: &Path, request: &str, body: &str) -> Result<String> {
    let failed = |error: std::io::Error| format!("{request}: {error}");
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.contains(" 200 ") { Ok(body.to_owned()) } else { Err(format!("{request}: {answer}")) }
}
