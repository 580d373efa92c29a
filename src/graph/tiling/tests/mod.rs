//! Tile graphs, hand-made and random: their values, their plans, and their budgets.

mod budgets;
mod case;
mod edges;
mod in_place;
mod evaluation;
mod random;
mod values;
