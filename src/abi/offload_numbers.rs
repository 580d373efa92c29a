//! The enums of `lastuse_offload_*` as C passes them: any number.

use crate::ggml::OffloadRule;
use crate::offload::item::{ItemClass, ItemKind};
use crate::offload::planner::Order;

use super::offload::{lastuse_offload_order as order, lastuse_offload_rule as rule};
use super::offload_item::{lastuse_offload_class as class, lastuse_offload_kind as kind};

/// An `enum lastuse_offload_order`.
pub type OffloadOrderNumber = u32;
/// An `enum lastuse_offload_rule`.
pub type OffloadRuleNumber = u32;
/// An `enum lastuse_offload_kind`.
pub type OffloadKindNumber = u32;
/// An `enum lastuse_offload_class`.
pub type OffloadClassNumber = u32;

/// # Errors
/// A message: the number is none of the enum.
pub(super) fn order_of(number: OffloadOrderNumber) -> Result<Order, String> {
    let known = [
        (order::LASTUSE_OFFLOAD_BY_BENEFIT as u32, Order::Benefit),
        (order::LASTUSE_OFFLOAD_BY_CLASS as u32, Order::Classes),
        (order::LASTUSE_OFFLOAD_AS_GIVEN as u32, Order::Given),
    ];
    find("order", number, &known, "lastuse_offload_order")
}

/// # Errors
/// A message: the number is none of the enum.
pub(super) fn rule_of(number: OffloadRuleNumber) -> Result<OffloadRule, String> {
    let known = [
        (rule::LASTUSE_OFFLOAD_SCHEDULER as u32, OffloadRule::Scheduler),
        (rule::LASTUSE_OFFLOAD_ANY_OPERAND as u32, OffloadRule::AnyOperand),
        (rule::LASTUSE_OFFLOAD_POWERINFER as u32, OffloadRule::PowerInfer),
    ];
    find("rule", number, &known, "lastuse_offload_rule")
}

/// # Errors
/// A message: the number is none of the enum.
pub(super) fn kind_of(number: OffloadKindNumber) -> Result<ItemKind, String> {
    let known =
        [(kind::LASTUSE_OFFLOAD_WEIGHT as u32, ItemKind::Weight), (kind::LASTUSE_OFFLOAD_KV as u32, ItemKind::Cache)];
    find("kind", number, &known, "lastuse_offload_kind")
}

/// Returns `None` for the class that follows from the name.
///
/// # Errors
/// A message: the number is none of the enum.
pub(super) fn class_of(number: OffloadClassNumber) -> Result<Option<ItemClass>, String> {
    let known = [
        (class::LASTUSE_OFFLOAD_CLASS_BY_NAME as u32, None),
        (class::LASTUSE_OFFLOAD_CLASS_ATTENTION as u32, Some(ItemClass::Attention)),
        (class::LASTUSE_OFFLOAD_CLASS_PREDICTOR as u32, Some(ItemClass::Predictor)),
        (class::LASTUSE_OFFLOAD_CLASS_FFN_NORM as u32, Some(ItemClass::FfnNorm)),
        (class::LASTUSE_OFFLOAD_CLASS_OUTPUT as u32, Some(ItemClass::Output)),
        (class::LASTUSE_OFFLOAD_CLASS_VALUE_CACHE as u32, Some(ItemClass::ValueCache)),
        (class::LASTUSE_OFFLOAD_CLASS_KEY_CACHE as u32, Some(ItemClass::KeyCache)),
        (class::LASTUSE_OFFLOAD_CLASS_FFN as u32, Some(ItemClass::Ffn)),
        (class::LASTUSE_OFFLOAD_CLASS_EMBEDDING as u32, Some(ItemClass::Embedding)),
        (class::LASTUSE_OFFLOAD_CLASS_OTHER as u32, Some(ItemClass::Other)),
    ];
    find("tensor_class", number, &known, "lastuse_offload_class")
}

fn find<T: Copy>(field: &str, number: u32, known: &[(u32, T)], name: &str) -> Result<T, String> {
    let found = known.iter().find(|(other, _)| *other == number).map(|&(_, value)| value);
    found.ok_or_else(|| format!("{field} is {number}, which is no enum {name}"))
}
