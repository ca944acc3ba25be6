//! Sizes and times as people write them: `64KiB`, `1g`, `4000`, `2.5s`, `200ms`.
//! Leaves ranges and distributions to `workload`.

use std::time::Duration;

/// Bytes from `64`, `64k`, `64KiB`, `1.5GiB`. Every suffix is a power of 1024: caches are sized in those.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, suffix) = split_suffix(text);
    let scale: u64 = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => {
            return Err(format!(
                "`{text}`: unknown size suffix `{suffix}`; use B, KiB, MiB, GiB"
            ))
        }
    };
    let value: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a size; write it like 64KiB"))?;
    if !(0.0..1.0e18).contains(&value) {
        return Err(format!("`{text}` is out of range for a size"));
    }
    Ok((value * scale as f64).round() as u64)
}

/// Counts from `5000`, `5k`, `10M`. Suffixes are powers of 1000: operations and keys are counted in those.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, suffix) = split_suffix(text);
    let scale: f64 = match suffix.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => {
            return Err(format!(
                "`{text}`: unknown count suffix `{suffix}`; use k, M or G"
            ))
        }
    };
    let value: f64 = number
        .replace('_', "")
        .parse()
        .map_err(|_| format!("`{text}` is not a count; write it like 5000 or 10M"))?;
    if !(0.0..1.0e18).contains(&value) {
        return Err(format!("`{text}` is out of range for a count"));
    }
    Ok((value * scale).round() as u64)
}

/// Durations from `10` (seconds), `10s`, `200ms`, `5m`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, suffix) = split_suffix(text);
    let scale = match suffix {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" => 60.0,
        _ => {
            return Err(format!(
                "`{text}`: unknown time suffix `{suffix}`; use us, ms, s or m"
            ))
        }
    };
    let value: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not a duration; write it like 10s"))?;
    Duration::try_from_secs_f64(value * scale).map_err(|error| format!("`{text}`: {error}"))
}

fn split_suffix(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    (text[..at].trim(), text[at..].trim())
}

/// `1.0 GiB`, `64 KiB`, `100 B`.
pub fn show_bytes(bytes: u64) -> String {
    const STEPS: [(&str, u64); 4] = [
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
    ];
    for (name, scale) in STEPS {
        if bytes >= scale {
            let value = bytes as f64 / scale as f64;
            return if value.fract() < 0.005 {
                format!("{value:.0} {name}")
            } else {
                format!("{value:.2} {name}")
            };
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_counts_and_times_are_read_as_written() {
        assert_eq!(parse_bytes("64"), Ok(64));
        assert_eq!(parse_bytes("64KiB"), Ok(65536));
        assert_eq!(parse_bytes("1.5 g"), Ok(3 << 29));
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        assert_eq!(parse_count("1_000"), Ok(1000));
        assert_eq!(parse_duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_duration("2.5"), Ok(Duration::from_millis(2500)));
    }

    #[test]
    fn nonsense_is_refused_with_the_text_in_the_message() {
        for text in ["", "KiB", "1x", "-1", "1e400", "nan"] {
            assert!(parse_bytes(text).is_err(), "{text} passed as a size");
            assert!(parse_count(text).is_err(), "{text} passed as a count");
        }
        assert!(parse_bytes("12qb").unwrap_err().contains("12qb"));
        assert!(parse_duration("-1s").is_err());
    }

    #[test]
    fn sizes_are_shown_short() {
        assert_eq!(show_bytes(100), "100 B");
        assert_eq!(show_bytes(65536), "64 KiB");
        assert_eq!(show_bytes(3 << 29), "1.50 GiB");
    }
}
