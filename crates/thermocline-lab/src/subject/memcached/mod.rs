//! Any memcached server as a subject, by its text or meta protocol, over TCP or a unix socket: one that runs
//! already, or one started for the point.

mod flight;
mod request;
mod worker;

use super::recipe::{Recipe, StartContext, Works};
use super::server::{Server, ServerPlan};
use super::slow_store::SlowStore;
use super::{Subject, Worker};
use crate::load::target::{Family, Place, Target};
use crate::settings::Settings;
use anyhow::{bail, Context, Result};
use request::Dialect;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::sync::Mutex;
use std::time::Duration;
use worker::MemcachedWorker;

/// Most connections of a point.
const CONNECTIONS_MAX: u64 = 10_000;
const PIPELINE_MAX: u64 = 10_000;

/// How operations travel.
#[derive(Clone, Debug)]
struct Manner {
    dialect: Dialect,
    /// Over all workers; at least one each.
    connections: usize,
    /// Requests under way on a connection.
    pipeline: usize,
    /// A connection without a byte for so long has failed.
    timeout: Duration,
    fill: bool,
    miss_cost: Option<Duration>,
    /// `Update` is memcached's REPLACE.
    replace: bool,
}

/// A server that runs, or one to start.
enum Where {
    Running { address: String, pid: Option<u32> },
    Started(ServerPlan),
}

/// Checked settings.
pub struct MemcachedRecipe {
    place: Where,
    manner: Manner,
}

impl MemcachedRecipe {
    /// `kind = "memcached"`: `address`, and `pid` for its CPU.
    pub fn read_running(settings: &mut Settings) -> Result<Self> {
        let Some(address) = settings.text("address")? else {
            return Err(settings.missing(
                "address",
                "memcached://127.0.0.1:11211 or unix:///run/cache.sock",
            ));
        };
        let pid = settings.count("pid")?;
        let manner = Manner::read(settings)?;
        targets(&address).with_context(|| format!("`{}`", settings.name("address")))?;
        Ok(MemcachedRecipe {
            place: Where::Running {
                address,
                pid: pid.and_then(|pid| u32::try_from(pid).ok()),
            },
            manner,
        })
    }

    /// `kind = "server"`: see [`ServerPlan`].
    pub fn read_started(settings: &mut Settings) -> Result<Self> {
        Ok(MemcachedRecipe {
            manner: Manner::read(settings)?,
            place: Where::Started(ServerPlan::read(settings)?),
        })
    }

    fn connections(&self, workers: usize) -> usize {
        self.manner.connections.max(workers)
    }
}

impl Manner {
    fn read(settings: &mut Settings) -> Result<Manner> {
        let bounded = |settings: &mut Settings, key, usual, max| -> Result<usize> {
            match settings.count(key)?.unwrap_or(usual) {
                count if (1..=max).contains(&count) => Ok(count as usize),
                _ => bail!("`{}` lies between 1 and {max}", settings.name(key)),
            }
        };
        Ok(Manner {
            dialect: settings
                .choice(
                    "protocol",
                    &[
                        ("text", Dialect::Text),
                        ("multi-get", Dialect::MultiGet),
                        ("meta", Dialect::Meta),
                    ],
                )?
                .unwrap_or(Dialect::Text),
            connections: bounded(settings, "connections", 16, CONNECTIONS_MAX)?,
            pipeline: bounded(settings, "pipeline", 1, PIPELINE_MAX)?,
            timeout: settings
                .duration("timeout")?
                .unwrap_or(Duration::from_secs(10))
                .max(Duration::from_millis(10)),
            fill: settings.truth("fill")?.unwrap_or(true),
            miss_cost: settings
                .duration("miss_cost")?
                .filter(|cost| !cost.is_zero()),
            replace: settings
                .choice("update", &[("set", false), ("replace", true)])?
                .unwrap_or(false),
        })
    }
}

fn targets(address: &str) -> Result<Vec<Target>> {
    let targets = Target::parse_all(address)?;
    if targets[0].family != Family::Memcached {
        bail!("begin the address with memcached:// or unix://");
    }
    Ok(targets)
}

impl Recipe for MemcachedRecipe {
    fn start(&self, context: &StartContext) -> Result<Box<dyn Subject>> {
        let (address, pid, server) = match &self.place {
            Where::Running { address, pid } => (address.clone(), *pid, None),
            Where::Started(plan) => {
                let server = plan.start(&context.scratch, &context.members)?;
                (server.address.clone(), Some(server.pid()), Some(server))
            }
        };
        Ok(Box::new(MemcachedSubject {
            targets: targets(&address)?,
            address,
            pid,
            server,
            manner: Manner {
                connections: self.connections(context.workers),
                ..self.manner.clone()
            },
            workers: context.workers,
            store: self.manner.miss_cost.map(SlowStore::new),
            check: context.is_stamped,
            value_bytes_max: context.value_bytes_max,
            seed: context.seed,
            stats: Mutex::new(None),
        }))
    }

