//! Numbers with units, told from a metric's name: `_ns`, `_bytes`, `_ratio`, `_per_s`, `_percent`.

/// How a metric is shown on one axis or in one column: divide by `divisor`, name it `unit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    pub divisor: f64,
    pub unit: &'static str,
}

const TIMES: &[(f64, &str)] = &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
const BYTES: &[(f64, &str)] = &[
    (1099511627776.0, "TiB"),
    (1073741824.0, "GiB"),
    (1048576.0, "MiB"),
    (1024.0, "KiB"),
    (1.0, "B"),
];
const COUNTS: &[(f64, &str)] = &[
    (1e9, "billion"),
    (1e6, "million"),
    (1e3, "thousand"),
    (1.0, ""),
];

impl Scale {
    /// For figures of this metric of which `largest` is the largest in size.
    pub fn of(metric: &str, largest: f64) -> Scale {
        let has = |part: &str| {
            metric.ends_with(part) || metric.contains(&format!("{part}_")) || metric == &part[1..]
        };
        // A thousand is written out up to 10,000: 8,300 reads better than 8.3 thousand.
        let (steps, slack) = if has("_ns") {
            (TIMES, 1.0)
        } else if has("_bytes") {
            (BYTES, 1.0)
        } else if has("_ratio") || has("_percent") || metric.contains("share") {
            return Scale {
                divisor: 1.0,
                unit: "",
            };
        } else {
            (COUNTS, 10.0)
        };
        let step = steps
            .iter()
            .find(|(divisor, _)| largest.abs() >= divisor * slack);
        let (divisor, unit) = step.or(steps.last()).copied().unwrap_or((1.0, ""));
        Scale { divisor, unit }
    }

    /// The figure in this scale, to about `digits` digits, at least as many as are before the point.
    pub fn show(self, value: f64, digits: usize) -> String {
        number(value / self.divisor, digits)
    }

    /// `12.3 µs`.
    pub fn show_with_unit(self, value: f64, digits: usize) -> String {
        let text = self.show(value, digits);
        match self.unit {
            "" => text,
            unit => format!("{text} {unit}"),
        }
    }
}

/// A figure to about so many significant digits, thousands apart by thin commas.
pub fn number(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let before = value.abs().log10().floor() as i32 + 1;
    let decimals = (digits as i32 - before).clamp(0, 12) as usize;
    if !(-6..=15).contains(&before) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    fixed(value, decimals)
}

/// A figure with so many decimals; zero has no sign.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let zero = text.chars().all(|c| "-0.".contains(c));
    grouped(if zero {
        text.trim_start_matches('-')
    } else {
        &text
    })
}

/// `1234567.8` -> `1,234,567.8`.
fn grouped(text: &str) -> String {
    let (sign, rest) = text
        .strip_prefix('-')
        .map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = rest
        .split_once('.')
        .map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A metric's name as words: `service_ns_p99` -> `service time p99`.
pub fn spoken(metric: &str) -> String {
    let known = match metric {
        "ops_per_s" => "operations per second",
        "hit_ratio" => "hit ratio",
        "rss_bytes" => "resident memory",
        _ => "",
    };
    if !known.is_empty() {
        return known.into();
    }
    metric
        .replace("_ns_", " time ")
        .replace("_ns", " time")
        .replace("_bytes", "")
        .replace("_per_s", " per second")
        .replace('_', " ")
}

/// A p-value: `.0005`-like precision without pretending more; tiny ones bounded.
pub fn p_value(p: f64) -> String {
    match p {
        p if p < 1e-4 => format!("{p:.0e}"),
        p if p < 0.01 => format!("{p:.4}"),
        p => format!("{p:.3}"),
    }
}

/// `+2.5 %` with so many decimals that the first two digits show.
pub fn percent(value: f64) -> String {
    let decimals = if value.abs() < 0.1 {
        3
    } else if value.abs() < 100.0 {
        2
    } else {
        0
    };
    format!("{value:+.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_name_and_the_size() {
        assert_eq!(
            Scale::of("service_ns_p99", 12_345.0).show_with_unit(12_345.0, 3),
            "12.3 µs"
        );
        assert_eq!(
            Scale::of("rss_bytes", 3.0 * 1048576.0).show_with_unit(3145728.0, 3),
            "3.00 MiB"
        );
        assert_eq!(
            Scale::of("hit_ratio", 0.9).show_with_unit(0.87654, 4),
            "0.8765"
        );
        assert_eq!(
            Scale::of("ops_per_s", 71084.9).show_with_unit(71084.9, 5),
            "71.085 thousand"
        );
        assert_eq!(
            Scale::of("ops_per_s", 8300.0).show_with_unit(8300.0, 5),
            "8,300.0"
        );
        assert_eq!(Scale::of("pswpin", 0.0).show_with_unit(0.0, 3), "0");
    }

    #[test]
    fn numbers_keep_what_is_before_the_point() {
        assert_eq!(number(1234567.0, 3), "1,234,567");
        assert_eq!(number(-0.012345, 3), "-0.0123");
        assert_eq!(number(f64::NAN, 3), "NaN");
        assert_eq!(number(1e-9, 3), "1.00e-9");
    }

    #[test]
    fn small_p_values_do_not_become_zero() {
        assert_eq!(p_value(3e-7), "3e-7");
        assert_eq!(p_value(0.00054), "0.0005");
        assert_eq!(p_value(0.25), "0.250");
        assert_eq!(percent(-0.031), "-0.031 %");
    }
}
