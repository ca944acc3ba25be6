//! `thermolab with KNOB=VALUE ... -- COMMAND`: one command under changed knobs, put back when it ends. What a point of an
//! experiment does around its measurement, as a verb of its own.

use crate::knob::{interrupted, restore_on_signals, Held, Plan, System};
use crate::root::Root;
use crate::settings::assignment;
use anyhow::{bail, Context, Result};
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Run a command with machine knobs set, and put them back
#[derive(Args, Debug)]
pub struct WithOptions {
    /// Knobs, such as `swappiness=100 zswap.enabled=true swap_file=1GiB cgroup.memory_max=120MiB`
    #[arg(value_name = "KNOB=VALUE", required = true)]
    pub knobs: Vec<String>,
    /// Print what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The command; it runs inside the cgroup, if one is asked for
    #[arg(last = true)]
    pub command: Vec<String>,
    /// A directory that imitates a machine, instead of this one
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub system_root: PathBuf,
}

/// Failures: 1 if the command failed.
pub fn run(options: &WithOptions) -> Result<u64> {
    let system = System::of(Root::at(&options.system_root));
    let plan = Plan::parse(&parameters(&options.knobs)?).map_err(anyhow::Error::msg)?;
    for change in plan.changes(&system)? {
        eprintln!("{change}");
    }
    if options.dry_run {
        return Ok(0);
    }
    let Some((program, arguments)) = options.command.split_first() else {
        bail!("no command: write it after `--`");
    };
    restore_on_signals();
    let held = Held::apply(&system, &plan)?;
    for (knob, value) in &held.in_force().read_back {
        eprintln!("{knob} = {value}");
    }
    let members = held
        .in_force()
        .group
        .as_ref()
        .map(|group| group.member_files());
    let mut command = crate::subject::cgroup_shell(&system.root, &members.unwrap_or_default());
    command.arg(program).args(arguments);
    if let Some(tmpfs) = &held.in_force().tmpfs {
        command.env("THERMOLAB_TMPFS", tmpfs);
    }
    let child = command
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let status = wait(child)?;
    held.restore()?;
    Ok(u64::from(!status.success()))
}

/// Waits; after a signal the command has the same grace as we have.
fn wait(mut child: Child) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupted() {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `a=1 b=x` as parameters; a value is JSON where it is, else a word.
fn parameters(knobs: &[String]) -> Result<BTreeMap<String, Value>> {
    knobs
        .iter()
        .map(|knob| assignment(knob).with_context(|| format!("`{knob}`: write KNOB=VALUE")))
        .collect()
}
