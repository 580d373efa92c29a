//! `lastuse enable` and `lastuse disable`, on roots that hold a service as ollama installs it: what systemd reads of them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lastuse_c_tests::{Linked, is_root};
use lastuse_vendor::Package;

use crate::support::tool::{assert_fails, command, file, stderr, stdout};
use crate::support::{self, llama_style};

const UNIT: &str = "[Unit]\nDescription=Ollama Service\nAfter=network-online.target\n\n[Service]\nExecStart=/usr/bin/program serve\n\
                    User=ollama\nRestart=always\nRestartSec=3\nEnvironment=\"PATH=/usr/local/bin:/usr/bin\"\n\n[Install]\n\
                    WantedBy=default.target\n";
const DROP_IN: &str = "etc/systemd/system/ollama.service.d/50-lastuse.conf";
const LIBRARY: &str = "/usr/local/lib/liblastuse.so";

/// A folder, removed at the end, that other users may read.
struct Root(PathBuf);

impl Root {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("lastuse-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("a temporary folder");
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("its owner");
        Self(folder.canonicalize().expect("it is there"))
    }

    /// A system with ollama and an installed lastuse.
    fn with_ollama(test: &str) -> Self {
        let root = Self::new(test);
        root.add("etc/systemd/system/ollama.service", UNIT.as_bytes());
        root.add("usr/bin/program", b"\x7fELF");
        fs::set_permissions(root.path("usr/bin/program"), Permissions::from_mode(0o755)).expect("its owner");
        root.add_library(&LIBRARY[1..]);
        // What each service depends on.
        for target in ["sysinit", "basic", "shutdown", "network-online", "default"] {
            root.add(&format!("usr/lib/systemd/system/{target}.target"), b"[Unit]\nDefaultDependencies=no\n");
        }
        root
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn add(&self, name: &str, content: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(path, content).expect("writable");
    }

    fn add_library(&self, name: &str) {
        self.add(name, &fs::read(built_library()).expect("it is built"));
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs a command of the tool in this root.
    fn lastuse(&self, arguments: &[&str]) -> Output {
        let root = self.0.to_str().expect("UTF-8");
        command(&[&arguments[..1], &["--root", root], &arguments[1..]].concat()).output().expect("the tool starts")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The library of the tool that is tested.
fn built_library() -> PathBuf {
    file().with_file_name("../lib/liblastuse.so")
}

fn succeeded(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(output), stderr(output));
    stdout(output)
}

#[test]
fn a_drop_in_is_shown_written_verified_and_removed() {
    let root = Root::with_ollama("enable");
    let options = ["enable", "--arena", "--on-demand=compute", "--rules", "ggml", "ollama"];
    let shown = root.lastuse(&[&options[..1], &["--dry-run"], &options[1..]].concat());
    assert!(succeeded(&shown).contains("    Environment=\"LASTUSE_ARENA=shared\"\n"), "{}", stdout(&shown));
    assert!(!root.path(DROP_IN).exists());
    let unasked = root.lastuse(&options);
    assert_fails(&unasked, "nothing was done: confirmation needs a terminal: use --yes");
    assert!(!root.path(DROP_IN).exists());

    succeeded(&root.lastuse(&[&options[..1], &["--yes"], &options[1..]].concat()));
    let text = root.read(DROP_IN);
    let lines = [
        "LD_PRELOAD=/usr/local/lib/liblastuse.so",
        "LASTUSE_RULES=ggml",
        "LASTUSE_ON_DEMAND=compute",
        "LASTUSE_ARENA=shared",
    ];
    let lines: Vec<String> = lines.iter().map(|line| format!("Environment=\"{line}\"")).collect();
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), [&["[Service]".to_owned()][..], &lines].concat());
    let mode = root.path(DROP_IN).metadata().expect("written").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(verify(&root), "");

    let again = root.lastuse(&["enable", "--yes", "--effort", "5", "ollama.service"]);
    assert!(succeeded(&again).contains("is replaced by"), "{}", stdout(&again));
    assert!(root.read(DROP_IN).ends_with("liblastuse.so\"\nEnvironment=\"LASTUSE_EFFORT=5\"\n"));
    succeeded(&root.lastuse(&["disable", "--dry-run", "ollama"]));
    assert!(root.path(DROP_IN).exists());
    succeeded(&root.lastuse(&["disable", "--yes", "ollama"]));
    assert!(!root.path("etc/systemd/system/ollama.service.d").exists());
    assert_eq!(root.read("etc/systemd/system/ollama.service"), UNIT);
}

#[test]
fn libraries_that_are_there_and_cannot_be_used_are_told() {
    let root = Root::with_ollama("unusable");
    let library = root.path(&LIBRARY[1..]);
    fs::set_permissions(&library, Permissions::from_mode(0o600)).expect("its owner");
    let shown = root.lastuse(&["enable", "--dry-run", "ollama"]);
    let why = format!("{}: not all users may read {LIBRARY}", library.display());
    assert!(
        stderr(&shown).contains(&format!("found no library that services can read ({why}); ")),
        "{}",
        stderr(&shown)
    );
}

#[test]
fn programs_that_are_not_reached_are_told() {
    let root = Root::with_ollama("reached");
    let warned = |root: &Root| {
        let shown = root.lastuse(&["enable", "--dry-run", "ollama"]);
        succeeded(&shown);
        stderr(&shown).to_owned()
    };
    let program = root.path("usr/bin/program").display().to_string();
    // It may be for another machine.
    assert_eq!(warned(&root), "");
    let ggml = support::ggml(Package::LlamaCpp);
    for (linked, is_reached) in [(Linked::SharedGgml, true), (Linked::Ggml, false)] {
        let name = format!("service-{is_reached}");
        let built = support::build(&name, "tests/support/plain_scheduler.c", &ggml, linked);
        root.add("usr/bin/program", &fs::read(built.path()).expect("it is built"));
        let warning = warned(&root);
        let bound = format!("lastuse: warning: ollama.service: lastuse may have no effect on {program}: ");
        assert_eq!(warning.starts_with(&bound), !is_reached, "{warning}");
        assert!(is_reached == warning.is_empty(), "{warning}");
    }
}

/// Programs on a scheduler are reached through the guard.
#[test]
fn guard_is_preloaded_where_a_setting_needs_it() {
    let root = Root::with_ollama("guard");
    root.add("usr/local/lib/liblastuse_guard.so", b"\x7fELF");
    for option in ["--budget=1GiB", "--reorder", "--arena"] {
        let shown = root.lastuse(&["enable", "--dry-run", option, "ollama"]);
        let line = "LD_PRELOAD=/usr/local/lib/liblastuse.so:/usr/local/lib/liblastuse_guard.so\"\n";
        assert!(succeeded(&shown).contains(line), "{option}: {}", stdout(&shown));
    }
    let shown = root.lastuse(&["enable", "--dry-run", "--effort", "5", "ollama"]);
    assert!(!succeeded(&shown).contains("liblastuse_guard"), "{}", stdout(&shown));
}

/// Without an installed library, one command installs all that the settings need.
#[test]
fn what_is_missing_is_installed_at_once() {
    let root = Root::with_ollama("missing");
    fs::remove_file(root.path(&LIBRARY[1..])).expect("it is there");
    let told = |options: &[&str]| {
        let output = root.lastuse(&[&["enable", "--yes"], options, &["ollama"]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let text = stderr(&output).trim_end().to_owned();
        let (_, command) = text.split_once("; this installs it: ").unwrap_or_else(|| panic!("{text}"));
        command.strip_prefix("sudo ").unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let to = root.path(&LIBRARY[1..]);
    let alone = told(&[]);
    assert!(alone.ends_with(&format!("/liblastuse.so {}", to.display())), "{alone}");
    let both = told(&["--budget", "1GiB"]);
    assert!(both.ends_with("/liblastuse_guard.so") && both.contains("/liblastuse.so "), "{both}");
    let installed = Command::new("sh").args(["-c", &both]).status().expect("a shell");
    assert!(installed.success() && to.exists(), "{both}");
    let line = "LD_PRELOAD=/usr/local/lib/liblastuse.so:/usr/local/lib/liblastuse_guard.so\"\n";
    let shown = root.lastuse(&["enable", "--dry-run", "--budget", "1GiB", "ollama"]);
    assert!(succeeded(&shown).contains(line), "{}", stdout(&shown));
}

/// docs/production.md shows what is printed.
#[test]
fn what_the_page_shows_is_what_is_shown() {
    let root = Root::with_ollama("page");
    root.add("etc/systemd/system/llama-server.service", UNIT.as_bytes());
    let shown = root.lastuse(&["enable", "--dry-run", "--set", "LASTUSE_LOG=info", "llama-server"]);
    let shown = succeeded(&shown).replace(root.0.to_str().expect("UTF-8"), "");
    let page = lastuse_c_tests::folder().with_file_name("docs/production.md");
    let page = fs::read_to_string(page).expect("it is there");
    let block: String =
        shown.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }).collect();
    assert!(page.contains(&block), "{block}");
}

/// What systemd finds wrong with the service.
fn verify(root: &Root) -> String {
    let mut command = Command::new("systemd-analyze");
    command.arg("verify").arg("--man=no").arg(format!("--root={}", root.0.display())).arg("ollama.service");
    let output = command.output().unwrap_or_else(|error| panic!("systemd-analyze: {error}; apt-get install systemd"));
    let found = stderr(&output).to_owned();
    assert!(output.status.success() || !found.is_empty(), "{output:?}");
    found
}

#[test]
fn systemd_verifies_what_it_reads() {
    let root = Root::with_ollama("verify");
    root.add(DROP_IN, b"[Service]\nEnvironment=\"LD_PRELOAD\n");
    assert!(verify(&root).contains("50-lastuse.conf:2: Invalid syntax"), "{}", verify(&root));
}

#[test]
fn systemd_reads_values_as_they_were_given() {
    let root = Root::new("values");
    root.add("systemd/user/model.service", UNIT.replace("User=ollama\n", "").as_bytes());
    root.add_library("lib.so");
    let mut enable = command(&["enable", "--user", "--yes", "--library"]);
    enable.arg(root.path("lib.so")).args(["--retain", "l 50%n \"*\" \\$HOME", "--set", "LASTUSE_CAPTURE=a'b", "model"]);
    succeeded(&enable.env("XDG_CONFIG_HOME", &root.0).output().expect("the tool starts"));
    // Its test mode prints every unit that it has loaded; it is not for root.
    let mut manager = as_another_user(Path::new("/lib/systemd/systemd"));
    fs::create_dir(root.path("run")).expect("writable");
    fs::set_permissions(root.path("run"), Permissions::from_mode(0o777)).expect("its owner");
    manager.args(["--user", "--test", "--unit=model.service"]).env("XDG_CONFIG_HOME", &root.0);
    let output = manager.env("XDG_RUNTIME_DIR", root.path("run")).output().expect("systemd starts");
    let text = stdout(&output);
    let read: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("Environment: ")).collect();
    let library = format!("LD_PRELOAD={}", root.path("lib.so").display());
    for line in [&*library, "LASTUSE_RETAIN=l 50%n \"*\" \\$HOME", "LASTUSE_CAPTURE=a'b"] {
        assert!(read.contains(&line), "{line} is not in {read:?}\n{}", stderr(&output));
    }
}

/// A program as a user without rights, where this is root.
fn as_another_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--clear-groups"]).arg(program);
    command
}

