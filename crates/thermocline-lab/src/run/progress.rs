//! How far a run is and how long it will take: a bar on a terminal, a line a point elsewhere.

use crate::measure::Phase;
use crate::point::{PointLine, Status};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A run under way.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    /// Wall time of the points taken by this process.
    taken: (u32, Duration),
    /// Expected length of a point before any was taken.
    guess: Duration,
    begun: Instant,
    label: String,
}

impl Progress {
    /// `done` of `total` are there already; `guess` is what a point will take.
    pub fn new(total: usize, done: usize, guess: Duration) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_position(done as u64);
            bar
        });
        Progress {
            bar,
            total,
            done,
            taken: (0, Duration::ZERO),
            guess,
            begun: Instant::now(),
            label: String::new(),
        }
    }

    /// Says nothing: for tests.
    pub fn silent() -> Self {
        Progress {
            bar: Some(ProgressBar::hidden()),
            ..Progress::new(0, 0, Duration::ZERO)
        }
    }

    pub fn point_begins(&mut self, arm: &str) {
        self.label = arm.to_string();
        self.begun = Instant::now();
        self.tick(None);
    }

    pub fn tick(&mut self, phase: Option<(Phase, Duration)>) {
        let Some(bar) = &self.bar else {
            return;
        };
        let doing = match phase {
            None => "starting".to_string(),
            Some((Phase::Load, since)) => format!("loading {}", show(since)),
            Some((Phase::Warmup, since)) => format!("warming up {}", show(since)),
            Some((Phase::Measured, since)) => format!("measuring {}", show(since)),
        };
        bar.set_message(format!(
            "{}: {doing}, {} left",
            self.label,
            show(self.left())
        ));
    }

    fn each(&self) -> Duration {
        match self.taken {
            (0, _) => self.guess,
            (points, time) => time / points,
        }
    }

    /// Time left, by the mean of the points taken so far.
    pub fn left(&self) -> Duration {
        let points = self.total.saturating_sub(self.done) as u32;
        (self.each() * points).saturating_sub(self.begun.elapsed())
    }

    pub fn point_ended(&mut self, point: &PointLine) {
        self.done += 1;
        self.taken.0 += 1;
        self.taken.1 += self.begun.elapsed();
        self.begun = Instant::now();
        let said = match (point.status, &point.reason) {
            (Status::Ok, _) => match point.metrics.get("ops_per_s") {
                Some(rate) => format!("{rate:.0} ops/s"),
                None => format!("{:.1} s", point.seconds),
            },
            (status, reason) => format!(
                "{status:?}: {}",
                reason.as_deref().unwrap_or("no reason given")
            ),
        };
        let line = format!(
            "{}/{} {}: {said}; {} left",
            self.done,
            self.total,
            point.arm,
            show(self.left())
        );
        match &self.bar {
            None => eprintln!("{line}"),
            Some(bar) => {
                bar.set_position(self.done as u64);
                if point.status != Status::Ok {
                    bar.println(line);
                }
            }
        }
    }

    /// A line that must be seen.
    pub fn note(&self, text: &str) {
        match &self.bar {
            None => eprintln!("thermolab: {text}"),
            Some(bar) => bar.println(text),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `45 s`, `3 min 5 s`, `2 h 10 min`.
pub fn show(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_what_points_took() {
        let mut progress = Progress::new(10, 0, Duration::from_secs(100));
        progress.bar = Some(ProgressBar::hidden());
        assert!(progress.left() > Duration::from_secs(990));
        progress.point_ended(&PointLine::default());
        assert!(
            progress.left() < Duration::from_secs(5),
            "{:?}",
            progress.left()
        );
        assert_eq!(show(Duration::from_secs(185)), "3 min 5 s");
        assert_eq!(show(Duration::from_secs(7860)), "2 h 11 min");
    }
}
