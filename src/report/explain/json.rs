//! Explanations as JSON: the format "lastuse-explanation", version 1.

use serde::Serialize;

use super::explanation::Explanation;

#[derive(Serialize)]
struct ExplanationDocument<'a> {
    format: &'static str,
    version: u64,
    #[serde(flatten)]
    explanation: &'a Explanation,
}

/// Serializes an explanation as one line of JSON; sizes in bytes, steps counted from 0.
///
/// # Errors
/// None is known: the data is plain.
pub fn explanation_json(explanation: &Explanation) -> serde_json::Result<String> {
    serde_json::to_string(&ExplanationDocument { format: "lastuse-explanation", version: 1, explanation })
}
