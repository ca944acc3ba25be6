//! Taking the points of an experiment, one after the other.

pub mod hooks;

pub use hooks::{Hooks, NoHooks, PointContext};
