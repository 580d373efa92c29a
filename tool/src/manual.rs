//! `lastuse man` and `lastuse completions`: man pages, and completions of the command line for shells.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::foreign::unwritable;
use crate::output::print;
use crate::usage::Failure;

/// Print a man page, or write all of them.
///
/// There is a page for the tool, lastuse.1, and one for each command, such as lastuse-run.1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  lastuse man run | man -l -                        read one
  lastuse man -o ~/.local/share/man/man1            install them for one user
  sudo lastuse man -o /usr/local/share/man/man1     install them for all users

Exit codes: 0 printed or written, 1 a page cannot be written, 2 wrong usage.")]
pub struct ManPages {
    /// The command whose page is printed [default: the page of the tool]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,

    /// Write all pages to this folder, which is made if it is missing.
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
}

/// Prints a page, or writes all.
pub fn print_pages(arguments: &ManPages) -> Result<ExitCode, Failure> {
    let mut tool = crate::Arguments::command().disable_help_subcommand(true);
    tool.build();
    let text = match (&arguments.output, &arguments.command) {
        (Some(folder), _) => {
            write_all(&tool, folder).map_err(|why| format!("{}: cannot be written: {why}", folder.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        (None, Some(name)) => {
            let command = tool.find_subcommand(name).ok_or_else(|| {
                let names: Vec<&str> = tool.get_subcommands().map(Command::get_name).collect();
                Failure::usage(format!("there is no command {name:?}; the commands are {}", names.join(", ")))
            })?;
            page(command)?
        }
        (None, None) => page(&tool)?,
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn page(command: &Command) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    write_page(command, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn write_page(command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone()).source(concat!("lastuse ", env!("CARGO_PKG_VERSION"))).manual("lastuse");
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    let end = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    end.split("\n\n").try_for_each(|part| section(part).to_writer(out))
}

/// Makes a section of a paragraph behind the options: examples stay line by line, and exit codes are text.
fn section(part: &str) -> Roff {
    let mut roff = Roff::new();
    let lists = [("Examples:\n", "EXAMPLES"), ("Environment:\n", "ENVIRONMENT")];
    if let Some((list, title)) = lists.iter().find_map(|(start, title)| Some((part.strip_prefix(start)?, *title))) {
        roff.control("SH", [title]).control("nf", []);
        list.lines().for_each(|line| _ = roff.text([roman(line.trim_start())]));
        roff.control("fi", []);
    } else if let Some(codes) = part.strip_prefix("Exit codes: ") {
        roff.control("SH", ["EXIT STATUS"]).text([roman(codes)]);
    } else {
        roff.control("PP", []).text([roman(part)]);
    }
    roff
}

fn write_all(tool: &Command, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    for command in std::iter::once(tool).chain(tool.get_subcommands()) {
        let name = Man::new(command.clone()).get_filename();
        fs::write(folder.join(&name), page(command)?).map_err(|error| unwritable(&folder.join(name), &error))?;
    }
    Ok(())
}

/// Print completions for a shell.
///
/// Completes commands, options, their words, and files. Where a shell looks for them is up to its packages; these
/// folders are those that its documentation names.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  mkdir -p ~/.local/share/bash-completion/completions ~/.config/fish/completions
  lastuse completions bash > ~/.local/share/bash-completion/completions/lastuse
  lastuse completions fish > ~/.config/fish/completions/lastuse.fish
  lastuse completions zsh > /usr/local/share/zsh/site-functions/_lastuse

bash needs the package bash-completion. zsh takes them from any folder of $fpath, after \"autoload -U compinit; compinit\".

Exit codes: 0 printed, 2 wrong usage.")]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions.
pub fn print_completions(arguments: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut crate::Arguments::command(), "lastuse", &mut script);
    print(&script)?;
    Ok(ExitCode::SUCCESS)
}
