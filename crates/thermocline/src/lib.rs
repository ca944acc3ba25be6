//! thermocline
