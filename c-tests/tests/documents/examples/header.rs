//! What the header declares, and the examples in C.

/// The documentation of a function in the header.
#[derive(Debug)]
pub struct Page {
    /// The name of the function.
    pub function: String,
    /// The lines of the comment before it.
    pub comment_lines: usize,
}

/// A function of C, `example_of_NAME`, or the statements of one.
#[derive(Debug)]
pub struct Example {
    /// What it is an example of.
    pub name: String,
    /// Statements.
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
    include_str!("../../../exports.txt").lines().filter(own).map(str::to_owned).collect()
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
    let mut comment_lines = 0;
    for line in header.lines() {
        if line.starts_with("//") {
            comment_lines += 1;
            continue;
        }
        pages.extend(declared(line).map(|function| Page { function, comment_lines }));
        comment_lines = 0;
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

/// The functions `example_of_NAME` of a C file.
pub fn examples(text: &str) -> Vec<Example> {
    let functions = text.split("\nvoid example_of_").skip(1);
    let example = |text: &str| {
        let (name, rest) = text.split_once('(').expect("a function has parameters");
        let (_, body) = rest.split_once("{\n").unwrap_or_else(|| panic!("{name} has no body"));
        let (code, _) = body.split_once("\n}").unwrap_or_else(|| panic!("{name} has no end"));
        Example { name: name.to_owned(), code: code.to_owned() }
    };
    functions.map(example).collect()
}

/// The C code in a page of Markdown, and the line where it begins, from 1.
pub fn quoted(page: &str) -> (usize, &str) {
    let (before, rest) = page.split_once("```c\n").expect("the page has an example");
    let (code, after) = rest.split_once("```\n").expect("the example ends");
    assert!(!after.contains("```c\n"), "the page has one example");
    (before.lines().count() + 2, code)
}
