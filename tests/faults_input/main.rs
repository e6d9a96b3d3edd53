//! Rows F77 to F88 of the fault catalogue: clocks that jump, numbers at their bounds, sizes, settings and names that make no sense.

#[path = "../common/logs.rs"]
mod logs;

mod clocks;
mod names;
mod numbers;
mod records;
mod settings;
mod sizes;
