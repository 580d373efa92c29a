//! The memory of devices, for whole programs: `lastuse run --report`, `LASTUSE_ACCOUNTING`, the schema of the files.

mod schema;
mod environment;
mod tool;
