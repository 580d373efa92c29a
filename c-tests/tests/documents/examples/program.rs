//! A program of all examples, each of which gets a new context and a backend.

use std::path::PathBuf;

use lastuse_c_tests::{Linked, Program, Result};
use lastuse_vendor::{Ggml, Language, target_folder};

use super::header::{examples, quoted};

const API_PAGE: &str = include_str!("../../../../docs/api.md");

/// What the example of docs/api.md and `RUN` use.
const START: &str = "\
#include <stdio.h>

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

/// Compiles the examples of `files` and that of docs/api.md in a language; warnings are errors.
pub fn build(
    name: &str,
    language: Language,
    files: &[(PathBuf, String)],
    ggml: &Ggml,
    linked: Linked<'_>,
) -> Result<Program> {
    let source = write(name, language, &text(files))?;
    let source = source.to_str().ok_or("the path is not UTF-8")?;
    // Structs are initialized as `{ sizeof(report) }`, and not every example uses both a context and a backend.
    let flags = ["-pedantic", "-Wno-missing-field-initializers", "-Wno-unused-parameter"];
    Program::build(name, &[source], ggml, linked, &flags)
}

fn text(files: &[(PathBuf, String)]) -> String {
    let pasted: String = files.iter().map(|(path, text)| format!("#line 1 \"{}\"\n{text}", path.display())).collect();
    let (line, code) = quoted(API_PAGE);
    let api = format!(
        "\nstatic void example_of_api(struct ggml_context * ctx, ggml_backend_t backend) {{\n#line {line} \"docs/api.md\"\n\
         {code}}}\n"
    );
    let names = files.iter().flat_map(|(_, text)| examples(text)).map(|example| example.name).chain(["api".to_owned()]);
    let calls: String = names.map(|name| format!("    run(\"{name}\", example_of_{name});\n")).collect();
    format!("{pasted}\n{START}{api}{RUN}\nint main(void) {{\n{calls}    return 0;\n}}\n")
}

fn write(name: &str, language: Language, text: &str) -> Result<PathBuf> {
    let extension = if language == Language::C { "c" } else { "cpp" };
    let folder = target_folder().join("c-tests");
    let path = folder.join(format!("{name}.{extension}"));
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
