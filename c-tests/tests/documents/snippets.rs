//! Blocks of C in the pages compile: with the objects that a program has at that place.

use std::io::Write as _;
use std::process::{Command, Stdio};

use lastuse_vendor::{Language, Package};

use super::{Page, pages, repository};
use crate::support::{expect, ggml};

/// What blocks use without making it.
const OBJECTS: &str = "\
#include <stdint.h>
#include <stdio.h>
#include \"ggml-alloc.h\"
#include \"ggml-backend.h\"
#include \"ggml-cpu.h\"
#include \"ggml.h\"
#include \"lastuse.h\"
extern struct ggml_context * ctx;
extern struct ggml_cgraph * graph, * prompt, * single_token;
extern struct ggml_tensor * hidden, * scores, * node, * state, * input, ** weights;
extern ggml_gallocr_t galloc, target, draft;
extern ggml_backend_sched_t sched;
extern ggml_backend_t backend, gpu, cpu, * backends;
extern ggml_backend_buffer_type_t buft;
extern int n_backends, n_batches, n_weights;
extern bool op_offload;
extern size_t graph_size, free_bytes;
extern const void ** batches;
bool look(size_t step, void * user_data);
";

/// A block of C, and the line where it begins.
struct Block<'p> {
    line: usize,
    code: &'p str,
}

fn blocks(page: &Page) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = page.text[at..].find("```c\n").map(|start| at + start + 5) {
        let end = page.text[start..].find("```").map_or(page.text.len(), |end| start + end);
        found.push(Block { line: page.text[..start].lines().count() + 1, code: &page.text[start..end] });
        at = end;
    }
    found
}

/// Returns a block as C: statements in a function, or functions as they are.
fn source(name: &str, block: &Block<'_>) -> String {
    let Block { line, code } = block;
    let has_functions = code.starts_with("bool ");
    let [start, end] =
        if has_functions { ["", ""] } else { ["void statements(void);\nvoid statements(void) {\n", "}\n"] };
    format!("{OBJECTS}{start}#line {line} \"{name}\"\n{code}{end}")
}

#[test]
fn blocks_of_c_compile() {
    let flags = ggml(Package::LlamaCpp).include_flags();
    let mut count = 0;
    // Old programs in the internals have a test of their own.
    for page in pages().iter().filter(|page| page.name.starts_with("docs/") && !page.name.contains("/internals/")) {
        for block in blocks(page) {
            let mut command: Command = expect(lastuse_vendor::compiler(Language::C));
            command.args(&flags).arg("-I").arg(repository().join("include"));
            command.args(["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused"]);
            command.args(["-Wno-missing-field-initializers", "-x", "c", "-"]);
            let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a compiler");
            let text = source(&page.name, &block);
            child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("the compiler reads");
            let output = child.wait_with_output().expect("the compiler ends");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} blocks");
}
