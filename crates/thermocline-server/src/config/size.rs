//! Sizes and times as people write them: `1GiB`, `512k`, `64`, `10s`, `5m`.

const UNITS: [(&str, u64); 13] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1000),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tib", 1 << 40),
];

/// Bytes of `1GiB`, `1.5 GiB`, `512k` (1024s), `64MB` (1000s), `4096`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let bad = || format!("{text:?} is no size: write bytes, or a number with KiB, MiB, GiB or TiB");
    let unit = unit.to_ascii_lowercase();
    let (_, factor) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(bad)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(*factor)
            .ok_or_else(|| format!("{text:?} is more than 64 bits can count"));
    }
    let fraction: f64 = number.parse().map_err(|_| bad())?;
    let bytes = fraction * *factor as f64;
    if !bytes.is_finite() || !(0.0..9e18).contains(&bytes) {
        return Err(bad());
    }
    Ok(bytes as u64)
}

/// Seconds of `10`, `10s`, `5m`, `2h`.
pub fn parse_duration_s(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let bad = || format!("{text:?} is no time: write seconds, or a number with s, m or h");
    let factor = match unit {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(bad()),
    };
    let number: u64 = number.parse().map_err(|_| bad())?;
    number.checked_mul(factor).ok_or_else(bad)
}

/// Milliseconds of `500ms`, `10`, `10s`, `5m`, `2h`: seconds where no unit is given.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    if unit != "ms" {
        let seconds = parse_duration_s(text).map_err(|_| {
            format!("{text:?} is no time: write seconds, or a number with ms, s, m or h")
        })?;
        return seconds
            .checked_mul(1000)
            .ok_or_else(|| format!("{text:?} is more than 64 bits can count"));
    }
    number
        .parse()
        .map_err(|_| format!("{text:?} is no time: write whole milliseconds"))
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// The shortest exact way to write `bytes`.
pub fn show_size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes % unit == 0 {
            return format!("{}{name}", bytes / unit);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_read_as_written() {
        for (text, ms) in [("500ms", 500), ("2", 2000), ("3s", 3000), ("1m", 60_000)] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
        for text in ["", "1.5ms", "x", "1d", "99999999999999999999"] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_written() {
        for (text, bytes) in [
            ("1GiB", 1 << 30),
            ("1 gib", 1 << 30),
            ("1.5GiB", 3 << 29),
            ("512k", 512 << 10),
            ("64MB", 64_000_000),
            ("4096", 4096),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "x",
            "1XB",
            "-1",
            "1.2.3g",
            "99999999999999999999",
            "20000000t",
        ] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_read_as_written() {
        assert_eq!(parse_duration_s("10"), Ok(10));
        assert_eq!(parse_duration_s("2m"), Ok(120));
        assert!(parse_duration_s("1.5h").is_err());
        assert!(parse_duration_s("5d").is_err());
    }

    #[test]
    fn sizes_are_shown_exactly() {
        for bytes in [1, 1024, 1 << 30, (1 << 30) + 1, 3 << 20] {
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes));
        }
    }
}
