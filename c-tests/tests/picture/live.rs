//! `lastuse run --live`: the page that follows a program while it runs.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use lastuse_c_tests::Linked;
use lastuse_vendor::Package;
use serde_json::json;

use super::support::tool::{command, stderr};
use super::support::{llama_style, tool};
use super::{Browser, PIXELS, browser, expect, scratch, value};

/// A language model that runs until it is killed, and the page that follows it.
struct Followed {
    child: Child,
    url: String,
    port: u16,
}

impl Followed {
    fn start() -> Self {
        let program = llama_style::build("picture-live", Package::LlamaCpp, Linked::SharedGgml);
        let path = program.path().to_str().expect("a path in UTF-8").to_owned();
        let shape: Vec<&str> =
            llama_style::SMALL.iter().map(|&word| if word == "4" { "60000" } else { word }).collect();
        let mut command = command(&[&["run", "--live", &path], &shape[..]].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the tool starts");
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("it prints UTF-8");
        let url = line.trim().strip_prefix("lastuse: the page of picture-live is at ").expect(&line).to_owned();
        let port = url.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.strip_suffix('/')?.parse().ok());
        Self { child, port: port.expect("the page is on the loopback interface"), url }
    }

    /// Sends a request as it is, and returns the answer.
    fn answer(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers in UTF-8");
        answer
    }

    /// Ends the program by a signal to the tool, which passes it on, and returns the exit code of the tool.
    fn end(&mut self) -> Option<i32> {
        let killed = std::process::Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(killed.expect("there is kill").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// The addresses that sockets of this system listen on at a port, in the words of the kernel.
fn listening(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let own = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (address, its_port) = words[1].split_once(':')?;
        // 0A: it listens.
        (words[3] == "0A" && u16::from_str_radix(its_port, 16) == Ok(port)).then(|| address.to_owned())
    };
    lines.filter_map(own).collect()
}

fn seconds(browser: &mut Browser) -> f64 {
    let caption = value(browser, "document.querySelector('.samples figcaption').innerText");
    let caption = caption.as_str().expect("a text");
    let end = caption.split(" s to ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    end.unwrap_or_else(|| panic!("{caption}"))
}

#[test]
fn page_follows_a_program_while_it_runs() {
    let mut followed = Followed::start();
    let mut browser = browser();
    expect(browser.open_served(&followed.url));
    // The graph that was planned last is shown, with both plans.
    expect(browser.wait_for("!!state.graph && state.painters.length === 2 && !!document.querySelector('.samples')"));
    expect(browser.wait_for("state.graph.label === live.newest"));
    let colours = format!(
        "(() => {{ const pen = {PIXELS}(state.painters[1]); const {{ width, height }} = pen.canvas;
        return new Set(new Uint32Array(pen.getImageData(0, 0, width, height).data.buffer)).size; }})()"
    );
    // It is painted in the next frame, and again when the next graph is planned.
    expect(browser.wait_for(&format!("{colours} > 100")));
    // What the device holds, by class: the weights, the cache and the compute buffer of this model, reserved and resident.
    expect(browser.wait_for("document.querySelectorAll('#live-devices table tr').length > 4"));
    // The cells have bytes in their titles.
    let row = value(
        &mut browser,
        "[...document.querySelector('#live-devices table').rows[1].cells].slice(1, 4).map((cell) => parseInt(cell.title))",
    );
    for class in 0..3 {
        assert!(row[class].as_u64().is_some_and(|bytes| bytes > 0), "{row}");
    }
    let drawn = "[...document.querySelectorAll('.samples path')].map((path) => path.getAttribute('class'))";
    assert_eq!(value(&mut browser, drawn), json!(["rounding", "other", "compute", "kv", "weights", "resident"]));
    let caption = value(&mut browser, "document.querySelector('.samples figcaption').innerText");
    assert!(caption.as_str().is_some_and(|text| text.contains(" reserved, ") && text.contains("of them resident")));
    // It goes on.
    let before = seconds(&mut browser);
    let later = format!(
        "Number(document.querySelector('.samples figcaption').innerText.split(' s to ')[1].split(' ')[0]) > {before} + 1"
    );
    expect(browser.wait_for(&later));
    // Who chooses a graph keeps it.
    value(&mut browser, "document.getElementById('graph').dispatchEvent(new Event('change', { bubbles: true }))");
    assert_eq!(value(&mut browser, "document.getElementById('follow').checked"), false);
    // It loads what is its own, and nothing else.
    let own = format!("the page loads {}", followed.url);
    let problems = expect(browser.problems());
    assert!(problems.contains(&format!("{own}live.json")), "{problems:?}");
    assert_eq!(problems.iter().filter(|problem| !problem.starts_with(&own)).collect::<Vec<_>>(), Vec::<&String>::new());
    for dark in [false, true] {
        expect(browser.prefer_dark(dark));
        expect(browser.paint());
        let file = scratch(if dark { "live-dark.png" } else { "live-light.png" });
        fs::write(file, expect(browser.png())).expect("the target folder can be written to");
    }
    assert_eq!(followed.end(), Some(143), "the exit code is that of the program");
    expect(browser.wait_for("document.getElementById('live-state').innerText.startsWith('The program has ended')"));
    assert_eq!(value(&mut browser, "state.painters.length"), 2, "what was seen last stays");
    assert_eq!(listening(followed.port), [""; 0], "nothing listens after the end");
}

