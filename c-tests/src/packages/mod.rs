//! lastuse as it is installed, and programs and projects that use it from there.
//!
//! - `prefix`: where it is installed for the tests
//! - `project`: a project that is built by CMake or another tool
//! - `served`: which allocator serves a program, and with how many bytes
//! - `cmake`, `examples`: projects that find an installed lastuse
//! - `inject`: projects that build a ggml, with lastuse inside

mod prefix;
mod project;
mod served;
mod cmake;
mod examples;
mod inject;

pub use cmake::{check_added_folder, check_conan_orders, check_orders};
pub use examples::{Tool, check_example};
pub use inject::{Form, InjectedBuild, check_ggml, check_unknown_layout};
pub use prefix::{Libraries, Prefix, installed_ggml, pkg_config_file, root as packages_folder};
pub use project::output_of;
pub use served::{ReportedRun, Served, ServedRun, check_served, printed_size, results, served, served_results};