    fn is_server(&self) -> bool {
        true
    }

    fn works(&self) -> Works {
        match self.place {
            Where::Running { .. } => Works::Elsewhere,
            Where::Started(_) => Works::Started,
        }
    }

    fn concurrency(&self, workers: usize) -> usize {
        self.connections(workers) * self.manner.pipeline
    }
}

/// A server under measurement.
pub(super) struct MemcachedSubject {
    targets: Vec<Target>,
    address: String,
    pid: Option<u32>,
    server: Option<Server>,
    manner: Manner,
    workers: usize,
    store: Option<SlowStore>,
    check: bool,
    value_bytes_max: u32,
    seed: u64,
    /// A connection of its own for `stats`.
    stats: Mutex<Option<StatsDoor>>,
}

type StatsDoor = BufReader<Box<dyn Door>>;

/// A blocking stream of either kind.
trait Door: std::io::Read + Write + Send {}
impl<T: std::io::Read + Write + Send> Door for T {}

/// How long `stats` may take, and be missing for a tick.
const STATS_MAX: Duration = Duration::from_millis(500);

/// Of what `stats` says, the counters and gauges worth a line.
const COUNTERS: [&str; 12] = [
    "cmd_get",
    "cmd_set",
    "get_hits",
    "get_misses",
    "evictions",
    "reclaimed",
    "total_items",
    "expired_unfetched",
    "evicted_unfetched",
    "bytes_read",
    "bytes_written",
    "store_no_memory",
];
const GAUGES: [&str; 4] = ["curr_items", "bytes", "limit_maxbytes", "curr_connections"];

impl MemcachedSubject {
    fn door(&self) -> Result<StatsDoor> {
        let stream: Box<dyn Door> = match &self.targets[0].place {
            Place::Tcp(address) => {
                let stream = std::net::TcpStream::connect_timeout(address, STATS_MAX)?;
                stream.set_read_timeout(Some(STATS_MAX))?;
                Box::new(stream)
            }
            Place::Unix(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path)?;
                stream.set_read_timeout(Some(STATS_MAX))?;
                Box::new(stream)
            }
        };
        Ok(BufReader::new(stream))
    }

    fn stats(&self) -> Result<BTreeMap<String, f64>> {
        let mut held = self
            .stats
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // Taken out: a door on which something failed is not used again.
        let mut door = match held.take() {
            Some(door) => door,
            None => self.door()?,
        };
        door.get_mut().write_all(b"stats\r\n")?;
        let mut values = BTreeMap::new();
        // A server says some hundred lines.
        for _ in 0..10_000 {
            let mut line = String::new();
            if door.read_line(&mut line)? == 0 {
                bail!("the server closed the connection");
            }
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some("END"), ..) => {
                    *held = Some(door);
                    return Ok(values);
                }
                (Some("STAT"), Some(name), Some(value)) => note(name, value, &mut values),
                _ => bail!("`stats` was answered with `{}`", line.trim()),
            }
        }
        bail!("`stats` has no end")
    }
}

fn note(name: &str, value: &str, values: &mut BTreeMap<String, f64>) {
    let Ok(value) = value.parse::<f64>() else {
        return;
    };
    if COUNTERS.contains(&name) {
        values.insert(format!("server_{name}_total"), value);
    } else if GAUGES.contains(&name) {
        values.insert(format!("server_{name}"), value);
    }
}

impl Subject for MemcachedSubject {
    fn worker(&self, id: usize) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(MemcachedWorker::open(self, id)?))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        // A server too busy to say leaves a gap in its line.
        let mut counters = self.stats().unwrap_or_default();
        if let Some(store) = &self.store {
            let (reads, waited_ns) = store.account();
            counters.insert("store_reads_total".into(), reads as f64);
            counters.insert("store_waited_seconds_total".into(), waited_ns as f64 / 1e9);
        }
        counters
    }

    fn facts(&self) -> BTreeMap<String, Value> {
        let mut facts: BTreeMap<String, Value> = [
            ("engine", Value::from("memcached")),
            ("protocol", Value::from(self.manner.dialect.name())),
            ("connections", Value::from(self.manner.connections)),
            ("pipeline", Value::from(self.manner.pipeline)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into();
        match &self.server {
            Some(server) => {
                facts.insert("command".into(), Value::from(server.template.clone()));
                facts.insert("version".into(), Value::from(server.version.clone()));
            }
            None => drop(facts.insert("address".into(), Value::from(self.address.clone()))),
        }
        facts
    }

    fn pid(&self) -> Option<u32> {
        self.pid
    }

    fn health(&self) -> Result<()> {
        self.server.as_ref().map_or(Ok(()), Server::health)
    }

    fn stop(self: Box<Self>) -> Result<()> {
        match self.server {
            Some(server) => server.stop(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
