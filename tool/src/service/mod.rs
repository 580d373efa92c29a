//! `lastuse enable` and `lastuse disable`: services of systemd whose programs run with lastuse, by a drop-in of their units.

mod drop_in;
mod library;
mod unit;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::builder::PossibleValue;
use lastuse::settings::SETTINGS;
use unit::{Manager, Unit, service_name};

use crate::foreign::unwritable;
use crate::output::{print, print_notice};
use crate::reach::unreached;
use crate::settings::Settings;
use crate::usage::Failure;

/// Make a systemd service run with lastuse.
///
/// Shows, then writes, a drop-in for its unit that preloads the library and passes the settings. Programs that the service starts
/// inherit both if it passes its environment on. Warns if preloading does not reach the program of ExecStart=, as "lastuse
/// reach" tells. "lastuse
/// disable" undoes it.
///
/// Caches on the CPU then take memory as they fill: keep MemoryMax= as it is without lastuse, or use --on-demand=off.
#[derive(clap::Args)]
#[command(mut_arg("verify", |option| {
    let modes = [PossibleValue::new("plan"), PossibleValue::new("memory").hide(true)];
    option.help("Check each plan before it is used; a defect ends the program").long_help(None).value_parser(modes)
}))]
#[command(after_help = "Examples:
  sudo $(command -v lastuse) enable --now llama-server   from now on
  sudo $(command -v lastuse) enable --arena --set LASTUSE_LOG=info llama-server
  lastuse enable --user --dry-run llama-server          show it only
  lastuse enable --yes --root /mnt/image llama-server   in an image
  sudo $(command -v lastuse) disable --now llama-server  back to ggml-alloc

Exit codes: 0 done, 1 refused, or a file cannot be written, 2 wrong usage.")]
pub struct Enable {
    /// The shared library to preload, as the service sees it [default: that of this tool if services may read it, or an
    /// installed one]
    #[arg(long = "library", value_name = "FILE")]
    preload: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,

    /// Give the service another variable of lastuse, such as LASTUSE_LOG=info.
    #[arg(long = "set", value_name = "VARIABLE=VALUE", value_parser = other_setting)]
    others: Vec<(String, String)>,

    #[command(flatten)]
    place: Place,
}

/// Make a systemd service run without lastuse again.
///
/// Removes the drop-in that "lastuse enable" has written, if it is as it was written, and shows its name first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo $(command -v lastuse) disable --now llama-server   from now on
  lastuse disable --yes --root /mnt/image llama-server  in an image

Exit codes: 0 done, 1 refused, or a file cannot be removed, 2 wrong usage.")]
pub struct Disable {
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
struct Place {
    /// The service, such as llama-server, llama-server@8080 or llama-server.service
    #[arg(value_name = "UNIT", value_parser = service_name)]
    unit: String,

    /// A service of the user, not of the system
    #[arg(long)]
    user: bool,

    /// Where another system is mounted
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    root: PathBuf,

