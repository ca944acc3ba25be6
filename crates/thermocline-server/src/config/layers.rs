//! From four layers to one `Settings`: defaults, file, environment, flags; the later wins.
//!
//! Must hold: a name we do not know is refused in every layer, with the nearest one we do know.

use super::{key, nearest, Key, Settings, KEYS};
use clap::{Arg, ArgMatches};
use std::fmt;
use std::path::{Path, PathBuf};

/// What was at fault and where it was written.
#[derive(Debug)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// The raw layers, before they are laid on each other.
#[derive(Default)]
pub struct Layers {
    pub file: Option<PathBuf>,
    pub environment: Vec<(String, String)>,
    /// Setting name and text.
    pub flags: Vec<(&'static str, String)>,
}

/// One clap argument per row of the table.
pub fn flags() -> impl Iterator<Item = Arg> {
    KEYS.iter().map(|key| {
        Arg::new(key.name)
            .long(key.flag())
            .value_name(key.value)
            .help(key.help)
            .num_args(1)
            // So that -5 is refused as a value, by name.
            .allow_negative_numbers(true)
            .action(clap::ArgAction::Append)
    })
}

impl Layers {
    /// The layers of this process: its parsed flags and its environment.
    pub fn of_process(matches: &ArgMatches) -> Layers {
        let flags = KEYS
            .iter()
            .filter_map(|key| {
                let values: Vec<&String> = matches.get_many(key.name)?.collect();
                let text: Vec<&str> = values.iter().map(|v| v.as_str()).collect();
                Some((key.name, repeated(key, &text)))
            })
            .collect();
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("THERMOCLINE_"))
            .collect();
        Layers {
            file: matches.get_one::<PathBuf>("config").cloned(),
            environment,
            flags,
        }
    }
}

/// Listeners may be given several times; of anything else the last one counts.
fn repeated(key: &Key, values: &[&str]) -> String {
    match key.name {
        "memcached" | "http" => values.join(","),
        _ => values.last().copied().unwrap_or_default().to_string(),
    }
}

/// Lays the layers on each other and checks the whole.
pub fn resolve(layers: &Layers) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    let file = layers.file.clone().or_else(|| {
        let named = layers
            .environment
            .iter()
            .find(|(name, _)| name == CONFIG_VARIABLE);
        named.map(|(_, path)| PathBuf::from(path))
    });
    if let Some(path) = &file {
        apply_file(&mut settings, path)?;
    }
    for (name, value) in &layers.environment {
        apply_environment(&mut settings, name, value)?;
    }
    for (name, value) in &layers.flags {
        let key = key(name).expect("flags are made from the table");
        apply(&mut settings, key, value, &format!("--{}", key.flag()))?;
    }
    settings.check().map_err(ConfigError)?;
    Ok(settings)
}

pub(super) const CONFIG_VARIABLE: &str = "THERMOCLINE_CONFIG";
/// Names under our prefix that are not settings: the file's name, and what tests and the daemon use.
const OTHER_VARIABLES: [&str; 5] = [
    CONFIG_VARIABLE,
    "THERMOCLINE_TEST_VENV",
    "THERMOCLINE_REQUIRE_CLIENTS",
    "THERMOCLINE_TAMED",
    "THERMOCLINE_TEST_SERVER",
];

fn apply_environment(settings: &mut Settings, name: &str, value: &str) -> Result<(), ConfigError> {
    if OTHER_VARIABLES.contains(&name) {
        return Ok(());
    }
    match KEYS.iter().find(|key| key.environment() == name) {
        Some(key) => apply(settings, key, value, name),
        None => {
            let known: Vec<String> = KEYS.iter().map(Key::environment).collect();
            let near = nearest(name, known.iter().map(String::as_str));
            Err(unknown("environment variable", name, near))
        }
    }
}

fn apply_file(settings: &mut Settings, path: &Path) -> Result<(), ConfigError> {
    let place = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError(format!("{place}: cannot be read: {error}")))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| ConfigError(format!("{place}: {error}")))?;
    for (name, value) in &table {
        let Some(key) = key(name) else {
            let near = nearest(name, KEYS.iter().map(|key| key.name));
            return Err(unknown(&format!("{place}: key"), name, near));
        };
        let text = toml_text(value).ok_or_else(|| {
            ConfigError(format!(
                "{place}: {name} must be a string, number, boolean or list of strings"
            ))
        })?;
        apply(settings, key, &text, &format!("{place}: {name}"))?;
    }
    Ok(())
}

fn toml_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        toml::Value::Array(parts) => {
            let parts: Option<Vec<&str>> = parts.iter().map(toml::Value::as_str).collect();
            parts.map(|parts| parts.join(","))
        }
        _ => None,
    }
}

fn apply(settings: &mut Settings, key: &Key, text: &str, place: &str) -> Result<(), ConfigError> {
    (key.set)(settings, text).map_err(|error| ConfigError(format!("{place}: {error}")))
}

fn unknown(what: &str, name: &str, near: Option<&str>) -> ConfigError {
    let hint = near.map_or_else(
        || "see `thermocline serve --help` for all settings".to_string(),
        |near| format!("did you mean {near}?"),
    );
    ConfigError(format!("{what} {name} is unknown: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("thermocline-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    fn environment(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_string(), value.to_string())]
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let path = file(
            "order",
            "memory = \"100MiB\"\nthreads = 3\nconnections_max = 7\n",
        );
        let layers = Layers {
            file: Some(path.clone()),
            environment: [
                environment("THERMOCLINE_MEMORY", "200MiB"),
                environment("THERMOCLINE_THREADS", "5"),
            ]
            .concat(),
            flags: vec![("memory", "300MiB".into())],
        };
        let settings = resolve(&layers).unwrap();
        assert_eq!(settings.memory, 300 << 20);
        assert_eq!(settings.threads, 5);
        assert_eq!(settings.connections_max, 7);
        assert_eq!(settings.key_size_max, 250);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn unknown_names_are_refused_with_the_nearest() {
        let path = file("typo", "memmory = \"1GiB\"\n");
        let layers = Layers {
            file: Some(path.clone()),
            ..Layers::default()
        };
        let error = resolve(&layers).unwrap_err().to_string();
        assert!(
            error.contains("memmory") && error.contains("did you mean memory?"),
            "{error}"
        );
        std::fs::remove_file(path).unwrap();

        let layers = Layers {
            environment: environment("THERMOCLINE_TREADS", "2"),
            ..Layers::default()
        };
        let error = resolve(&layers).unwrap_err().to_string();
        assert!(
            error.contains("did you mean THERMOCLINE_THREADS?"),
            "{error}"
        );
    }

    #[test]
    fn bad_values_name_their_place() {
        let layers = Layers {
            flags: vec![("threads", "0".into())],
            ..Layers::default()
        };
        let error = resolve(&layers).unwrap_err().to_string();
        assert!(
            error.starts_with("--threads: 0 is out of bounds"),
            "{error}"
        );
    }

    #[test]
    fn the_printed_configuration_reads_back_the_same() {
        let layers = Layers {
            flags: vec![
                ("memory", "123MiB".into()),
                ("memcached", "127.0.0.1:1,unix:/tmp/a b\"c".into()),
                ("http", "none".into()),
                ("unix_mode", "660".into()),
            ],
            ..Layers::default()
        };
        let printed = resolve(&layers).unwrap().to_toml();
        let path = file("round", &printed);
        let again = resolve(&Layers {
            file: Some(path.clone()),
            ..Layers::default()
        });
        assert_eq!(again.unwrap().to_toml(), printed);
        std::fs::remove_file(path).unwrap();
    }
}
