//! A zram device as swap: one that is empty and idle, or a new one. Devices in use are never touched.

use super::system::System;

const CONTROL: &str = "/sys/class/zram-control";

/// Devices there are, such as `zram0`.
pub fn devices(system: &System) -> Vec<String> {
    let mut names = system.root.list("/sys/block");
    names.retain(|name| name.starts_with("zram"));
    names
}

pub fn node(device: &str) -> String {
    format!("/dev/{device}")
}

pub fn file(device: &str, name: &str) -> String {
    format!("/sys/block/{device}/{name}")
}

/// A device that holds nothing and is nobody's swap.
pub fn idle(system: &System) -> Option<String> {
    devices(system)
        .into_iter()
        .find(|device| is_idle(system, device))
}

fn is_idle(system: &System, device: &str) -> bool {
    let empty = system.root.read(&file(device, "disksize")).as_deref() == Ok("0");
    let node = node(device);
    empty && !system.swaps().iter().any(|(path, _)| *path == node)
}

/// Whether devices can be added: reading the file makes one.
pub fn can_add(system: &System) -> bool {
    system.root.exists(&format!("{CONTROL}/hot_add"))
}

pub fn add(system: &System) -> Result<String, String> {
    let number = system
        .root
        .read(&format!("{CONTROL}/hot_add"))
        .map_err(|why| format!("adding a zram device: {why}"))?;
    Ok(format!("zram{}", number.trim()))
}

/// Empties a device again, after its swap is off.
pub fn reset(system: &System, device: &str) -> Result<(), String> {
    let size = file(device, "disksize");
    if !system.root.exists(&size) || system.root.read(&size).as_deref() == Ok("0") {
        return Ok(());
    }
    let reset = file(device, "reset");
    system
        .root
        .write(&reset, "1")
        .map_err(|error| format!("{reset}: {error}"))?;
    if !system.root.is_live() {
        let _ = system.root.write(&size, "0");
    }
    match system.root.read(&size).as_deref() {
        Ok("0") => Ok(()),
        other => Err(format!("{size} still says {other:?} after a reset")),
    }
}

/// Removes the devices that are not in `before` and are idle: an interrupted addition leaves one.
pub fn remove_new(system: &System, before: &[String]) -> Result<(), String> {
    for device in devices(system) {
        if before.contains(&device) || !is_idle(system, &device) {
            continue;
        }
        let number = device.trim_start_matches("zram");
        system
            .root
            .write(&format!("{CONTROL}/hot_remove"), number)
            .map_err(|error| format!("removing {device}: {error}"))?;
    }
    Ok(())
}
