//! The enums of `lastuse_placement_*` as C passes them: any number.

use crate::devices::item::{ItemClass, ItemKind};
use crate::devices::planner::Order;
use crate::ggml::PlacementRule;

use super::placement::{lastuse_placement_order as order, lastuse_placement_rule as rule};
use super::placement_item::{lastuse_placement_class as class, lastuse_placement_kind as kind};

/// An `enum lastuse_placement_order`.
pub type PlacementOrderNumber = u32;
/// An `enum lastuse_placement_rule`.
pub type PlacementRuleNumber = u32;
/// An `enum lastuse_placement_kind`.
pub type PlacementKindNumber = u32;
/// An `enum lastuse_placement_class`.
pub type PlacementClassNumber = u32;

/// # Errors
/// A message: the number is none of the enum.
pub(super) fn order_of(number: PlacementOrderNumber) -> Result<Order, String> {
    let known = [
        (order::LASTUSE_PLACEMENT_BY_BENEFIT as u32, Order::Benefit),
        (order::LASTUSE_PLACEMENT_BY_CLASS as u32, Order::Classes),
        (order::LASTUSE_PLACEMENT_AS_GIVEN as u32, Order::Given),
    ];
    find("order", number, &known, "lastuse_placement_order")
}

/// # Errors
/// A message: the number is none of the enum.
pub(super) fn rule_of(number: PlacementRuleNumber) -> Result<PlacementRule, String> {
    let known = [
        (rule::LASTUSE_PLACEMENT_SCHEDULER as u32, PlacementRule::Scheduler),
        (rule::LASTUSE_PLACEMENT_ANY_OPERAND as u32, PlacementRule::AnyOperand),
        (rule::LASTUSE_PLACEMENT_POWERINFER as u32, PlacementRule::PowerInfer),
    ];
    find("rule", number, &known, "lastuse_placement_rule")
}

/// # Errors
/// A message: the number is none of the enum.
pub(super) fn kind_of(number: PlacementKindNumber) -> Result<ItemKind, String> {
    let known = [
        (kind::LASTUSE_PLACEMENT_WEIGHT as u32, ItemKind::Weight),
        (kind::LASTUSE_PLACEMENT_KV as u32, ItemKind::Cache),
    ];
    find("kind", number, &known, "lastuse_placement_kind")
}

/// Returns `None` for the class that follows from the name.
///
/// # Errors
/// A message: the number is none of the enum.
pub(super) fn class_of(number: PlacementClassNumber) -> Result<Option<ItemClass>, String> {
    let known = [
        (class::LASTUSE_PLACEMENT_CLASS_BY_NAME as u32, None),
        (class::LASTUSE_PLACEMENT_CLASS_ATTENTION as u32, Some(ItemClass::Attention)),
        (class::LASTUSE_PLACEMENT_CLASS_PREDICTOR as u32, Some(ItemClass::Predictor)),
        (class::LASTUSE_PLACEMENT_CLASS_FFN_NORM as u32, Some(ItemClass::FfnNorm)),
        (class::LASTUSE_PLACEMENT_CLASS_OUTPUT as u32, Some(ItemClass::Output)),
        (class::LASTUSE_PLACEMENT_CLASS_VALUE_CACHE as u32, Some(ItemClass::ValueCache)),
        (class::LASTUSE_PLACEMENT_CLASS_KEY_CACHE as u32, Some(ItemClass::KeyCache)),
        (class::LASTUSE_PLACEMENT_CLASS_FFN as u32, Some(ItemClass::Ffn)),
        (class::LASTUSE_PLACEMENT_CLASS_EMBEDDING as u32, Some(ItemClass::Embedding)),
        (class::LASTUSE_PLACEMENT_CLASS_OTHER as u32, Some(ItemClass::Other)),
    ];
    find("tensor_class", number, &known, "lastuse_placement_class")
}

fn find<T: Copy>(field: &str, number: u32, known: &[(u32, T)], name: &str) -> Result<T, String> {
    let found = known.iter().find(|(other, _)| *other == number).map(|&(_, value)| value);
    found.ok_or_else(|| format!("{field} is {number}, which is no enum {name}"))
}
