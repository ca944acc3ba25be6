//! Time lines of a point, bounded: when one is full, every second value goes and the stride doubles.

use std::collections::BTreeMap;

/// Values by time, at most `room` of them.
#[derive(Clone, Debug)]
pub struct Series {
    values: Vec<(f64, f64)>,
    stride: usize,
    skipped: usize,
    room: usize,
}

impl Series {
    /// `room` is at least 2.
    pub fn new(room: usize) -> Self {
        Series {
            values: Vec::new(),
            stride: 1,
            skipped: 0,
            room: room.max(2),
        }
    }

    pub fn push(&mut self, seconds: f64, value: f64) {
        self.skipped += 1;
        if self.skipped < self.stride || !value.is_finite() {
            return;
        }
        self.skipped = 0;
        if self.values.len() >= self.room {
            let mut index = 0;
            self.values.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
        self.values.push((seconds, value));
    }
}

/// Time lines by name. Names beyond [`NAMES_MAX`] are not taken.
#[derive(Clone, Debug, Default)]
pub struct Lines(BTreeMap<String, Series>);

/// Time lines kept for one point.
pub const NAMES_MAX: usize = 96;

impl Lines {
    pub fn push(&mut self, name: &str, seconds: f64, value: f64, room: usize) {
        if let Some(series) = self.0.get_mut(name) {
            series.push(seconds, value);
        } else if self.0.len() < NAMES_MAX {
            let mut series = Series::new(room);
            series.push(seconds, value);
            self.0.insert(name.to_string(), series);
        }
    }

    /// The lines, without those that never moved.
    pub fn finish(self) -> BTreeMap<String, Vec<(f64, f64)>> {
        self.0
            .into_iter()
            .map(|(name, series)| (name, series.values))
            .filter(|(_, values)| values.windows(2).any(|pair| pair[0].1 != pair[1].1))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_its_whole_length_in_bounded_room() {
        let mut series = Series::new(100);
        for second in 0..100_000 {
            series.push(f64::from(second), 1.0);
            assert!(series.values.len() <= 100);
        }
        let (first, last) = (series.values[0].0, series.values.last().unwrap().0);
        assert!(first < 2.0 && last > 98_000.0, "{first} to {last}");
        assert!(series.values.len() >= 50);
    }

    #[test]
    fn lines_that_never_move_are_left_out() {
        let mut lines = Lines::default();
        for second in 0..10 {
            lines.push("still", f64::from(second), 5.0, 10);
            lines.push("moving", f64::from(second), f64::from(second), 10);
            lines.push("gap", f64::from(second), f64::NAN, 10);
        }
        assert_eq!(lines.finish().into_keys().collect::<Vec<_>>(), ["moving"]);
    }
}
