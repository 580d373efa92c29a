//! What C programs see of lastuse: the header, the symbols, the declarations that it shares with ggml, and how mistakes
//! end.

mod aborts;
mod declarations;
mod header;
mod last_error;
mod llama_style_api;
mod node;
mod python;
#[path = "../support/mod.rs"]
mod support;
mod symbols;
mod versions;
