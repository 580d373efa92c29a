//! A ggml whose structs lastuse knows.

use std::ffi::CStr;

use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::original::Original;
use crate::ggml::live::operations::Operations;
use crate::ggml::log::{Level, is_heard, say};

/// A ggml whose structs lastuse knows.
#[derive(Debug)]
pub struct Runtime {
    /// Its functions.
    pub functions: Functions,
    /// Its operations.
    pub operations: Operations,
    version: String,
    /// Do `ggml_backend_tensor_alloc` and `ggml_backend_view_init` return a status? In old versions they return
    /// nothing; that they do is known only for those that can tell their version.
    pub returns_status: bool,
}

impl Runtime {
    /// Of a ggml of this version, whose structs are laid out as lastuse knows them.
    pub fn new(functions: Functions, original: Option<&Original>, version: &str) -> Self {
        let operations = Operations::new(functions, original.and_then(|it| it.op_can_inplace), number(version));
        let (version, returns_status) = (version.to_owned(), functions.ggml_version.is_some());
        Self { functions, operations, version, returns_status }
    }

    /// Says that something is done otherwise than was asked for: a line with its end.
    pub fn log_warning(&self, message: &str) {
        say(&self.functions, Level::Warn, message);
    }

    /// Says that something cannot be done.
    pub fn log_error(&self, message: &str) {
        say(&self.functions, Level::Error, message);
    }

    /// Says what only some want to read.
    pub fn log(&self, level: Level, message: impl FnOnce() -> String) {
        if self.is_heard(level) {
            say(&self.functions, level, &message());
        }
    }

    /// Will anybody hear of what is said so?
    pub fn is_heard(&self, level: Level) -> bool {
        is_heard(&self.functions, level)
    }
}

/// The version of ggml, as it says it itself.
pub fn version(functions: &Functions) -> String {
    match functions.ggml_version {
        Some(version) => {
            // SAFETY: takes nothing.
            let version = unsafe { version() };
            // SAFETY: one of ggml's constant strings.
            unsafe { text(version) }
        }
        None => "of an unknown version (before July 2025)".to_owned(),
    }
}

/// `major.minor.patch`, whatever follows.
fn number(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Copies a string of ggml; empty for null.
///
/// # Safety
/// `string` is null, or ends in NUL.
unsafe fn text(string: *const std::ffi::c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

impl Runtime {
    /// The version of ggml, as it says it itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The operation of a tensor for people: which of the unary ones it is, say.
    pub fn description(&self, tensor: crate::ggml::live::tensor::TensorRef<'_>) -> String {
        match self.functions.ggml_op_desc {
            Some(description) => {
                // SAFETY: takes a live tensor.
                let description = unsafe { description(tensor.as_ptr()) };
                // SAFETY: one of ggml's constant strings.
                unsafe { text(description) }
            }
            None => self.operations.name(tensor.op()).to_string_lossy().into_owned(),
        }
    }

    /// The name of the element type of a tensor, or its number.
    pub fn element_name(&self, tensor: crate::ggml::live::tensor::TensorRef<'_>) -> String {
        match self.functions.ggml_type_name {
            Some(name) => {
                // SAFETY: takes the number of a type, which a live tensor has.
                let name = unsafe { name(tensor.element()) };
                // SAFETY: one of ggml's constant strings.
                unsafe { text(name) }
            }
            None => tensor.element().to_string(),
        }
    }

    /// Bytes from the first to the last element.
    pub fn nbytes(&self, tensor: crate::ggml::live::tensor::TensorRef<'_>) -> u64 {
        // SAFETY: a live tensor.
        unsafe { (self.functions.ggml_nbytes)(tensor.as_ptr()) as u64 }
    }

    /// Does it lie without gaps, in the order of its elements?
    pub fn is_contiguous(&self, tensor: crate::ggml::live::tensor::TensorRef<'_>) -> bool {
        // SAFETY: a live tensor.
        unsafe { (self.functions.ggml_is_contiguous)(tensor.as_ptr()) }
    }

    /// Are its elements in blocks?
    pub fn is_quantized(&self, tensor: crate::ggml::live::tensor::TensorRef<'_>) -> bool {
        // SAFETY: takes the number of a type, which a live tensor has.
        unsafe { (self.functions.ggml_is_quantized)(tensor.element()) }
    }
}
