//! The flags of meta commands: one letter, some followed at once by an argument.
//!
//! Owns: reading them into one small struct and every refusal they can earn.
//! Leaves to others: what they do. Replies walk the words again, because flags come back in the order they were sent.

use super::{parse_i64, parse_u32, parse_u64, Refusal, Words};

/// memcached allows about twenty words a line; more is answered "options flags are too long".
pub const FLAGS_MAX: usize = 20;
/// The manual says 32, the server takes 31.
pub const OPAQUE_MAX: usize = 31;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StoreMode {
    #[default]
    Set,
    Add,
    Append,
    Prepend,
    Replace,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ArithMode {
    #[default]
    Up,
    Down,
}

/// Which command the flags belong to: it decides which letters exist and how errors are worded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Get,
    Set,
    Delete,
    Arith,
    Debug,
}

pub type MetaError = Refusal;

/// The flag words as they were sent, and which letters they begin with: all that a read has to know.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FlagWords<'a> {
    /// All of them, with the blanks before and between.
    pub raw: &'a [u8],
    /// One bit a letter seen: bit 0 = 'A' .. bit 57 = 'z'.
    seen: u64,
}

impl<'a> FlagWords<'a> {
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.seen & bit(letter) != 0
    }

    /// Whether one of them has the reply say something beside the value.
    #[inline]
    pub fn asks_for_facts(&self) -> bool {
        const FACTS: u64 = bits(b"cfhklstO");
        self.seen & FACTS != 0
    }

    /// Notes that a word with this letter was sent.
    #[inline]
    pub(super) fn add(&mut self, letter: u8) {
        self.seen |= bit(letter);
    }

    /// In the order they were sent.
    pub fn words(&self) -> Words<'a> {
        Words::new(self.raw)
    }

    pub fn quiet(&self) -> bool {
        self.has(b'q')
    }

    pub fn base64(&self) -> bool {
        self.has(b'b')
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub struct MetaFlags<'a> {
    pub sent: FlagWords<'a>,
    pub opaque: Option<&'a [u8]>,
    /// C: the token the item must have.
    pub compare: Option<u64>,
    /// E: the token the item gets.
    pub explicit: Option<u64>,
    /// F: client flags.
    pub client_flags: u32,
    /// T: time to live.
    pub ttl_s: Option<i64>,
    /// N: create when missing, with this time to live.
    pub vivify_s: Option<i64>,
    /// R: hand out a recache token when less than this is left.
    pub recache_s: Option<i64>,
    /// J: start value of a counter made by N.
    pub initial: u64,
    /// D: step of a counter.
    pub delta: Option<u64>,
    pub store_mode: StoreMode,
    pub arith_mode: ArithMode,
}

