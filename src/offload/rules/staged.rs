//! Results that reside elsewhere than where they are computed.

use super::capabilities::Capabilities;
use super::draft::Draft;
use super::offload_error::OffloadError;
use super::scheduled_graph::Schedule;
use super::splits::{Questions, split};

/// Cuts the nodes of `draft` into splits after [`stage_results`].
pub fn split_with_staged<C: Capabilities>(
    mut draft: Draft<'_>,
    questions: Questions<'_, C>,
) -> Result<Schedule, OffloadError> {
    let executes = draft.executes.clone();
    stage_results(&mut draft);
    Ok(Schedule { executes, ..split(draft, questions)? })
}

/// Stages every node that does not reside where it runs: it is computed into memory of the backend that runs it, and
/// copied from there to where it resides. Views move nothing.
fn stage_results(draft: &mut Draft<'_>) {
    let nodes = std::mem::take(&mut draft.edit.nodes);
    let mut staged = Vec::with_capacity(nodes.len());
    for node in nodes {
        let (executes, resides) = (draft.executes[node as usize], draft.resides[node as usize]);
        if let (Some(executes), Some(resides)) = (executes, resides)
            && executes != resides
            && !draft.is_view_operation(node)
        {
            let computed = draft.stage(node, executes);
            staged.extend([computed, draft.add_marker(&[computed], executes)]);
            draft.executes[node as usize] = Some(resides);
        }
        staged.push(node);
    }
    draft.edit.nodes = staged;
}
