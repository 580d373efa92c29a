//! The memory of devices, for people: tables, a page, and lines as PowerInfer logs them.
//!
//! - `text`: tables
//! - `lines`: a line for each tensor
//! - `html`: a part of a page, and a page

mod text;
mod lines;
mod html;
#[cfg(test)]
mod tests;

use crate::formats::accounting_json;
use crate::offload::accounting::Accounting;

pub use html::{accounting_part, accounting_style};
pub use text::accounting_summary;
#[cfg(feature = "cli")]
pub use text::devices_in_mib;

/// A form of an accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountingFormat {
    /// Tables of devices, buffers and tensors.
    Text,
    /// JSON, "lastuse-accounting".
    Json,
    /// A page.
    Html,
    /// A line for each tensor, in the manner of PowerInfer's `LLAMA_OFFLOAD_DEBUG`.
    Lines,
}

impl AccountingFormat {
    /// All forms.
    pub const ALL: [Self; 4] = [Self::Text, Self::Json, Self::Html, Self::Lines];

    /// Returns the word for it, which is also the ending of its files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Json => "json",
            Self::Html => "html",
            Self::Lines => "log",
        }
    }

    /// Returns the form with this word, in any case.
    pub fn with_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.word().eq_ignore_ascii_case(word))
    }

    /// Returns an accounting in this form. It ends in a line break.
    pub fn format(self, accounting: &Accounting) -> String {
        match self {
            Self::Text => text::accounting_text(accounting),
            Self::Json => accounting_json(accounting) + "\n",
            Self::Html => html::accounting_page(accounting),
            Self::Lines => lines::accounting_lines(accounting),
        }
    }
}
