//! Two lists of fields laid over each other.

use super::side::FieldMap;
use super::weight::weight;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Characters of a value shown.
const VALUE_CHARS_MAX: usize = 160;

/// What one side has for a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    Value(Value),
    /// The recorder tried and says why not.
    Unread(String),
    /// The field is not in the record at all.
    Absent,
}

impl Reading {
    pub fn of(value: &Value) -> Reading {
        match value.get("unread") {
            Some(why) => Reading::Unread(why.as_str().unwrap_or("no reason given").to_string()),
            None => Reading::Value(value.clone()),
        }
    }

    fn known(&self) -> bool {
        matches!(self, Reading::Value(_))
    }

    /// Whether it is written with a unit of memory.
    fn is_amount(&self) -> bool {
        let unit = |text: &str| text.split_whitespace().nth(1).map(str::to_ascii_lowercase);
        match self {
            Reading::Value(Value::String(text)) => unit(text).is_some_and(|unit| {
                ["b", "kb", "mb", "gb", "kib", "mib", "gib"].contains(&unit.as_str())
            }),
            _ => false,
        }
    }

    /// A number, also when it was read as text with a unit: `4999168 kB`.
    fn number(&self) -> Option<f64> {
        let Reading::Value(value) = self else {
            return None;
        };
        match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.split_whitespace().next()?.parse().ok(),
            _ => None,
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Reading::Value(Value::String(text)) => text.clone(),
            Reading::Value(value) => value.to_string(),
            Reading::Unread(why) => return write!(f, "not read: {why}"),
            Reading::Absent => return f.write_str("not in the record"),
        };
        let text = text.replace(['\n', '\r'], " ");
        match text.chars().count() > VALUE_CHARS_MAX {
            true => write!(
                f,
                "{}…",
                text.chars().take(VALUE_CHARS_MAX).collect::<String>()
            ),
            false => f.write_str(&text),
        }
    }
}

/// A field that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub group: String,
    pub field: String,
    pub a: Reading,
    pub b: Reading,
    /// 0 to 100: how likely it explains a different result.
    pub weight: f64,
    pub why: &'static str,
}

impl Difference {
    /// Whether only one side knows.
    pub fn one_sided(&self) -> bool {
        self.a.known() != self.b.known()
    }
}

/// All differences, the weightiest first. Fields that neither side could read are no difference.
pub fn differences(a: &FieldMap, b: &FieldMap) -> Vec<Difference> {
    let keys: std::collections::BTreeSet<&(String, String)> = a.keys().chain(b.keys()).collect();
    let mut all: Vec<Difference> = keys
        .into_iter()
        .filter_map(|key| {
            let side = |map: &FieldMap| map.get(key).cloned().unwrap_or(Reading::Absent);
            let (a, b) = (side(a), side(b));
            if a == b || !(a.known() || b.known()) {
                return None;
            }
            let (weight, why) = weight(&key.0, &key.1);
            Some(Difference {
                group: key.0.clone(),
                field: key.1.clone(),
                weight: weight * size(&key.0, &a, &b),
                a,
                b,
                why,
            })
        })
        .collect();
    all.sort_by(|x, y| {
        y.weight
            .total_cmp(&x.weight)
            .then_with(|| (&x.group, &x.field).cmp(&(&y.group, &y.field)))
    });
    all
}

/// How much of its weight a difference keeps: amounts a few percent apart explain little. Of a count of processors,
/// a setting, a version, any difference is one.
fn size(group: &str, a: &Reading, b: &Reading) -> f64 {
    if !(group.starts_with("during:") || a.is_amount() && b.is_amount()) {
        return 1.0;
    }
    let (Some(x), Some(y)) = (a.number(), b.number()) else {
        return 1.0;
    };
    let largest = x.abs().max(y.abs());
    match largest {
        0.0 => 0.05,
        largest => ((x - y).abs() / largest * 2.0).clamp(0.05, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(fields: &[(&str, &str, Value)]) -> FieldMap {
        let one = |(group, field, value): &(&str, &str, Value)| {
            ((group.to_string(), field.to_string()), Reading::of(value))
        };
        fields.iter().map(one).collect()
    }

    #[test]
    fn what_one_side_only_knows_is_a_finding() {
        let a = map(&[(
            "3 memory",
            "ShmemPmdMapped",
            json!({"unread": "nobody looked"}),
        )]);
        let b = map(&[("3 memory", "ShmemPmdMapped", json!("4999168 kB"))]);
        let d = differences(&a, &b);
        assert_eq!(d.len(), 1);
        assert!(d[0].one_sided());
        assert_eq!(d[0].a.to_string(), "not read: nobody looked");
        assert_eq!(differences(&a, &FieldMap::new()), []);
    }

    #[test]
    fn close_figures_weigh_little_and_far_ones_all() {
        let a = map(&[
            ("x", "MemTotal", json!("100 kB")),
            ("x", "n", json!(36)),
            ("during: x", "n", json!(1000)),
        ]);
        let b = map(&[
            ("x", "MemTotal", json!("101 kB")),
            ("x", "n", json!(35)),
            ("during: x", "n", json!(1001)),
        ]);
        let d = differences(&a, &b);
        let of = |group: &str, field: &str| {
            let found = d.iter().find(|d| d.field == field && d.group == group);
            found.unwrap().weight
        };
        assert!(of("x", "MemTotal") < 0.06 * 100.0);
        assert_eq!(of("x", "n"), weight("x", "n").0);
        assert!(of("during: x", "n") < 1.0);
    }

    #[test]
    fn long_values_are_cut() {
        let reading = Reading::Value(json!("x".repeat(1000)));
        assert_eq!(reading.to_string().chars().count(), VALUE_CHARS_MAX + 1);
    }
}
