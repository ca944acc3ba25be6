//! Group 5: where files lie and how bytes travel: file system and device under the working directory and under the arm's
//! tmpfs, the loopback device, the data set's hash.

use super::fields::Fields;
use super::About;
use crate::root::Root;
use serde_json::{json, Value};

pub fn fields(root: &Root, about: &About) -> Fields {
    let mut fields = Fields::default();
    match mount_of_working_directory(root) {
        Ok(mount) => {
            fields.value("file_system", json!(mount.kind));
            fields.value("mount_options", json!(mount.options));
            fields.value("device", json!(mount.device));
            block_device(&mut fields, root, &mount.device);
            fields.moment("free_bytes", free_bytes(&mount.path));
        }
        Err(why) => fields.read("file_system", Err::<Value, _>(why)),
    }
    if let Some(options) = about.read_back.get("tmpfs") {
        fields.value("arm.tmpfs", options.clone());
    }
    match about
        .facts
        .iter()
        .find(|(name, _)| name.ends_with("sha256"))
    {
        Some((name, hash)) => fields.value(&format!("data.{name}"), hash.clone()),
        None => fields.value("data", json!("generated: no data set file")),
    }
    for file in ["mtu", "gso_max_size", "tx_queue_len"] {
        fields.file(
            &format!("loopback.{file}"),
            root,
            &format!("/sys/class/net/lo/{file}"),
        );
    }
    for file in [
        "ipv4/tcp_congestion_control",
        "core/default_qdisc",
        "core/somaxconn",
    ] {
        fields.file(
            &format!("net.{file}"),
            root,
            &format!("/proc/sys/net/{file}"),
        );
    }
    fields
}

struct Mount {
    device: String,
    path: String,
    kind: String,
    options: String,
}

/// The longest mount point above the working directory.
fn mount_of_working_directory(root: &Root) -> Result<Mount, String> {
    let here =
        std::env::current_dir().map_err(|error| format!("the working directory: {error}"))?;
    let text = root.read("/proc/mounts")?;
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [device, path, kind, options, ..] = words.as_slice() else {
                return None;
            };
            here.starts_with(path).then(|| Mount {
                device: device.to_string(),
                path: path.to_string(),
                kind: kind.to_string(),
                options: options.to_string(),
            })
        })
        .max_by_key(|mount| mount.path.len())
        .ok_or_else(|| "no mount above the working directory".into())
}

/// The queue settings of the device, or of the disk its partition is on.
fn block_device(fields: &mut Fields, root: &Root, device: &str) {
    let name = device.trim_start_matches("/dev/");
    let disk = root
        .list("/sys/block")
        .into_iter()
        .find(|disk| *disk == name || root.exists(&format!("/sys/block/{disk}/{name}")));
    let Some(disk) = disk else {
        return fields.read(
            "scheduler",
            Err::<Value, _>(format!("{device} is no block device")),
        );
    };
    for file in [
        "scheduler",
        "rotational",
        "write_cache",
        "nr_requests",
        "read_ahead_kb",
        "logical_block_size",
    ] {
        fields.file(file, root, &format!("/sys/block/{disk}/queue/{file}"));
    }
}

fn free_bytes(path: &str) -> Result<u64, String> {
    rustix::fs::statvfs(path)
        .map(|stat| stat.f_bavail * stat.f_frsize)
        .map_err(|error| format!("{path}: {error}"))
}