impl<'a> MetaFlags<'a> {
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.sent.has(letter)
    }

    /// Whether `first` was sent and `second` was not, or came after it: some flags take effect in the order they came.
    pub fn before(&self, first: u8, second: u8) -> bool {
        let mut words = self.sent.words().map(|word| word[0]);
        words.find(|&letter| letter == first || letter == second) == Some(first)
    }

    /// The time to live of an item that N makes: of T and N the later counts.
    pub fn made_ttl_s(&self) -> i64 {
        let (made, given) = (self.vivify_s.unwrap_or(0), self.ttl_s);
        match given {
            Some(ttl_s) if self.before(b'N', b'T') => ttl_s,
            _ => made,
        }
    }

    pub fn quiet(&self) -> bool {
        self.sent.quiet()
    }

    pub fn base64(&self) -> bool {
        self.sent.base64()
    }

    pub(super) fn parse(command: Command, words: Words<'a>) -> Result<MetaFlags<'a>, MetaError> {
        let mut flags = MetaFlags::default();
        flags.sent.raw = words.rest();
        if words.rest().len() > 2 * FLAGS_MAX && words.clone().count() > FLAGS_MAX {
            return Err(Refusal::new(b"CLIENT_ERROR options flags are too long"));
        }
        for word in words {
            flags.take(command, word)?;
        }
        Ok(flags)
    }

    fn take(&mut self, command: Command, word: &'a [u8]) -> Result<(), MetaError> {
        let (letter, argument) = (word[0], &word[1..]);
        if !known(command, letter) {
            return Err(command.unknown_flag());
        }
        if self.has(letter) {
            return Err(command.duplicate_flag());
        }
        self.sent.add(letter);
        match letter {
            b'O' if argument.len() > OPAQUE_MAX => {
                return Err(Refusal::new(b"CLIENT_ERROR opaque token too long"))
            }
            b'O' => self.opaque = Some(argument),
            b'C' => {
                let token = parse_u64(argument).ok_or(command.bad_number())?;
                // To a counter the token 0 is none.
                self.compare = Some(token).filter(|&token| token > 0 || command != Command::Arith);
            }
            b'E' => self.explicit = Some(parse_u64(argument).ok_or(command.bad_number())?),
            b'T' => self.ttl_s = Some(parse_i64(argument).ok_or(command.bad_number())?),
            b'N' => self.vivify_s = Some(parse_i64(argument).ok_or(command.bad_number())?),
            b'R' => self.recache_s = Some(parse_i64(argument).ok_or(command.bad_number())?),
            b'J' => {
                let wrong = command.wrong(b"CLIENT_ERROR invalid numeric initial value");
                self.initial = parse_u64(argument).ok_or(wrong)?;
            }
            b'D' => {
                let wrong = command.wrong(b"CLIENT_ERROR invalid numeric delta value");
                self.delta = Some(parse_u64(argument).ok_or(wrong)?);
            }
            b'F' => {
                let wrong = command.wrong(Refusal::BAD_LINE.answer);
                self.client_flags = parse_u32(argument).ok_or(wrong)?;
            }
            b'M' => self.take_mode(command, argument)?,
            _ => {}
        }
        Ok(())
    }

    fn take_mode(&mut self, command: Command, argument: &[u8]) -> Result<(), MetaError> {
        if matches!(command, Command::Get | Command::Delete) {
            return Ok(());
        }
        let Some(&mode) = argument.first() else {
            return Err(command.wrong(b"CLIENT_ERROR incorrect length for M token"));
        };
        if command == Command::Arith {
            self.arith_mode = match mode {
                b'I' | b'+' => ArithMode::Up,
                b'D' | b'-' => ArithMode::Down,
                _ => return Err(Refusal::new(b"CLIENT_ERROR invalid mode for ma M token")),
            };
            return Ok(());
        }
        self.store_mode = match mode {
            b'S' => StoreMode::Set,
            b'E' => StoreMode::Add,
            b'A' => StoreMode::Append,
            b'P' => StoreMode::Prepend,
            b'R' => StoreMode::Replace,
            _ => return Err(Refusal::new(b"CLIENT_ERROR invalid mode for ms M token")),
        };
        Ok(())
    }
}

impl Command {
    /// memcached has one word for all that is wrong with the flags of `md` and `ma`.
    fn wrong(self, answer: &'static [u8]) -> MetaError {
        match self {
            Command::Delete | Command::Arith => Refusal::BAD_FLAG,
            _ => Refusal::new(answer),
        }
    }

    fn unknown_flag(self) -> MetaError {
        self.wrong(b"CLIENT_ERROR invalid flag")
    }

    fn duplicate_flag(self) -> MetaError {
        self.wrong(b"CLIENT_ERROR duplicate flag")
    }

    fn bad_number(self) -> MetaError {
        self.wrong(b"CLIENT_ERROR bad token in command line format")
    }
}

#[inline]
const fn bit(letter: u8) -> u64 {
    1u64 << (letter.wrapping_sub(b'A') as u32 & 63)
}

