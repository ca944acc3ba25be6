//! Prints a Welch test as R 4 prints it, digit for digit, so that a published output can be compared by eye or diff.

use crate::stats::{self, Welch};
use std::fmt::Write;

/// R's `getOption("digits")`.
const DIGITS: usize = 7;

/// `print(t.test(x, y))`; `written` are the two arguments.
pub fn htest(welch: &Welch, written: &(String, String)) -> String {
    let mut out = String::from("\n\tWelch Two Sample t-test\n\n");
    let one = |value: f64, digits: usize| format(&[value], digits).remove(0);
    let _ = writeln!(out, "data:  {} and {}", written.0, written.1);
    let _ = writeln!(
        out,
        "t = {}, df = {}, p-value {}",
        one(welch.t, DIGITS - 2),
        one(welch.df, DIGITS - 2),
        p_value(welch.p)
    );
    out += "alternative hypothesis: true difference in means is not equal to 0\n";
    let ends = format(&[welch.interval.low, welch.interval.high], DIGITS);
    let width = ends.iter().map(String::len).max().unwrap_or(0);
    let _ = writeln!(
        out,
        "{} percent confidence interval:",
        one(100.0 * welch.interval.level, DIGITS)
    );
    let _ = writeln!(out, " {:>width$} {:>width$}", ends[0], ends[1]);
    let means = format(&[welch.x.mean, welch.y.mean], DIGITS);
    let width = means.iter().map(String::len).max().unwrap_or(0).max(9);
    out += "sample estimates:\n";
    let _ = writeln!(out, "{:>width$} {:>width$} ", "mean of x", "mean of y");
    let _ = writeln!(out, "{:>width$} {:>width$} \n", means[0], means[1]);
    out
}

/// The line the script of seed 000 prints after each test.
pub fn summary(name: &str, welch: &Welch) -> String {
    match stats::seed_percent(welch) {
        Ok(percent) if !percent.straddles_zero() => {
            format!(
                "[1] \"{name}: [{:.2}, {:.2}]%\"\n",
                percent.low, percent.high
            )
        }
        _ => format!("[1] \"{name}: no significance\"\n"),
    }
}

fn p_value(p: f64) -> String {
    if p < f64::EPSILON {
        return "< 2.2e-16".into();
    }
    format!("= {}", format(&[p], DIGITS - 3)[0])
}

/// `format(values, digits = ..)` less the padding: as few digits as show the value that needs the most to
/// `digits` significant ones, all values with the same number of decimals, and exponents where those are shorter.
pub fn format(values: &[f64], digits: usize) -> Vec<String> {
    let shapes: Vec<Shape> = values.iter().map(|v| Shape::of(*v, digits)).collect();
    let most = |part: fn(&Shape) -> usize| shapes.iter().map(part).max().unwrap_or(0);
    let decimals = most(|s| s.decimals);
    let significant = most(|s| s.significant).max(1);
    let fixed = most(|s| s.left) + decimals + usize::from(decimals > 0);
    let exponent_digits = most(|s| if s.exponent.abs() >= 100 { 3 } else { 2 });
    let negative = usize::from(values.iter().any(|v| *v < 0.0));
    let scientific = negative + significant + usize::from(significant > 1) + 2 + exponent_digits;
    let one = |value: &f64| {
        if fixed <= scientific {
            return format!("{value:.decimals$}");
        }
        let text = format!("{value:.*e}", significant - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    };
    values.iter().map(one).collect()
}

/// What one value needs to be shown to so many significant digits, trailing zeros dropped.
struct Shape {
    /// Characters left of the point, sign included.
    left: usize,
    decimals: usize,
    significant: usize,
    exponent: i32,
}

impl Shape {
    fn of(value: f64, digits: usize) -> Shape {
        let text = format!("{:.*e}", digits.saturating_sub(1), value.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let shown = mantissa.trim_end_matches('0');
        let significant = shown.chars().filter(char::is_ascii_digit).count();
        Shape {
            left: exponent.max(0) as usize + 1 + usize::from(value < 0.0),
            decimals: (significant as i32 - exponent - 1).max(0) as usize,
            significant,
            exponent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_r_formats_them() {
        let one = |v, digits| format(&[v], digits).remove(0);
        assert_eq!(one(-14.3066800414192, 5), "-14.307");
        assert_eq!(one(-4.6790100239419, 5), "-4.679");
        assert_eq!(one(0.62117, 5), "0.62117");
        assert_eq!(one(0.0007961, 4), "0.0007961");
        assert_eq!(one(1.452e-6, 4), "1.452e-06");
        assert_eq!(one(1e-5, 4), "1e-05");
        assert_eq!(one(100000.0, 7), "1e+05");
        assert_eq!(one(123456.0, 7), "123456");
        assert_eq!(one(95.0, 7), "95");
        assert_eq!(one(0.0, 7), "0");
        assert_eq!(
            format(&[-1188.37851, 358.97851], 7),
            ["-1188.3785", "358.9785"]
        );
    }

    #[test]
    fn tiny_p_values_are_bounded() {
        assert_eq!(p_value(1e-17), "< 2.2e-16");
        assert_eq!(p_value(1e-15), "= 1e-15");
    }
}
