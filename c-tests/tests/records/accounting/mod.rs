//! The memory of devices, for whole programs: `lastuse run --accounting`, `lastuse accounting`, `LASTUSE_ACCOUNTING`, the schema of the files.

mod schema;
mod environment;
mod tool;
