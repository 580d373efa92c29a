//! Links of the pages lead somewhere, on GitHub and in the book that mdBook makes of `docs`.

use std::path::{Component, Path, PathBuf};

use super::{Page, matching, page, pages, repository};

/// Pages besides those that quote the tool.
const OTHERS: [&str; 5] =
    ["SECURITY.md", "CHANGELOG.md", "docs/SUMMARY.md", "fuzz/README.md", "c-tests/graphs/README.md"];

fn all_pages() -> Vec<Page> {
    let others = OTHERS.iter().flat_map(|name| matching(name)).map(|name| page(&name));
    pages().into_iter().filter(|page| !OTHERS.contains(&page.name.as_str())).chain(others).collect()
}

/// Returns the lines of a page that are text: outside of blocks of code.
fn lines_of_text(page: &Page) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    page.text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence && !line.starts_with("    ")
    })
}

/// Returns a text without what is between backquotes.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Returns the targets of the links and pictures of a page.
fn targets(page: &Page) -> Vec<String> {
    let text = without_code(&lines_of_text(page).collect::<Vec<_>>().join("\n"));
    let ends = [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')];
    let found = ends.iter().flat_map(|&(start, end)| {
        text.split(start).skip(1).filter_map(move |rest| rest.split(end).next()).map(str::to_owned)
    });
    found.filter(|target| !target.contains("://")).collect()
}

/// Returns the name that GitHub and mdBook give to a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || ['_', '-', ' '].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn has_anchor(page: &Page, name: &str) -> bool {
    lines_of_text(page).filter(|line| line.starts_with('#')).any(|line| anchor(&without_links(line)) == name)
}

/// Returns a heading with the text of its links alone.
fn without_links(line: &str) -> String {
    let parts = line.split("](").map(|part| part.rsplit_once(')').map_or(part, |(_, rest)| rest));
    parts.collect::<String>().replace('[', "")
}

/// Returns the path in the repository that a target of a page names.
fn resolved(page: &Page, target: &str) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(&page.name).parent().expect("a file").join(target).components() {
        match part {
            Component::ParentDir => assert!(path.pop(), "{}: {target} is outside of the repository", page.name),
            part => path.push(part),
        }
    }
    path.to_string_lossy().into_owned()
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut count = 0;
    for from in all_pages() {
        for target in targets(&from) {
            let (path, heading) = target.split_once('#').unwrap_or((&target, ""));
            let path = if path.is_empty() { from.name.clone() } else { resolved(&from, path) };
            assert!(repository().join(&path).exists(), "{}: {target} leads nowhere", from.name);
            let is_found = heading.is_empty() || (path.ends_with(".md") && has_anchor(&page(&path), heading));
            assert!(is_found, "{}: {path} has no heading #{heading}", from.name);
            count += 1;
        }
    }
    assert!(count > 250, "only {count} links");
}

/// The book has no files from outside of `docs`. In a checkout it is in the folder `book` next to it, where links to
/// sources lead to them, but mdBook makes `.html` of each `.md`.
#[test]
fn pages_of_the_book_link_to_what_it_has() {
    for from in all_pages().iter().filter(|page| page.name.starts_with("docs/")) {
        for target in targets(from) {
            let path = resolved(from, target.split('#').next().unwrap_or_default());
            let is_inside = path.starts_with("docs/") || target.starts_with('#');
            let is_source = from.name.starts_with("docs/internals/") && !path.ends_with(".md");
            assert!(is_inside || is_source, "{}: {target} is not in the book", from.name);
        }
    }
    let configuration = page("book.toml").text;
    assert!(configuration.contains("src = \"docs\"") && configuration.contains("build-dir = \"book\""));
}

#[test]
fn every_page_is_in_the_summary_by_its_title() {
    let summary = page("docs/SUMMARY.md");
    let entries: Vec<(&str, &str)> = summary
        .text
        .lines()
        .filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix('['))
        .filter_map(|entry| entry.split_once("](")?.1.split_once(')').map(|(path, _)| (entry, path)))
        .map(|(entry, path)| (entry.split_once("](").map_or(entry, |(title, _)| title), path))
        .collect();
    let listed = |name: &str| entries.iter().filter(|(_, path)| format!("docs/{path}") == name).count();
    let names = [matching("docs/*.md"), matching("docs/internals/*.md")].concat();
    for name in names.iter().filter(|name| !name.ends_with("/SUMMARY.md")) {
        assert_eq!(listed(name), 1, "docs/SUMMARY.md should have {name} once");
    }
    for (title, path) in entries {
        let text = page(&format!("docs/{path}")).text;
        assert_eq!(text.lines().next(), Some(&*format!("# {title}")), "docs/{path}");
    }
}

#[test]
fn anchors_are_those_of_headings() {
    assert_eq!(anchor("### What `lastuse offload` promises"), "what-lastuse-offload-promises");
    assert_eq!(anchor("## Can it be preloaded?"), "can-it-be-preloaded");
    assert_eq!(without_links("## See [the page](a.md), too"), "## See the page, too");
    let text = "a [link](a.md) and `[code](b.md)`\n\n    [block](c.md)\n\n<img src=\"d.png\">\n".to_owned();
    let page = Page { name: "docs/x.md".to_owned(), text };
    assert_eq!(targets(&page), ["a.md", "d.png"]);
}
