//! A program of examples: a function each, with a context and a backend of its own.

use std::path::PathBuf;

use lastuse_c_tests::{Linked, Program, Result};
use lastuse_vendor::{Ggml, Language, target_folder};

use super::header::{Example, Page};

/// What the examples may use without saying so.
const START: &str = "\
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include \"ggml-alloc.h\"
#include \"ggml-backend.h\"
#include \"ggml-cpu.h\"
#include \"ggml.h\"
#include \"lastuse.h\"
";

/// Runs one example and prints its name.
const RUN: &str = "
static void run(const char * name, void (*example)(struct ggml_context * ctx, ggml_backend_t backend)) {
    struct ggml_init_params params;
    params.mem_size = 16 * 1024 * 1024;
    params.mem_buffer = NULL;
    params.no_alloc = false;
    struct ggml_context * ctx = ggml_init(params);
    ggml_backend_t backend = ggml_backend_cpu_init();
    printf(\"example of %s\\n\", name);
    example(ctx, backend);
    ggml_backend_free(backend);
    ggml_free(ctx);
}
";

/// Compiles the examples of `pages` in a language; warnings are errors.
pub fn build(name: &str, language: Language, pages: &[Page], ggml: &Ggml, linked: Linked<'_>) -> Result<Program> {
    let source = write(name, language, &text(pages))?;
    let source = source.to_str().ok_or("the path is not UTF-8")?;
    // Structs are initialized as `{ sizeof(report) }`.
    let flags = ["-pedantic", "-Wno-missing-field-initializers"];
    Program::build(name, &[source], ggml, linked, &flags)
}

fn text(pages: &[Page]) -> String {
    let examples: Vec<(&str, &Example)> =
        pages.iter().filter_map(|page| Some((page.function.as_str(), page.example.as_ref()?))).collect();
    let functions = examples.iter().map(|(name, Example { line, code })| {
        let file = if *name == "api" { "docs/api.md" } else { "include/lastuse.h" };
        format!(
            "\nstatic void example_of_{name}(struct ggml_context * ctx, ggml_backend_t backend) {{\n    (void) ctx;\n    \
             (void) backend;\n#line {line} \"{file}\"\n{code}}}\n"
        )
    });
    let calls = examples.iter().map(|(name, _)| format!("    run(\"{name}\", example_of_{name});\n"));
    let (functions, calls): (String, String) = (functions.collect(), calls.collect());
    format!("{START}{functions}{RUN}\nint main(void) {{\n{calls}    return 0;\n}}\n")
}

fn write(name: &str, language: Language, text: &str) -> Result<PathBuf> {
    let extension = if language == Language::C { "c" } else { "cpp" };
    let folder = target_folder().join("c-tests");
    let path = folder.join(format!("{name}.{extension}"));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