#[test]
fn page_is_on_the_loopback_interface_alone_and_can_only_be_read() {
    let mut followed = Followed::start();
    assert_eq!(listening(followed.port), ["0100007F"], "127.0.0.1, and nothing else");
    let own = format!("127.0.0.1:{}", followed.port);
    let ask = |line: &str, host: &str| followed.answer(&format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let page = ask("GET /", &own);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("id=\"live-state\""), "{page}");
    assert!(page.contains("default-src 'none'") && page.contains("connect-src 'self'"));
    assert!(ask("GET /live.json", &own).contains("\"state\":\"picture-live has run for "));
    // A site with a name of its own for this address gets nothing.
    for host in ["rebound.example", "rebound.example:80", "127.0.0.1"] {
        assert!(ask("GET /live.json", host).starts_with("HTTP/1.1 403 "), "{host}");
    }
    for line in ["POST /", "DELETE /live.json", "HEAD /"] {
        assert!(ask(line, &own).starts_with("HTTP/1.1 405 "), "{line}");
    }
    for path in ["/../../etc/passwd", "//", "/live"] {
        assert!(ask(&format!("GET {path}"), &own).starts_with("HTTP/1.1 404 "), "{path}");
    }
    // One that says nothing keeps no other from being answered.
    let _silent = TcpStream::connect(("127.0.0.1", followed.port)).expect("it listens");
    let start = Instant::now();
    assert!(ask("GET /graphs.json", &own).starts_with("HTTP/1.1 200 OK"));
    assert!(start.elapsed() < Duration::from_secs(4));
    assert_eq!(followed.end(), Some(143));
}

#[test]
fn port_that_is_taken_is_said_before_the_program_starts() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    let port = taken.local_addr().expect("it has an address").port();
    let output = command(&["run", &format!("--live={port}"), "true"]).output().expect("the tool starts");
    let message =
        format!("lastuse: error: --live: port {port} is taken: name another one, or none for any that is free\n");
    assert_eq!((output.status.code(), stderr(&output)), (Some(125), message.as_str()));
    drop(taken);
    // On a free one it runs, and changes neither the output nor the exit code.
    let script = ["run", &format!("--live={port}"), "sh", "-c", "echo out; exit 7"];
    let output = command(&script).output().expect("the tool starts");
    assert_eq!((output.status.code(), tool::stdout(&output)), (Some(7), "out\n"), "{}", stderr(&output));
    assert!(stderr(&output).starts_with(&format!("lastuse: the page of sh is at http://127.0.0.1:{port}/\n")));
    for wrong in ["--live=0", "--live=70000", "--live=all"] {
        let output = command(&["run", wrong, "true"]).output().expect("the tool starts");
        assert_eq!(output.status.code(), Some(125), "{wrong}: {}", stderr(&output));
    }
}