/// Every command knows the flags of all others and leaves those alone that are not its own. P and L are proxy hints:
/// accepted and ignored everywhere.
fn known(command: Command, letter: u8) -> bool {
    const LETTERS: u64 = bits(b"bcfhklqstuvxCDEFIJLMNOPRT");
    letter.is_ascii_alphabetic() && (command == Command::Debug || LETTERS & bit(letter) != 0)
}

const fn bits(letters: &[u8]) -> u64 {
    let (mut bits, mut at) = (0, 0);
    while at < letters.len() {
        bits |= bit(letters[at]);
        at += 1;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(command: Command, line: &[u8]) -> Result<MetaFlags<'_>, MetaError> {
        MetaFlags::parse(command, Words::new(line))
    }

    fn answer(command: Command, line: &[u8]) -> &'static [u8] {
        parse(command, line).expect_err("must be refused").answer
    }

    #[test]
    fn arguments_are_read() {
        let flags = parse(Command::Set, b"T-1 F7 C18446744073709551615 E5 MA Oxyz q k").unwrap();
        assert_eq!(flags.ttl_s, Some(-1));
        assert_eq!(flags.client_flags, 7);
        assert_eq!(flags.compare, Some(u64::MAX));
        assert_eq!(flags.explicit, Some(5));
        assert_eq!(flags.store_mode, StoreMode::Append);
        assert_eq!(flags.opaque, Some(b"xyz".as_slice()));
        assert!(flags.quiet() && flags.has(b'k') && !flags.has(b'v'));
    }

    #[test]
    fn letters_after_a_flag_without_argument_are_ignored() {
        assert!(parse(Command::Get, b"vvv").unwrap().has(b'v'));
    }

    #[test]
    fn refusals_are_worded_as_memcached_words_them() {
        assert_eq!(answer(Command::Get, b"!"), b"CLIENT_ERROR invalid flag");
        assert_eq!(answer(Command::Get, b"v v"), b"CLIENT_ERROR duplicate flag");
        assert_eq!(
            answer(Command::Arith, b"!"),
            b"CLIENT_ERROR invalid or duplicate flag"
        );
        assert_eq!(
            answer(Command::Get, b"T"),
            b"CLIENT_ERROR bad token in command line format"
        );
        assert_eq!(
            answer(Command::Set, b"F4294967296"),
            b"CLIENT_ERROR bad command line format"
        );
        assert_eq!(
            answer(Command::Set, b"Ms"),
            b"CLIENT_ERROR invalid mode for ms M token"
        );
        assert_eq!(
            answer(Command::Get, b"O12345678901234567890123456789012"),
            b"CLIENT_ERROR opaque token too long"
        );
        let many = b"v ".repeat(30);
        assert_eq!(
            answer(Command::Get, &many),
            b"CLIENT_ERROR options flags are too long"
        );
    }

    #[test]
    fn what_counts_of_two_times_is_what_comes_later() {
        let made = |line: &'static [u8]| parse(Command::Get, line).unwrap().made_ttl_s();
        assert_eq!(made(b"N30"), 30);
        assert_eq!(made(b"v N30 t T100"), 100);
        assert_eq!(made(b"T100 k N30"), 30);
        let flags = parse(Command::Get, b"k R5 v T9").unwrap();
        assert!(flags.before(b'R', b'T') && !flags.before(b'T', b'R'));
        assert!(flags.before(b'R', b'N') && !flags.before(b'N', b'R'));
    }

    #[test]
    fn a_counter_has_no_token_0() {
        assert_eq!(parse(Command::Arith, b"C0").unwrap().compare, None);
        assert_eq!(parse(Command::Delete, b"C0").unwrap().compare, Some(0));
    }

    #[test]
    fn every_letter_has_its_own_bit() {
        let mut all = 0u64;
        for letter in (b'A'..=b'Z').chain(b'a'..=b'z') {
            assert_eq!(all & bit(letter), 0);
            all |= bit(letter);
        }
    }
}
