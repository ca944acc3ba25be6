//! YCSB's status lines: when, how far, how fast, how long yet, and each operation's latencies since the line
//! before.

use hdrhistogram::Histogram;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One status line's facts.
pub struct Status<'a> {
    pub label: &'a str,
    pub now: SystemTime,
    pub elapsed: Duration,
    pub operations: u64,
    /// Since the line before.
    pub operations_per_s: f64,
    /// Operations that are left, where their number is known.
    pub left: Option<u64>,
    /// Names and latencies in ns, since the line before.
    pub latencies: Vec<(String, Histogram<u64>)>,
}

impl Status<'_> {
    /// The line, without its end.
    pub fn line(&self) -> String {
        let seconds = self.elapsed.as_secs();
        let mut line = format!(
            "{}{} {seconds} sec: {} operations; ",
            self.label,
            stamp(self.now),
            self.operations
        );
        if self.operations > 0 {
            let _ = write!(
                line,
                "{} current ops/sec; ",
                decimals(self.operations_per_s)
            );
        }
        let overall = self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9);
        if let Some(left) = self.left.filter(|&left| left > 0 && overall > 0.0) {
            let _ = write!(
                line,
                "est completion in {}",
                remaining((left as f64 / overall).ceil() as u64)
            );
        }
        for (name, histogram) in &self.latencies {
            let _ = write!(line, "{}", summary(name, histogram));
        }
        line.trim_end().to_string()
    }
}

/// `[READ: Count=..., ...] `, microseconds.
fn summary(name: &str, histogram: &Histogram<u64>) -> String {
    let at = |quantile: f64| histogram.value_at_quantile(quantile) / 1000;
    format!(
        "[{name}: Count={}, Max={}, Min={}, Avg={}, 50={}, 90={}, 99={}, 99.9={}, 99.99={}] ",
        histogram.len(),
        histogram.max() / 1000,
        histogram.min() / 1000,
        decimals(histogram.mean() / 1000.0),
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(0.9999),
    )
}

/// At most two decimals, none where they are zero.
fn decimals(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// `1 hour 5 minutes `: days and hours, minutes below a day, seconds below a minute.
fn remaining(seconds: u64) -> String {
    let mut words = String::new();
    let mut say = |count: u64, unit: &str| {
        if count > 0 {
            let plural = if count == 1 { "" } else { "s" };
            let _ = write!(words, "{count} {unit}{plural} ");
        }
    };
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    say(days, "day");
    say(rest / 3600, "hour");
    if days == 0 {
        say(rest % 3600 / 60, "minute");
    }
    if words.is_empty() {
        let plural = if seconds == 1 { "" } else { "s" };
        return format!("{seconds} second{plural} ");
    }
    words
}

/// `2026-12-01 04:05:06:789`, UTC.
pub fn stamp(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}:{:03}",
        second / 3600,
        second % 3600 / 60,
        second % 60,
        since.subsec_millis()
    )
}

/// The date so many days after 1970-01-01, by counting years of 400 from a 1st of March.
fn date(days: u64) -> (u64, u64, u64) {
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::latency_histogram;

    #[test]
    fn a_line_is_ycsbs() {
        let mut reads = latency_histogram();
        for us in [10, 20, 30, 400] {
            reads.record(us * 1000).unwrap();
        }
        let status = Status {
            label: "run1 ",
            now: UNIX_EPOCH + Duration::from_millis(1_764_561_906_789),
            elapsed: Duration::from_millis(10_004),
            operations: 5000,
            operations_per_s: 499.804,
            left: Some(45_000),
            latencies: vec![("READ".to_string(), reads)],
        };
        assert_eq!(
            status.line(),
            "run1 2025-12-01 04:05:06:789 10 sec: 5000 operations; 499.8 current ops/sec; est completion in 1 minute \
             [READ: Count=4, Max=400, Min=10, Avg=115, 50=20, 90=400, 99=400, 99.9=400, 99.99=400]"
        );
    }

    #[test]
    fn nothing_done_says_no_rate_and_nothing_left_no_end() {
        let status = Status {
            label: "",
            now: UNIX_EPOCH,
            elapsed: Duration::ZERO,
            operations: 0,
            operations_per_s: 0.0,
            left: Some(5),
            latencies: Vec::new(),
        };
        assert_eq!(
            status.line(),
            "1970-01-01 00:00:00:000 0 sec: 0 operations;"
        );
    }

    #[test]
    fn times_left_are_words() {
        for (seconds, words) in [
            (0, "0 seconds "),
            (1, "1 second "),
            (59, "59 seconds "),
            (60, "1 minute "),
            (3725, "1 hour 2 minutes "),
            (90_061, "1 day 1 hour "),
        ] {
            assert_eq!(remaining(seconds), words);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_788, (2026, 12, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}
