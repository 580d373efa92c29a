//! A ggml whose struct layout the probe has confirmed.

use std::ffi::CStr;

use crate::ggml::linking::functions::Functions;
use crate::ggml::linking::original::Original;
use crate::ggml::live::operations::Operations;
use crate::ggml::live::probe::GraphLayout;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::log::{is_log_enabled, log_message};
use crate::settings::Level;

/// A ggml whose struct layout the probe has confirmed.
#[derive(Debug)]
pub struct Runtime {
    /// The functions of this ggml.
    pub functions: Functions,
    /// The operations of this ggml.
    pub operations: Operations,
    /// Where its graphs have what differs between versions.
    pub graph_layout: GraphLayout,
    version: String,
    /// Major, minor and patch, if the version has them.
    pub number: Option<[u32; 3]>,
    /// True if `ggml_backend_tensor_alloc` and `ggml_backend_view_init` are known to return a status. In old versions,
    /// which lack `ggml_version`, they return nothing.
    pub returns_status: bool,
}

impl Runtime {
    /// Creates the value for a ggml of this version in which the probe has found `graph_layout`.
    pub fn new(functions: Functions, original: Option<&Original>, version: &str, graph_layout: GraphLayout) -> Self {
        let number = number(version);
        let operations = Operations::new(functions, original.and_then(|it| it.op_can_inplace), number);
        let (version, returns_status) = (version.to_owned(), functions.ggml_version.is_some());
        Self { functions, operations, graph_layout, version, number, returns_status }
    }

    /// Logs that a request is not followed exactly. `message` is a line including its newline.
    pub fn log_warning(&self, message: &str) {
        log_message(&self.functions, Level::Warn, message);
    }

    /// Logs that something cannot be done. `message` is a line including its newline.
    pub fn log_error(&self, message: &str) {
        log_message(&self.functions, Level::Error, message);
    }

    /// Logs the line that `message` returns, which is called only if the level is enabled.
    pub fn log(&self, level: Level, message: impl FnOnce() -> String) {
        if self.is_log_enabled(level) {
            log_message(&self.functions, level, &message());
        }
    }

    /// Returns `true` if messages of this level are written anywhere.
    pub fn is_log_enabled(&self, level: Level) -> bool {
        is_log_enabled(&self.functions, level)
    }

    /// Returns the version that a ggml reports.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the operation of a tensor as shown to users, for example with the name of a unary one.
    pub fn description(&self, tensor: TensorRef<'_>) -> String {
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

    /// Returns the name of the element type of a tensor, or its number.
    pub fn element_name(&self, tensor: TensorRef<'_>) -> String {
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

    /// Returns the bytes from the first to the last element.
    pub fn nbytes(&self, tensor: TensorRef<'_>) -> u64 {
        // SAFETY: a live tensor.
        unsafe { (self.functions.ggml_nbytes)(tensor.as_ptr()) as u64 }
    }

    /// Returns `true` if the elements lie in order and without gaps.
    pub fn is_contiguous(&self, tensor: TensorRef<'_>) -> bool {
        // SAFETY: a live tensor.
        unsafe { (self.functions.ggml_is_contiguous)(tensor.as_ptr()) }
    }

    /// Returns `true` if the element type is quantized: blocks of elements.
    pub fn is_quantized(&self, tensor: TensorRef<'_>) -> bool {
        // SAFETY: takes the number of a type, which a live tensor has.
        unsafe { (self.functions.ggml_is_quantized)(tensor.element()) }
    }
}

/// Returns the version that a ggml reports.
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

/// Parses `major.minor.patch`; the rest is ignored.
fn number(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// Copies a string of ggml. Null gives an empty one.
///
/// # Safety
/// `string` is null, or ends in NUL.
pub unsafe fn text(string: *const std::ffi::c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null, so it ends in NUL, as the caller guarantees.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
