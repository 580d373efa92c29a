//! `lastuse completions`: completions of the command line for shells.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use super::print::print;

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

bash needs the package bash-completion. zsh takes them from any folder of $fpath, after \"autoload -U compinit; compinit\".")]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions.
pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut super::Arguments::command(), "lastuse", &mut script);
    print(&script)?;
    Ok(ExitCode::SUCCESS)
}