#[test]
fn what_stands_against_it_is_named() {
    let root = Root::with_ollama("refused");
    let fails = |arguments: &[&str], why: &str| {
        let output = root.lastuse(arguments);
        let is_usage = arguments.iter().any(|argument| ["--rules", "--set", "ollama.timer", "a b"].contains(argument));
        let code = if is_usage { 2 } else { 1 };
        assert!(
            output.status.code() == Some(code) && stderr(&output).contains(why),
            "{arguments:?}: {}",
            stderr(&output)
        );
    };
    fails(&["enable", "--yes", "olama"], "there is no olama.service; looked in ");
    fails(&["enable", "--yes", "ollama.timer"], "name the service, such as ollama.service");
    fails(&["enable", "--yes", "a b"], "invalid value 'a b' for '<UNIT>': not the name of a unit");
    fails(&["enable", "--yes", "--rules", "no-such", "ollama"], "--rules: ");
    fails(
        &["enable", "--yes", "--rules", "ggml", "--set", "LASTUSE_RULES=all", "ollama"],
        "LASTUSE_RULES is given twice",
    );
    fails(&["enable", "--yes", "--library", "/opt/none.so", "ollama"], "/opt/none.so cannot be used: no such file");
    root.add("opt/other.so", b"\x7fELF");
    fails(&["enable", "--yes", "--library", "/opt/other.so", "ollama"], "it is not the library of lastuse");
    for (setting, why) in [
        ("LASTUSE_LOG=loud", "LASTUSE_LOG: \"loud\" is unknown; expected error, warn, info, debug, off"),
        ("LASTUSE_RECYCLE=much", "LASTUSE_RECYCLE: \"much\" is not a limit"),
        ("LASTUSE_ARENA=mine", "LASTUSE_ARENA: \"mine\" is unknown"),
        ("LASTUSE_LOUD=1", "LASTUSE_LOUD is none of LASTUSE, LASTUSE_LOG, "),
        ("LASTUSE=maybe", "LASTUSE: \"maybe\" is unknown"),
    ] {
        fails(&["enable", "--yes", "--set", setting, "ollama"], why);
    }
    fails(
        &["enable", "--yes", "--budget", "1GiB", "ollama"],
        "LASTUSE_BUDGET needs liblastuse_guard.so beside the library; this installs it: sudo install -Dm644 /",
    );
    fails(&["disable", "--yes", "ollama"], "ollama.service is not enabled");

    succeeded(&root.lastuse(&["enable", "--yes", "ollama"]));
    let written = root.read(DROP_IN);
    let changed = format!("{written}Environment=\"OLLAMA_DEBUG=1\"\n");
    root.add(DROP_IN, changed.as_bytes());
    for name in ["enable", "disable"] {
        fails(&[name, "--yes", "ollama"], "is not as \"lastuse enable\" wrote it");
    }
    assert_eq!(root.read(DROP_IN), changed);
    root.add(DROP_IN, written.as_bytes());
    root.add("etc/systemd/system/ollama.service.d/own.conf", b"[Service]\nEnvironment=OLLAMA_DEBUG=1\n");
    succeeded(&root.lastuse(&["disable", "--yes", "ollama"]));
    assert!(root.path("etc/systemd/system/ollama.service.d/own.conf").exists());

    root.add("etc/systemd/system/ollama.service.d/own.conf", b"[Service]\nEnvironment=LD_PRELOAD=/usr/lib/other.so\n");
    fails(&["enable", "--yes", "ollama"], "own.conf sets LD_PRELOAD, which a drop-in would replace");
    fs::remove_file(root.path("etc/systemd/system/ollama.service.d/own.conf")).expect("it is there");
    fs::set_permissions(root.path("usr/local"), Permissions::from_mode(0o700)).expect("its owner");
    fails(&["enable", "--yes", "--library", LIBRARY, "ollama"], "not all users may read /usr/local");
    fails(&["enable", "--yes", "ollama"], "this installs it: sudo install -Dm644 ");
}

