//! The documentation of each function in the header.

/// The comment before a function, and its name.
#[derive(Debug)]
pub struct Page {
    /// The name of the function that follows.
    pub function: String,
    /// The code in the comment.
    pub example: Option<Example>,
}

/// Statements in C.
#[derive(Debug)]
pub struct Example {
    /// The line where they begin, from 1.
    pub line: usize,
    /// One statement or more.
    pub code: String,
}

impl Example {
    /// Returns whether it calls `function`, whose name may also be part of other names.
    pub fn calls(&self, function: &str) -> bool {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.code.match_indices(function).any(|(start, name)| {
            let before = self.code[..start].chars().next_back();
            let after = self.code[start + name.len()..].chars().next();
            !before.is_some_and(is_name) && after == Some('(')
        })
    }
}

/// The public functions that are lastuse's own.
pub fn functions() -> Vec<String> {
    let own = |name: &&str| name.starts_with("lastuse_") || *name == "ggml_dependency";
    include_str!("../../exports.txt").lines().filter(own).map(str::to_owned).collect()
}

/// The names by which a program calls `function`: its own, and those of the macros of the header that name it.
pub fn names(header: &str, function: &str) -> Vec<String> {
    let macros = header.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once('('));
    let naming = macros.filter(|(_, rest)| rest.contains(function)).map(|(name, _)| name);
    [function].into_iter().chain(naming).map(str::to_owned).collect()
}

/// The pages of all functions that a header declares.
pub fn pages(header: &str) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut comment: Vec<(usize, &str)> = Vec::new();
    for (line, text) in (1..).zip(header.lines()) {
        if let Some(text) = text.strip_prefix("//") {
            comment.push((line, text.strip_prefix(' ').unwrap_or(text)));
            continue;
        }
        if let Some(function) = declared(text) {
            pages.push(Page { function, example: example(&comment) });
        }
        comment.clear();
    }
    pages
}

/// The function whose declaration begins on this line. What only C++ sees has its linkage before it, and is not documented.
fn declared(line: &str) -> Option<String> {
    let before = line.split_once('(')?.0;
    let name = before.rsplit([' ', '*']).next()?;
    let is_function = before.len() > name.len() && (name.starts_with("lastuse_") || name.starts_with("ggml_"));
    (is_function && !line.starts_with([' ', '#']) && !line.starts_with("extern ")).then(|| name.to_owned())
}

/// The code between the fences of a text, whose lines are numbered; a second one is a mistake.
pub fn example(text: &[(usize, &str)]) -> Option<Example> {
    let fences: Vec<usize> = (0..text.len()).filter(|&i| text[i].1.starts_with("```")).collect();
    let &[start, end] = fences.as_slice() else {
        assert!(fences.is_empty(), "line {}: one example, with a fence at each end", text[fences[0]].0);
        return None;
    };
    assert_eq!(text[start].1, "```c", "line {}: the example is not marked as C", text[start].0);
    let code = text[start + 1..end].iter().map(|(_, line)| format!("    {line}\n")).collect();
    Some(Example { line: text[start].0 + 1, code })
}