    /// Reload systemd, and restart the service if it runs
    #[arg(long, conflicts_with = "root")]
    now: bool,

    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// Writes a drop-in.
pub fn enable(arguments: &Enable) -> Result<ExitCode, Failure> {
    let manager = arguments.place.manager()?;
    let variables = variables(arguments, &manager)?;
    let unit = manager.find(&arguments.place.unit)?;
    let text = drop_in::text(&unit.name, &variables);
    let earlier = unchanged(&unit)?;
    if earlier.as_deref() == Some(text.as_str()) {
        print(format!("{} is there already\n", unit.drop_in.display()).as_bytes())?;
        return arguments.place.reload(&unit);
    }
    if let Some(why) = unit.program.as_deref().and_then(|program| unreached(program, manager.is_this_system())) {
        print_notice(&format!("warning: {}: {why}", unit.name));
    }
    let what = if earlier.is_some() { "is replaced by" } else { "is new" };
    let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
    if arguments.place.is_agreed(&format!("{} {what}:\n\n{lines}\n", unit.drop_in.display()))? {
        write(&unit.drop_in, &text)?;
    }
    arguments.place.reload(&unit)
}

/// Removes a drop-in.
pub fn disable(arguments: &Disable) -> Result<ExitCode, Failure> {
    let unit = arguments.place.manager()?.find(&arguments.place.unit)?;
    if unchanged(&unit)?.is_none() {
        let missing = format!("{} is not enabled: there is no {}", unit.name, unit.drop_in.display());
        return Err(missing.into());
    }
    if arguments.place.is_agreed(&format!("{} is removed\n", unit.drop_in.display()))? {
        fs::remove_file(&unit.drop_in).map_err(|error| failed(&unit.drop_in, &error))?;
        // It stays where others have drop-ins in it.
        let _ = unit.drop_in.parent().map(fs::remove_dir);
    }
    arguments.place.reload(&unit)
}

/// Returns what the drop-in adds to the environment.
fn variables(arguments: &Enable, manager: &Manager) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut variables = arguments.settings.variables().map_err(Failure::usage)?;
    for (name, value) in &arguments.others {
        let known = SETTINGS.iter().find_map(|setting| setting.variable.to_str().ok().filter(|known| known == name));
        variables.push((known.unwrap_or_default(), value.clone()));
    }
    let watches = |value: &str| ["memory", "weights"].iter().any(|word| value.contains(word));
    if variables.iter().any(|(name, value)| *name == "LASTUSE_VERIFY" && watches(value)) {
        return Err(Failure::usage("--verify=memory is too slow for a service: use it with \"lastuse run\""));
    }
    for (index, (name, _)) in variables.iter().enumerate() {
        if variables[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(Failure::usage(format!("{name} is given twice")));
        }
    }
    let library = library::find(arguments.preload.as_deref(), &variables, manager)?;
    let mut preloaded = library.display().to_string();
    if let Some(guard) = library::guard_for(&variables, &library, manager)? {
        preloaded = format!("{preloaded}:{}", guard.display());
    }
    variables.insert(0, ("LD_PRELOAD", preloaded));
    Ok(variables)
}

/// Parses a variable of the library and its value, which a service would only log as wrong.
fn other_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected VARIABLE=VALUE, such as LASTUSE_LOG=info")?;
    let known = || SETTINGS.iter().map(|setting| setting.variable.to_string_lossy()).collect::<Vec<_>>().join(", ");
    let setting = SETTINGS.iter().find(|setting| setting.variable.to_str() == Ok(name));
    let setting = setting.ok_or_else(|| format!("{name} is none of {}", known()))?;
    setting.check(OsStr::new(value)).map_err(|why| format!("{name}: {why}"))?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Returns the drop-in of lastuse if there is one.
///
/// # Errors
/// It was changed since it was written, or cannot be read.
fn unchanged(unit: &Unit) -> Result<Option<String>, String> {
    match fs::read_to_string(&unit.drop_in) {
        Ok(text) if drop_in::is_unchanged(&unit.name, &text) => Ok(Some(text)),
        Ok(_) => Err(format!(
            "{} is not as \"lastuse enable\" wrote it: undo what was changed in it, or remove it",
            unit.drop_in.display()
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", unit.drop_in.display())),
    }
}

/// Writes a file at once, which all may read, as systemd expects of its configuration.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
        fresh.write_all(text.as_bytes())?;
        fresh.as_file().set_permissions(Permissions::from_mode(0o644))?;
        fresh.persist(path)?;
        Ok(())
    };
    write().map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> String {
    if error.kind() == ErrorKind::PermissionDenied {
        return format!("{}: no permission to write there: use sudo, or --user for a service of yours", path.display());
    }
    format!("{}: cannot be written: {}", path.display(), unwritable(path, error))
}

impl Place {
    fn manager(&self) -> Result<Manager, String> {
        let root = self.root.canonicalize().map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!("--root {}: no such folder", self.root.display()),
            _ => format!("--root {}: {error}", self.root.display()),
        })?;
        Ok(Manager { is_user: self.user, root })
    }

    /// Shows what is to be done, and returns whether to do it.
    fn is_agreed(&self, what: &str) -> Result<bool, String> {
        print(what.as_bytes())?;
        if self.dry_run || self.yes {
            return Ok(!self.dry_run);
        }
        if !io::stdin().is_terminal() {
            return Err("nothing was done: confirmation needs a terminal: use --yes".to_owned());
        }
        print(b"Do it? [y/N] ")?;
        io::stdout().flush().map_err(|error| error.to_string())?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(|error| error.to_string())?;
        if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(true) } else { Err("nothing was done".to_owned()) }
    }

    /// Has systemd read the units of this system again, or says how.
    fn reload(&self, unit: &Unit) -> Result<ExitCode, Failure> {
        let commands = [&["daemon-reload"][..], &["try-restart", &unit.name]];
        let user = if self.user { &["--user"][..] } else { &[] };
        let words = |command: &[&str]| [&["systemctl"], user, command].concat().join(" ");
        let [reload, restart] = commands.map(words);
        if self.root != Path::new("/") || (self.dry_run && !self.now) {
            return Ok(ExitCode::SUCCESS);
        }
        if self.dry_run {
            print(format!("then: {reload} && {restart}\n").as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        if !self.now {
            print(format!("it has effect after: {reload} && {restart}\n").as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        for command in commands {
            let status = Command::new("systemctl").args(user).args(command).status();
            let status = status.map_err(|error| format!("{}: {error}", words(command)))?;
            if !status.success() {
                return Err(format!("{} failed ({status}); the files are as shown", words(command)).into());
            }
        }
        print(format!("{} has been restarted if it ran\n", unit.name).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
