//! The two lines that most requests are, read in one pass: `get` of one key, and `mg` whose flags only read.
//!
//! Must hold: a line taken here is read as `split_line` and `parse` read it. Every other line is left to them, however
//! little is odd about it.

use super::{word_end, FlagWords, OPAQUE_MAX};

/// A request for one key that changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read<'a> {
    Get(&'a [u8]),
    /// `mg`: the key stands on the wire as it is.
    Meta {
        key: &'a [u8],
        flags: FlagWords<'a>,
    },
}

/// The request that `input` begins with, and how many bytes its line takes. None: `parse` has to look.
#[inline]
pub fn quick_read(input: &[u8], key_size_max: usize) -> Option<(Read<'_>, usize)> {
    let (input_bytes, is_get) = (input.len(), input.starts_with(b"get "));
    let rest = match is_get {
        true => &input[4..],
        false => input.strip_prefix(b"mg ")?,
    };
    let (key, rest) = rest.split_at(word_end(rest));
    if key.is_empty() || key.len() > key_size_max {
        return None;
    }
    let (read, rest) = match is_get {
        true => (Read::Get(key), rest),
        false => {
            let (flags, rest) = plain_flags(rest)?;
            (Read::Meta { key, flags }, rest)
        }
    };
    let rest = rest.strip_prefix(b"\r\n")?;
    Some((read, input_bytes - rest.len()))
}

/// The flags of an `mg` that only reads, each after one blank and none twice, and what follows them.
#[inline]
fn plain_flags(input: &[u8]) -> Option<(FlagWords<'_>, &[u8])> {
    let mut flags = FlagWords::default();
    let mut at = 0;
    while let [b' ', letter, after @ ..] = &input[at..] {
        let argument_bytes = match letter {
            b'c' | b'f' | b'h' | b'k' | b'l' | b'q' | b's' | b't' | b'u' | b'v' => 0,
            b'O' => word_end(after),
            _ => return None,
        };
        if flags.has(*letter) || argument_bytes > OPAQUE_MAX {
            return None;
        }
        flags.add(*letter);
        at += 2 + argument_bytes;
    }
    flags.raw = &input[..at];
    Some((flags, &input[at..]))
}

#[cfg(test)]
mod tests {
    use super::super::{parse, random, split_line, Limits, Request};
    use super::*;

    const LIMITS: Limits = Limits {
        key_size_max: 20,
        keys_max: 10,
    };

    /// What the general way makes of the same input, if it is a read of one key.
    fn slowly(input: &[u8]) -> Option<(Read<'_>, usize)> {
        let (line, bytes) = split_line(input)?;
        match parse(line, LIMITS).ok()? {
            Request::Get(mut get) => {
                let key = get.keys.next()?;
                let one = get.keys.next().is_none() && !get.token;
                one.then_some((Read::Get(key), bytes))
            }
            Request::MetaGet(meta) => {
                let (key, flags) = (meta.key, meta.flags.sent);
                Some((Read::Meta { key, flags }, bytes))
            }
            _ => None,
        }
    }

    #[test]
    fn usual_lines_are_taken() {
        for (line, bytes) in [
            ("get key\r\n", 9),
            ("get \u{e9}\r\nget b\r\n", 8),
            ("get 12345678\r\n", 14),
            ("mg key v\r\nmg", 10),
            ("mg key\r\n", 8),
            ("mg key k q O123 v\r\n", 19),
        ] {
            let (_, taken) = quick_read(line.as_bytes(), 20).expect(line);
            assert_eq!(taken, bytes, "{line:?}");
        }
    }

    #[test]
    fn all_else_is_left() {
        for line in [
            "get key",
            "get key\r",
            "get key\n",
            "get a b\r\n",
            "get  a\r\n",
            "get a \r\n",
            "get \r\n",
            "gets a\r\n",
            "get 123456789012345678901\r\n",
            "mg key T30 v\r\n",
            "mg key v v\r\n",
            "mg key vv\r\n",
            "mg key b\r\n",
            "mg key v \r\n",
            "mg key\n",
            "mg \r\n",
            "mg key O12345678901234567890123456789012\r\n",
        ] {
            assert!(quick_read(line.as_bytes(), 20).is_none(), "{line:?}");
        }
    }

    /// Whatever is taken is what the general way reads.
    #[test]
    fn random_lines_are_read_as_the_general_way_reads_them() {
        let mut next = random(0x9a5e);
        let pieces: [&[u8]; 16] = [
            b" ",
            b" v",
            b" k",
            b" O12",
            b" q",
            b" T3",
            b"k",
            b"abcdefgh",
            b"\t",
            b"\0",
            b"\x1f",
            b"\x80\xff",
            b"!",
            b"\r",
            b"\n",
            b"\r\n",
        ];
        let mut taken = 0;
        for _ in 0..200_000 {
            let mut input =
                [b"get a".as_slice(), b"mg a", b"get ", b"mg "][next() as usize % 4].to_vec();
            for _ in 0..next() % 6 {
                input.extend_from_slice(pieces[next() as usize % pieces.len()]);
            }
            input.extend_from_slice(b"\r\n");
            if let Some(quick) = quick_read(&input, LIMITS.key_size_max) {
                taken += 1;
                let slow = slowly(&input).expect("a read for the general way, too");
                assert_eq!(quick, slow, "{input:?}");
            }
        }
        assert!(taken > 10_000, "{taken}");
    }
}
