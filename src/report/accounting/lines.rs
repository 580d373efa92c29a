//! An accounting as lines in the manner of PowerInfer's `LLAMA_OFFLOAD_DEBUG`: `"%s: %32s: %s"` with who logs it, the name
//! of a tensor and its class, here followed by shape, bytes, place and steps. Views and tensors of sparse FFNs have lines
//! too.

use std::fmt::Write;

use crate::offload::accounting::{AccountedTensor, Accounting};

use super::text::one_line;

/// Formats a line for each tensor, and how many there are.
pub fn accounting_lines(accounting: &Accounting) -> String {
    let mut text = String::new();
    let [mut owners, mut views] = [0, 0];
    for tensor in accounting.tensors() {
        let _ = writeln!(text, "lastuse: {:>32}: {}", one_line(&tensor.name), description(accounting, tensor));
        if tensor.is_owner() {
            owners += 1;
        } else {
            views += 1;
        }
    }
    let count = |is_counted: fn(&AccountedTensor) -> bool| accounting.tensors().filter(|it| is_counted(it)).count();
    let of = [count(AccountedTensor::is_owner), count(|_| true)];
    let _ = writeln!(text, "lastuse: non-view tensors processed: {owners}/{}", of[0]);
    let _ = writeln!(text, "lastuse: tensors processed: {}/{}", owners + views, of[1]);
    text
}

fn description(accounting: &Accounting, tensor: &AccountedTensor) -> String {
    let [columns, rows, third, fourth] = tensor.ne;
    let device = tensor.device.and_then(|device| accounting.devices.get(device));
    let place = match device {
        Some(device) if device.kind != "cpu" => format!("GPU ({})", device.name),
        _ => "CPU".to_owned(),
    };
    let group = group(&tensor.name).map_or_else(String::new, |group| format!(" {group}"));
    let mut text =
        format!("{place}{group} [{columns}, {rows}, {third}, {fourth}] {}, {} bytes", tensor.element, tensor.bytes);
    match (&tensor.buffer_type, tensor.location) {
        (Some(buffer_type), Some(location)) => {
            let _ = write!(text, " at {} of buffer {} ({buffer_type})", location.offset, location.buffer);
        }
        (Some(buffer_type), None) => _ = write!(text, " ({buffer_type})"),
        (None, _) => text.push_str(" in no buffer"),
    }
    if let Some(root) = &tensor.view_of {
        let _ = write!(text, ", view of {}", one_line(root));
    }
    if let Some(steps) = tensor.steps {
        let _ = write!(text, ", steps {}-{}", steps.first, steps.last);
    }
    if let Some(executes) = &tensor.executes {
        let _ = write!(text, ", {} on {executes}", tensor.op);
    }
    text
}

/// Returns PowerInfer's word for the group of intermediates that a name belongs to: keys and queries, values, tensors
/// outside of layers, embeddings.
fn group(name: &str) -> Option<&'static str> {
    let base = name.split([' ', '-', '#', '(']).next().unwrap_or(name);
    match base {
        "Vcur" | "v" => Some("V"),
        "inp_tokens" | "inp_embd" | "inp_norm" | "inp_norm_w" | "inp_norm_wb" => Some("NR"),
        "result_norm" | "result_output_no_bias" | "result_output_with_bias" => Some("EMB"),
        "wqkv" | "bqkv" | "wqkv_clamped" | "Qcur" | "Kcur" | "q" | "k" => Some("KQ"),
        _ if base.starts_with("kqv") || base.starts_with("kq_soft_max") => Some("V"),
        _ if base.starts_with("kq") => Some("KQ"),
        _ => None,
    }
}
