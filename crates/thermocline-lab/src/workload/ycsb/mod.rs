pub mod draw;
pub mod key;
