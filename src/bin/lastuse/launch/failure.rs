//! Why a program was not started.

/// lastuse itself failed. These exit codes are those of `env`, `nohup` and `timeout`.
pub const FAILED: u8 = 125;

/// The program cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;

/// The program does not exist.
pub const NOT_FOUND: u8 = 127;

/// Why a program was not started.
pub struct NotStarted {
    /// The exit code.
    pub code: u8,
    /// The problem, and the remedy.
    pub message: String,
}

impl NotStarted {
    /// lastuse itself failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }
}
