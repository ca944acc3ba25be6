//! `thermolab export DIR` and `thermolab import FILE`: an experiment, what it gave here, and what must be alike for it
//! to be the same experiment elsewhere, in one file.
//!
//! Owns the bundle and the comparison of its declared fields with a machine; leaves running to `run`.

mod bundle;
mod matching;

pub use bundle::{Bundle, BUNDLE_BYTES_MAX};
pub use matching::{mismatches, Mismatch, MUST_MATCH};

use crate::environment::{self, About};
use crate::point::Results;
use crate::root::Root;
use anyhow::{ensure, Context, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Makes one file with which the experiment of a run is repeated elsewhere
#[derive(clap::Args, Debug)]
pub struct ExportOptions {
    /// The run's directory or points file
    dir: PathBuf,
    /// The file to write
    #[arg(long, value_name = "FILE", default_value = "experiment.bundle.json")]
    out: PathBuf,
    /// A field that must be alike elsewhere, as GROUP/FIELD or FIELD of the record; repeat. Default: the usual ones
    #[arg(long, value_name = "FIELD")]
    must_match: Vec<String>,
}

/// Unpacks an exported experiment and says where this machine differs from the one it was made on
#[derive(clap::Args, Debug)]
pub struct ImportOptions {
    /// A file made by `thermolab export`
    bundle: PathBuf,
    /// Where the experiment and its files are written
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
    /// Say what differs, write nothing
    #[arg(long)]
    check: bool,
}

pub fn export(options: &ExportOptions) -> Result<String> {
    let results = Results::read(&options.dir)?;
    let bundle = Bundle::of(&results, &options.must_match, Path::new("."))
        .with_context(|| options.dir.display().to_string())?;
    bundle.write(&options.out)?;
    let mut out = format!("written: {}\n", options.out.display());
    let _ = writeln!(
        out,
        "{} fields must match elsewhere; {} files inside, {} named and needed there",
        bundle.must_match.len(),
        bundle.files.len(),
        bundle.needed.len()
    );
    for needed in &bundle.needed {
        let _ = writeln!(out, "! needed elsewhere: {} ({})", needed.path, needed.why);
    }
    Ok(out)
}

pub fn import(options: &ImportOptions) -> Result<String> {
    let bundle = Bundle::read(&options.bundle)?;
    let here = environment::record(&Root::live(), &About::default());
    let mut out = notes(&bundle, &mismatches(&bundle.must_match, &here));
    if options.check {
        return Ok(out);
    }
    ensure!(
        options.into.is_dir(),
        "--into {}: no such directory",
        options.into.display()
    );
    for path in bundle.unpack(&options.into)? {
        let _ = writeln!(out, "written: {}", path.display());
    }
    Ok(out)
}

/// What differs, loudly; or that nothing does.
pub fn notes(bundle: &Bundle, mismatches: &[Mismatch]) -> String {
    let mut out = format!(
        "{}: made {} by thermolab {}\n",
        bundle.experiment, bundle.started, bundle.thermolab_version
    );
    if mismatches.is_empty() {
        let _ = writeln!(out, "all {} declared fields match", bundle.must_match.len());
        return out;
    }
    let _ = writeln!(
        out,
        "!!! {} OF {} FIELDS THAT MUST MATCH DO NOT: a result from here is not a repetition of that one",
        mismatches.len(),
        bundle.must_match.len()
    );
    for m in mismatches {
        let _ = writeln!(out, "!!!   {}/{}  ({})", m.group, m.field, m.why);
        let _ = writeln!(out, "!!!       there  {}", m.there);
        let _ = writeln!(out, "!!!       here   {}", m.here);
    }
    out
}
