//! Group 3: memory: how much, of what kind, what is reserved, what is free at the start.

use super::fields::{line_value, Fields};
use crate::root::Root;
use serde_json::{json, Value};

/// Fields of /proc/meminfo that say how full memory is now.
const NOW: &[&str] = &[
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "Dirty",
    "AnonPages",
    "Shmem",
    "AnonHugePages",
    "ShmemHugePages",
    "ShmemPmdMapped",
    "FileHugePages",
    "FilePmdMapped",
    "SwapFree",
    "Zswap",
    "Zswapped",
    "HugePages_Free",
];

pub fn fields(root: &Root) -> Fields {
    let mut fields = Fields::default();
    let info = root.read("/proc/meminfo");
    let line = |name: &str| info.clone().and_then(|text| line_value(&text, name, ':'));
    for name in [
        "MemTotal",
        "SwapTotal",
        "Hugepagesize",
        "Balloon",
        "CommitLimit",
    ] {
        fields.read(name, line(name));
    }
    for name in NOW {
        fields.moment(name, line(name));
    }
    pools(&mut fields, root);
    nodes(&mut fields, root);
    fields.read("dimm_mts", dimm_speeds(root));
    fields
}

/// Reserved pages of every size.
fn pools(fields: &mut Fields, root: &Root) {
    const POOLS: &str = "/sys/kernel/mm/hugepages";
    let sizes = root.list(POOLS);
    if sizes.is_empty() {
        fields.read(
            "hugetlb",
            Err::<Value, _>("not there on this kernel".into()),
        );
    }
    for size in sizes {
        let short = size.trim_start_matches("hugepages-").to_string();
        for file in ["nr_hugepages", "nr_overcommit_hugepages"] {
            fields.file(
                &format!("hugetlb.{short}.{file}"),
                root,
                &format!("{POOLS}/{size}/{file}"),
            );
        }
    }
}

fn nodes(fields: &mut Fields, root: &Root) {
    const NODES: &str = "/sys/devices/system/node";
    for node in root.list(NODES) {
        let Ok(text) = root.read(&format!("{NODES}/{node}/meminfo")) else {
            continue;
        };
        let total = text
            .lines()
            .find(|line| line.contains("MemTotal:"))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_string());
        fields.value(&format!("{node}.MemTotal"), json!(total));
    }
}

/// Configured speed of every memory device in the firmware's table (SMBIOS type 17), million transfers/s.
fn dimm_speeds(root: &Root) -> Result<Value, String> {
    let table = root
        .read_bytes("/sys/firmware/dmi/tables/DMI")
        .map_err(|why| format!("the firmware's table: {why}"))?;
    let speeds = memory_devices(&table);
    match speeds.is_empty() {
        true => Err("no memory device in the firmware's table".into()),
        false => Ok(json!(speeds)),
    }
}

fn memory_devices(table: &[u8]) -> Vec<u16> {
    const MEMORY_DEVICE: u8 = 17;
    const CONFIGURED_SPEED: usize = 0x20;
    let mut speeds = Vec::new();
    let mut rest = table;
    while let [kind, length, ..] = *rest {
        let body = rest.get(..usize::from(length)).unwrap_or(&[]);
        if kind == MEMORY_DEVICE {
            if let Some(&[low, high]) = body.get(CONFIGURED_SPEED..CONFIGURED_SPEED + 2) {
                speeds.push(u16::from_le_bytes([low, high]));
            }
        }
        // Strings follow the body up to two zeros. A body shorter than its own header is no table.
        let strings = rest.get(usize::from(length.max(4))..).unwrap_or(&[]);
        let end = strings.windows(2).position(|pair| pair == [0, 0]);
        rest = end.and_then(|end| strings.get(end + 2..)).unwrap_or(&[]);
    }
    speeds.retain(|speed| *speed != 0);
    speeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_devices_are_found_between_others() {
        let mut device = vec![17, 0x28, 1, 0];
        device.resize(0x28, 0);
        device[0x20..0x22].copy_from_slice(&3200u16.to_le_bytes());
        let mut table = vec![1, 4, 0, 0];
        table.extend_from_slice(b"maker\0\0");
        table.extend_from_slice(&device);
        table.extend_from_slice(b"slot\0\0");
        assert_eq!(memory_devices(&table), [3200]);
        for cut in 0..table.len() {
            memory_devices(&table[..cut]);
        }
        let mut random = crate::workload::Random::new(11);
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..64).map(|_| random.word() as u8 & 31).collect();
            memory_devices(&bytes);
        }
    }
}
