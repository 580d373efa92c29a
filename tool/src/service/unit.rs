//! Units of systemd: where their files are, in a root that may not be that of this system.

use std::fs;
use std::path::{Path, PathBuf};

use super::drop_in;

/// Whose units they are, and in which root.
pub struct Manager {
    /// Units of a user, not of the system.
    pub is_user: bool,
    /// "/", or where another system is mounted.
    pub root: PathBuf,
}

/// A service.
pub struct Unit {
    /// Its name, which ends in ".service".
    pub name: String,
    /// The drop-in of lastuse.
    pub drop_in: PathBuf,
    /// The program that its file starts, in the root, if it names one.
    pub program: Option<PathBuf>,
}

/// Folders with units of the system; the first is that of the administrator.
const OF_SYSTEM: [&str; 6] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator",
];

/// Folders with units of users, without their own.
const OF_USERS: [&str; 4] =
    ["/etc/systemd/user", "/run/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user"];

impl Manager {
    /// Returns where a path of the system is in this root.
    pub fn in_root(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns whether it is the system that this tool runs on.
    pub fn is_this_system(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the folders with units; drop-ins are written below the first.
    fn folders(&self) -> Result<Vec<PathBuf>, String> {
        let mut folders = Vec::new();
        if self.is_user {
            let home = || std::env::home_dir().filter(|home| home.is_absolute());
            let folder = |variable: &str, in_home: &str| {
                let given = std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
                given.or_else(|| home().map(|home| home.join(in_home))).map(|folder| folder.join("systemd/user"))
            };
            folders.push(folder("XDG_CONFIG_HOME", ".config").ok_or("the user has no home, and no XDG_CONFIG_HOME")?);
            folders.extend(folder("XDG_DATA_HOME", ".local/share"));
        }
        folders.extend(if self.is_user { &OF_USERS[..] } else { &OF_SYSTEM }.iter().map(PathBuf::from));
        Ok(folders.iter().map(|folder| self.in_root(folder)).collect())
    }

    /// Finds a service by its name, which [`service_name`] has completed.
    ///
    /// # Errors
    /// Names the folders in which it is missing, or what else stands against a drop-in.
    pub fn find(&self, name: &str) -> Result<Unit, String> {
        let name = name.to_owned();
        let folders = self.folders()?;
        // An instance has the file of its template.
        let template = name.split_once('@').map(|(before, _)| format!("{before}@.service"));
        let names = || [Some(&name), template.as_ref()].into_iter().flatten();
        let files = names().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        // A link may be one of the other root.
        let Some(file) = files.into_iter().find(|file| file.symlink_metadata().is_ok()) else {
            let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            return Err(format!("there is no {name}; looked in {}", folders.join(", ")));
        };
        if fs::read_link(&file).is_ok_and(|target| target == Path::new("/dev/null")) {
            return Err(format!("{name} is masked: {} is a link to /dev/null", file.display()));
        }
        let of_drop_ins = |folder: &PathBuf| folder.join(format!("{name}.d"));
        let drop_in = of_drop_ins(&folders[0]).join(drop_in::NAME);
        let others = folders.iter().flat_map(|folder| configurations(&of_drop_ins(folder)));
        let file = self.target(file);
        let program = program(&file).map(|program| self.in_root(&program));
        let others = others.filter(|other| *other != drop_in).chain([file]);
        if let Some(other) = others.into_iter().find(|file| sets_preload(file)) {
            return Err(format!(
                "{} sets LD_PRELOAD, which a drop-in would replace: add liblastuse.so to it there, before others",
                other.display()
            ));
        }
        Ok(Unit { name, drop_in, program })
    }

    /// Returns the file that a link of this root leads to.
    fn target(&self, file: PathBuf) -> PathBuf {
        match fs::read_link(&file) {
            Ok(target) if target.is_absolute() => self.in_root(&target),
            _ => file,
        }
    }
}

/// Returns the drop-ins in a folder.
fn configurations(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|file| file.extension().is_some_and(|ending| ending == "conf")).collect()
}

fn sets_preload(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::trim_start).any(|line| line.starts_with("Environment=") && line.contains("LD_PRELOAD="))
}

/// Returns the program that a unit starts: the first word of its last ExecStart=, after the signs that change how it is started.
fn program(file: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let command = text.lines().rev().find_map(|line| line.trim().strip_prefix("ExecStart="))?;
    let word = command.trim_start_matches(['@', '-', ':', '+', '!']).split_whitespace().next()?;
    Some(PathBuf::from(word.trim_matches('"'))).filter(|program| program.is_absolute())
}

/// Completes and checks a name, for an argument.
pub fn service_name(name: &str) -> Result<String, String> {
    const OTHERS: [&str; 10] =
        ["socket", "timer", "target", "path", "mount", "automount", "swap", "slice", "scope", "device"];
    let is_valid = |character: char| character.is_ascii_alphanumeric() || ":_.\\@-".contains(character);
    if name.is_empty() || !name.chars().all(is_valid) || name.starts_with('.') {
        return Err("not the name of a unit".to_owned());
    }
    match name.rsplit_once('.') {
        Some((_, "service")) => Ok(name.to_owned()),
        Some((stem, other)) if OTHERS.contains(&other) => {
            Err(format!("it runs no program: name the service, such as {stem}.service"))
        }
        _ => Ok(format!("{name}.service")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_and_checked() {
        assert_eq!(service_name("ollama").as_deref(), Ok("ollama.service"));
        assert_eq!(service_name("llama@8080.service").as_deref(), Ok("llama@8080.service"));
        assert_eq!(service_name("llama-3.1").as_deref(), Ok("llama-3.1.service"));
        for (name, why) in
            [("a/b", "not the name"), ("", "not the name"), ("..", "not the name"), ("a.timer", "a.service")]
        {
            assert!(service_name(name).is_err_and(|message| message.contains(why)), "{name}");
        }
    }
}
