//! Wall-clock stamps, and whether the wall clock jumped while a point was taken. Durations never come from it.

use rustix::time::{clock_gettime, ClockId};
use std::time::{SystemTime, UNIX_EPOCH};

/// A jump or sleep shorter than this is noise of reading two clocks, s.
const JUMP_SECONDS_MIN: f64 = 0.5;

/// `2026-04-01T12:00:00Z`.
pub fn stamp() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    stamp_of(since.map_or(0, |since| since.as_secs()))
}

/// The same without separators, for names of directories: `20260401-120000`.
pub fn stamp_for_a_name() -> String {
    stamp().replace(['-', ':', 'Z'], "").replace('T', "-")
}

fn stamp_of(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month and day of a day counted from 1970-01-01: whole eras of 400 years, years beginning in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Three clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    real: f64,
    monotonic: f64,
    boot: f64,
}

impl Clocks {
    pub fn now() -> Clocks {
        let read = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        Clocks {
            real: read(ClockId::Realtime),
            monotonic: read(ClockId::Monotonic),
            boot: read(ClockId::Boottime),
        }
    }

    /// What to tell about the time from here to `later`.
    pub fn warnings_until(&self, later: &Clocks) -> Vec<String> {
        let passed = later.monotonic - self.monotonic;
        let slept = later.boot - self.boot - passed;
        let jumped = later.real - self.real - passed - slept;
        let mut said = Vec::new();
        if slept > JUMP_SECONDS_MIN {
            said.push(format!(
                "the machine was suspended for {slept:.1} s during this point"
            ));
        }
        if jumped.abs() > JUMP_SECONDS_MIN {
            said.push(format!(
                "the wall clock jumped by {jumped:+.1} s during this point; durations are of the monotonic clock"
            ));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_right() {
        // From `date -u -d @N`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(stamp_of(seconds), text);
        }
        assert_eq!(stamp_for_a_name().len(), "20260401-120000".len());
    }

    #[test]
    fn a_clock_that_jumps_is_told_and_a_second_that_passes_is_not() {
        let then = Clocks::now();
        let passed = |real, monotonic, boot| Clocks {
            real: then.real + real,
            monotonic: then.monotonic + monotonic,
            boot: then.boot + boot,
        };
        assert!(then.warnings_until(&passed(9.0, 9.0, 9.0)).is_empty());
        let jumped = then.warnings_until(&passed(-3591.0, 9.0, 9.0));
        assert!(jumped[0].contains("-3600.0 s"), "{jumped:?}");
        let slept = then.warnings_until(&passed(69.0, 9.0, 69.0));
        assert!(
            slept.len() == 1 && slept[0].contains("suspended for 60.0"),
            "{slept:?}"
        );
    }
}