#[test]
fn missing_rights_are_named() {
    let root = Root::with_ollama("rights");
    fs::set_permissions(root.path("etc/systemd/system"), Permissions::from_mode(0o555)).expect("its owner");
    let tool = root.path("lastuse");
    // By another process: one that this process starts meanwhile would inherit the file, open for writing, which Linux does
    // not execute.
    assert!(Command::new("cp").args([file(), &tool]).status().expect("cp starts").success());
    let mut enable = as_another_user(&tool);
    enable.args(["enable", "--yes", "--library", LIBRARY, "ollama", "--root"]).arg(&root.0);
    let output = enable.output().expect("the tool starts");
    let drop_in = root.path(DROP_IN);
    let why = "no permission to write there: use sudo, or --user for a service of yours";
    assert_fails(&output, &format!("{}: {why}", drop_in.display()));
}

#[test]
fn now_reloads_systemd_and_restarts_the_service() {
    let root = Root::new("now");
    root.add("systemd/user/model@.service", UNIT.as_bytes());
    root.add_library("lib.so");
    root.add("bin/systemctl", b"#!/bin/sh\necho \"$@\" >> \"$XDG_CONFIG_HOME/calls\"\n[ -z \"$FAILS\" ]\n");
    fs::set_permissions(root.path("bin/systemctl"), Permissions::from_mode(0o755)).expect("its owner");
    let path = format!("{}:{}", root.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let lastuse = |arguments: &[&str], fails: &str| {
        let mut command = command(arguments);
        command
            .env("XDG_CONFIG_HOME", &root.0)
            .env("PATH", &path)
            .env("FAILS", fails)
            .output()
            .expect("the tool starts")
    };
    let library = root.path("lib.so");
    let enable = ["enable", "--user", "--yes", "--library", library.to_str().expect("UTF-8"), "model@1"];
    let tried = lastuse(&[&enable[..], &["--dry-run", "--now"]].concat(), "1");
    let then = "then: systemctl --user daemon-reload && systemctl --user try-restart model@1.service\n";
    assert!(succeeded(&tried).ends_with(then), "{}", stdout(&tried));
    assert!(!root.path("systemd/user/model@1.service.d/50-lastuse.conf").exists());
    let told = lastuse(&enable, "");
    let after = "it has effect after: systemctl --user daemon-reload && systemctl --user try-restart model@1.service\n";
    assert!(succeeded(&told).ends_with(after), "{}", stdout(&told));
    assert!(root.path("systemd/user/model@1.service.d/50-lastuse.conf").exists());
    assert!(!root.path("calls").exists());
    succeeded(&lastuse(&["disable", "--user", "--yes", "--now", "model@1"], ""));
    assert_eq!(root.read("calls"), "--user daemon-reload\n--user try-restart model@1.service\n");
    let failed = lastuse(&[&enable[..], &["--now"]].concat(), "1");
    assert!(stderr(&failed).contains("systemctl --user daemon-reload failed"), "{}", stderr(&failed));
}

/// The lines of docs/tool.md for a Dockerfile put the library to this path and into this variable of an image.
#[test]
fn programs_of_an_image_are_served() {
    let root = Root::new("image");
    let program = llama_style::build("service-image", Package::LlamaCpp, Linked::SharedGgml);
    let libraries = Command::new("ldd").arg(program.path()).output().expect("ldd starts");
    let libraries = stdout(&libraries).split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    let copy = |from: &Path, to: &Path| {
        let to = root.path(to.strip_prefix("/").unwrap_or(to).to_str().expect("UTF-8"));
        fs::create_dir_all(to.parent().expect("a folder")).expect("writable");
        fs::copy(from, &to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    };
    libraries.for_each(|library| copy(&library, &library));
    copy(program.path(), Path::new("/app"));
    // Chroot itself runs outside of the image.
    copy(Path::new("/usr/bin/env"), Path::new("/usr/bin/env"));
    copy(&built_library(), Path::new(LIBRARY));
    let run = |preload: &str| {
        let mut command = Command::new(if is_root() { "chroot" } else { "unshare" });
        if !is_root() {
            command.args(["--user", "--map-root-user", "chroot"]);
        }
        command.arg(&root.0).args(["/usr/bin/env", preload, "LASTUSE_REPORT=/report", "/app"]);
        let output = command.args(llama_style::SMALL).output().expect("chroot starts");
        assert_eq!(stderr(&output), "", "the library is found");
        succeeded(&output).to_owned()
    };
    let plain = run("A=B");
    assert!(!root.path("report").exists());
    let served = run(&format!("LD_PRELOAD={LIBRARY}"));
    assert!(root.read("report").contains("\"server\":\"lastuse\""), "{}", root.read("report"));
    let value = |text: &str| text.lines().find_map(|line| Some(line.strip_prefix("logits_hash=")?.to_owned()));
    assert_eq!(value(&served), value(&plain));
    assert!(value(&plain).is_some(), "{plain}");
}
