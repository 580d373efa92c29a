//! Which operations the kernels of real ggml compute rightly in the memory of a source, for both versions of ggml.

mod support;

/// A module a version; in it one test a case.
macro_rules! kernels {
    ($name:ident, $package:ident: $($case:ident),* $(,)?) => {
        mod $name {
            use std::sync::OnceLock;

            use lastuse_c_tests::{Linked, Program};
            use lastuse_vendor::Package;

            use super::support;

            fn program() -> &'static Program {
                static PROGRAM: OnceLock<Program> = OnceLock::new();
                PROGRAM.get_or_init(|| {
                    let sources = support::sources("in_place_kernels", &["in_place"]);
                    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
                    let name = concat!("in_place_kernels-", stringify!($name));
                    let ggml = support::ggml(Package::$package);
                    support::expect(Program::build(name, &sources, &ggml, Linked::Ggml, &[]))
                })
            }

            $(
                #[test]
                fn $case() {
                    support::passes(program(), &[stringify!($case)]);
                }
            )*
        }
    };
}

kernels!(ggml_0_26, LlamaCpp: elementwise, binary, rows, gates, copies, backward, parts, breaking);
kernels!(ggml_0_9_5, WhisperCpp: elementwise, binary, rows, gates, copies, backward, parts, breaking);
