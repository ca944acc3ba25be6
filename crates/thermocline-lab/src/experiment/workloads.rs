//! The kinds of workload by name: from a `[workload]` table to a workload.

use crate::settings::{unknown, Settings, Table};
use crate::workload::{MixWorkload, Workload};
use anyhow::{bail, Result};

/// Their names.
pub const KINDS: [&str; 1] = ["mix"];

/// Reads `[workload]`: its `kind` says which (`mix` if it is not there), the rest is the kind's own. `seed` is the
/// block's: the arms of a block get the same operations.
pub fn read_workload(table: Table, seed: u64) -> Result<Box<dyn Workload>> {
    let mut settings = Settings::new("workload", table);
    let kind = settings.text("kind")?.unwrap_or_else(|| "mix".into());
    let seed = settings.count("seed")?.unwrap_or(seed);
    let workload: Box<dyn Workload> = match kind.as_str() {
        "mix" => Box::new(MixWorkload::read(&mut settings, seed)?),
        other => bail!("`workload.kind`: {}", unknown(other, &KINDS)),
    };
    settings.finish()?;
    Ok(workload)
}
