//! The order of the parts of `src`: each `mod.rs` lists its parts in the order of use, and no part uses a later one. The layers
//! are the parts of `lib.rs`. What counts are the `use` declarations of all files but tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module: the names that lead to it.
type Module = Vec<String>;

/// The files of `src` that are not tests, by module.
fn modules() -> BTreeMap<Module, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("src");
    let mut folders: Vec<PathBuf> = vec![root.clone()];
    let mut modules = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources are there") {
            let path = entry.expect("the folder can be read").path();
            let relative = path.strip_prefix(&root).expect("below the root").with_extension("");
            let mut module: Module = relative.iter().map(|name| name.to_str().expect("UTF-8").to_owned()).collect();
            if module.iter().any(|name| ["tests", "testing"].contains(&name.as_str())) || module[0] == "bin" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                module.pop_if(|name| ["mod", "lib"].contains(&name.as_str()));
                let text = fs::read_to_string(&path).expect("it can be read");
                let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                modules.insert(module, code.to_owned());
            }
        }
    }
    modules
}

/// The declarations that begin with `keyword`, private or not, without it and without the semicolon.
fn declarations<'a>(code: &'a str, keyword: &str) -> Vec<&'a str> {
    let declares = |line: &str| {
        let line = line.trim_start();
        let visible = line
            .strip_prefix("pub")
            .map_or(line, |rest| rest.trim_start_matches("(crate)").trim_start_matches("(super)"));
        visible.trim_start().starts_with(keyword)
    };
    let mut found = Vec::new();
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        if declares(line) {
            let rest = &code[start..];
            let from = rest.find(keyword).map_or(0, |at| at + keyword.len());
            found.extend(rest[from..].split_once(';').map(|(declaration, _)| declaration));
        }
        start += line.len();
    }
    found
}

/// The paths of a `use` declaration, each as its names: `a::{b, c::d}` has two.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let Some((prefix, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()];
    };
    let prefix = paths(prefix).concat();
    let group = group.trim_end().strip_suffix('}').expect("a group ends");
    let mut depth = 0_usize;
    let members = group.split(|letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    let members = members.filter(|member| !member.trim().is_empty()).flat_map(paths);
    members.map(|member| [prefix.clone(), member].concat()).collect()
}

/// The module or item that a path in `module` names; `None` for those of other crates and of the module itself.
fn resolved(module: &Module, path: &[String]) -> Option<Module> {
    let supers = path.iter().take_while(|name| *name == "super").count();
    let base = match path.first()?.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "super" => &module[..module.len().checked_sub(supers)?],
        _ => return None,
    };
    Some([base, &path[supers..]].concat())
}

/// Uses of a later part: the module that lists both, the part and the later one.
fn later_uses() -> BTreeSet<(String, String, String)> {
    let modules = modules();
    let order = |module: &[String]| -> Vec<String> {
        let code = modules.get(module).map_or("", String::as_str);
        declarations(code, "mod ").into_iter().filter(|name| !name.contains('{')).map(str::to_owned).collect()
    };
    let mut found = BTreeSet::new();
    for (module, code) in &modules {
        let used = declarations(code, "use ").into_iter().flat_map(paths);
        for used in used.filter_map(|path| resolved(module, &path)) {
            let shared = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            let (Some(part), Some(other)) = (module.get(shared), used.get(shared)) else { continue };
            let order = order(&module[..shared]);
            let position = |name: &String| order.iter().position(|listed| listed == name);
            if position(part).zip(position(other)).is_some_and(|(part, other)| other > part) {
                found.insert((module[..shared].join("/"), part.clone(), other.clone()));
            }
        }
    }
    found
}

#[test]
fn no_part_uses_a_later_one() {
    let found = later_uses();
    assert!(found.is_empty(), "uses of a later part (folder, part, later part): {found:?}");
}

#[test]
fn declarations_and_paths_are_read() {
    let code = "use a::{b, c::{d as e, f}};\npub(crate) use super::g;\nmod h;\n#[cfg(test)]\nmod tests;\n";
    let names = |tree: &&str| paths(tree).iter().map(|path| path.join("::")).collect::<Vec<_>>().join(" ");
    let used: Vec<String> = declarations(code, "use ").iter().map(names).collect();
    assert_eq!(used, ["a::b a::c::d a::c::f", "super::g"]);
    assert_eq!(declarations(code, "mod "), ["h", "tests"]);
    let module = ["x", "y"].map(str::to_owned).to_vec();
    assert_eq!(resolved(&module, &["super".to_owned(), "g".to_owned()]), Some(vec!["x".to_owned(), "g".to_owned()]));
    assert!(modules().len() > 300, "the sources were not found");
}

/// What is different on another system is in one place, where nothing of it can be missed.
#[test]
fn only_the_platform_depends_on_the_system() {
    const SYSTEM: [&str; 7] =
        ["target_os", "target_arch", "cfg(unix)", "cfg(windows)", "std::os::", "global_asm!", "link_section"];
    let platform = ["ggml", "platform"].map(str::to_owned);
    let depends = |code: &str| SYSTEM.iter().any(|word| code.contains(word));
    let (inside, outside): (Vec<_>, Vec<_>) = modules()
        .into_iter()
        .filter(|(_, code)| depends(code))
        .map(|(module, _)| module)
        .partition(|module| module.starts_with(&platform));
    assert_eq!(outside, Vec::<Module>::new());
    assert!(!inside.is_empty(), "the platform was not found");
}

/// A file that nothing declares is not compiled, and the tests in it are not run.
#[test]
fn every_file_is_declared_as_a_module() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("c-tests is a folder of the repository");
    let mut folders = ["src", "tool/src", "neurons/src", "guard/src", "measure/src", "vendor/src"]
        .map(|folder| top.join(folder))
        .to_vec();
    let roots = folders.clone();
    let mut undeclared = Vec::new();
    while let Some(folder) = folders.pop() {
        let declaring =
            ["mod.rs", "lib.rs", "main.rs"].map(|file| fs::read_to_string(folder.join(file)).unwrap_or_default());
        let beside = fs::read_to_string(folder.with_extension("rs")).unwrap_or_default();
        let declared = [declaring.concat(), beside].concat();
        for entry in fs::read_dir(&folder).expect("the sources are there") {
            let path = entry.expect("the folder can be read").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
            let is_code = path.is_dir() || path.extension().is_some_and(|extension| extension == "rs");
            let is_root = ["mod", "lib", "main"].contains(&name.as_str()) && !path.is_dir();
            let is_known = declared.lines().any(|line| line.trim_end().ends_with(&format!("mod {name};")));
            if is_code && !is_root && !is_known && (!path.is_dir() || has_code(&path)) {
                undeclared.push(path.strip_prefix(top).expect("below the top").to_owned());
            }
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    assert!(roots.iter().all(|root| root.is_dir()), "{roots:?}");
    assert_eq!(undeclared, Vec::<PathBuf>::new());
}

fn has_code(folder: &Path) -> bool {
    let mut entries =
        fs::read_dir(folder).expect("the sources are there").map(|entry| entry.expect("it can be read").path());
    entries.any(|path| path.extension().is_some_and(|extension| extension == "rs"))
}
