//! The overlay for Nix: parsed, and evaluated without nixpkgs.

use lastuse_c_tests::packages::{output_of, packages_folder};
use lastuse_c_tests::{Result, folder};
use serde_json::{Value, json};

use crate::recipes::Recipe;
use crate::release::expected;

/// Below the prefix of lastuse.
const INJECT: &str = "lib/cmake/lastuse/lastuse-inject.cmake";

/// Parses the files and evaluates the overlay, which must add the flag to the packages that it overrides; CMake must know
/// the flags of lastuse.
///
/// # Errors
/// What does not hold, or the message of Nix or CMake.
pub fn test() -> Result<()> {
    let recipe = Recipe::copied("nix")?;
    for file in ["overlay.nix", "package.nix"] {
        instantiate(&recipe, &["--parse", file])?;
        println!("nix: {file} is parsed");
    }
    // The package takes the sources that its files are a part of.
    let overlay = recipe.sources.join("packaging/nix/overlay.nix").display().to_string();
    let evaluate = folder().join("packages/nix/evaluate.nix").display().to_string();
    let text = instantiate(&recipe, &["--eval", "--strict", "--json", "--arg", "overlay", &overlay, &evaluate])?;
    // Warnings come behind it.
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let line = line.rsplit_once('}').map_or(line.to_owned(), |(json, _)| format!("{json}}}"));
    let found: Value = serde_json::from_str(&line).map_err(|error| format!("{error}: {text}"))?;
    check(&found)?;
    println!("nix: lastuse is {}, and llama-cpp gets {}", found["version"], found["llama"]);
    check_flags(&recipe, &found["cmakeFlags"])
}

/// Runs nix-instantiate without a store.
fn instantiate(recipe: &Recipe, arguments: &[&str]) -> Result<String> {
    let mut command = recipe.command(&["nix-instantiate", "--store", "dummy://"]);
    command.args(arguments);
    for (variable, name) in [("NIX_STORE_DIR", "store"), ("NIX_STATE_DIR", "state"), ("NIX_LOG_DIR", "log")] {
        command.env(variable, packages_folder().join("recipes/nix-store").join(name));
    }
    output_of(command)
}

fn check(found: &Value) -> Result<()> {
    let flag = format!("-DCMAKE_PROJECT_INCLUDE=/lastuse/{INJECT}");
    let has_sources = found["sources"].as_array().is_some_and(|names| names.contains(&json!("CMakeLists.txt")));
    let is_right = found["version"] == env!("CARGO_PKG_VERSION")
        && found["llama"] == json!(["-DOTHER=ON", flag])
        && found["whisper"] == json!([flag])
        && has_sources
        && found["packages"].as_u64() > Some(0)
        && expected(&[]).iter().any(|name| name == INJECT);
    is_right.then_some(()).ok_or_else(|| format!("the overlay is evaluated to {found}"))
}

/// Has CMake configure lastuse with the flags, all of which it must use.
fn check_flags(recipe: &Recipe, flags: &Value) -> Result<()> {
    let flags: Vec<&str> = flags.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut configure = recipe.command(&["cmake", "-B", "build", "-S"]);
    configure.arg(&recipe.sources).args(&flags);
    let text = output_of(configure)?;
    if flags.is_empty() || text.contains("not used by the project") {
        return Err(format!("CMake does not know all of {flags:?}:\n{text}"));
    }
    println!("nix: CMake knows {}", flags.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_other_packages_stay() {
        let flag = format!("-DCMAKE_PROJECT_INCLUDE=/lastuse/{INJECT}");
        let found = |llama: Value| {
            let version = env!("CARGO_PKG_VERSION");
            json!({"version": version, "llama": llama, "whisper": [flag], "sources": ["CMakeLists.txt"], "packages": 3})
        };
        assert_eq!(check(&found(json!(["-DOTHER=ON", flag]))), Ok(()));
        assert!(check(&found(json!([flag]))).is_err_and(|message| message.contains("evaluated")));
    }
}
