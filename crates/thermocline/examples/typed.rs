//! A cache of Rust values with a codec of one's own: `cargo run --example typed`.
//! With the feature `serde`, `Postcard` is such a codec for everything serde can write.

use thermocline::{Cache, Codec, Config, Typed};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Position {
    latitude: f64,
    longitude: f64,
}

struct Positions;

impl Codec<str, Position> for Positions {
    type Error = String;

    fn encode_key(&self, city: &str, out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(city.as_bytes());
        Ok(())
    }

    fn encode_value(&self, at: &Position, out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(&at.latitude.to_le_bytes());
        out.extend_from_slice(&at.longitude.to_le_bytes());
        Ok(())
    }

    fn decode_value(&self, bytes: &[u8]) -> Result<Position, String> {
        let halves: Option<([u8; 8], [u8; 8])> = bytes
            .split_at_checked(8)
            .and_then(|(first, second)| Some((first.try_into().ok()?, second.try_into().ok()?)));
        let (latitude, longitude) = halves.ok_or("a position has 16 bytes")?;
        Ok(Position {
            latitude: f64::from_le_bytes(latitude),
            longitude: f64::from_le_bytes(longitude),
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::new(Config::new(64 << 20))?;
    let positions: Typed<str, Position, _> = Typed::new(cache, Positions);
    let turku = Position {
        latitude: 60.45,
        longitude: 22.27,
    };
    positions.set("Turku", &turku)?;
    assert_eq!(positions.get("Turku"), Some(turku));
    println!("Turku: {:?}", positions.get("Turku"));

    // Bytes that are no position: a miss, counted and removed, so that the next fill takes its place.
    positions.cache().set(b"Oulu", b"somewhere north")?;
    assert_eq!(positions.get("Oulu"), None);
    println!("{} value did not decode", positions.undecodable());
    Ok(())
}
