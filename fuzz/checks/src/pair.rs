//! Files of a graph followed by a plan.

use lastuse_tool::formats::read_graph;
use lastuse_tool::formats::{PlanFile, check};
use lastuse_tool::report::{check_json, check_text};

/// The start of the line that is the plan; the lines before it are the graph.
const PLAN: &[u8] = b"{\"format\":\"lastuse-plan\"";

/// Checks a plan against a graph that need not be its own: both in one input, the graph first.
///
/// # Panics
/// When the check does, or when its two reports disagree.
pub fn pair(bytes: &[u8]) {
    let Some(start) = bytes.windows(PLAN.len()).position(|window| window == PLAN) else { return };
    let (graph, plan) = bytes.split_at(start);
    let (Ok(snapshot), Ok(plan)) = (read_graph(graph), PlanFile::read(plan)) else { return };
    let defects = check(&snapshot, &plan);
    let text = check_text(&snapshot, &plan, &defects);
    let json = check_json(&snapshot, &plan, &defects).expect("defects are plain data");
    assert_eq!(text.starts_with("OK"), defects.is_empty(), "{text}");
    assert_eq!(json.contains("\"ok\":true"), defects.is_empty(), "{json}");
}
