//! The C libraries' calls that no crate wraps: LZ4 blocks with a dictionary, and the tables zstd puts before a
//! dictionary's content.
//!
//! Owns all unsafe code of the codecs. A prepared dictionary is read by many threads at once and never
//! written after it was made; working memory belongs to one thread. Must hold: the dictionary's bytes
//! outlive and never move under its prepared tables, which the types here see to by owning both.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

// Links the library; the declarations below are those it leaves out.
use lz4_sys as _;
use zstd_safe::zstd_sys;

extern "C" {
    fn LZ4_createStream() -> *mut c_void;
    fn LZ4_freeStream(stream: *mut c_void) -> c_int;
    fn LZ4_loadDictSlow(stream: *mut c_void, dictionary: *const c_char, bytes: c_int) -> c_int;
    fn LZ4_resetStream_fast(stream: *mut c_void);
    fn LZ4_attach_dictionary(working: *mut c_void, dictionary: *const c_void);
    fn LZ4_compress_fast_continue(
        stream: *mut c_void,
        source: *const c_char,
        target: *mut c_char,
        source_bytes: c_int,
        target_bytes: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe_usingDict(
        source: *const c_char,
        target: *mut c_char,
        source_bytes: c_int,
        target_bytes: c_int,
        dictionary: *const c_char,
        dictionary_bytes: c_int,
    ) -> c_int;
    fn LZ4_createStreamHC() -> *mut c_void;
    fn LZ4_freeStreamHC(stream: *mut c_void) -> c_int;
    fn LZ4_resetStreamHC_fast(stream: *mut c_void, level: c_int);
    fn LZ4_loadDictHC(stream: *mut c_void, dictionary: *const c_char, bytes: c_int) -> c_int;
    fn LZ4_attach_HC_dictionary(working: *mut c_void, dictionary: *const c_void);
    fn LZ4_compress_HC_continue(
        stream: *mut c_void,
        source: *const c_char,
        target: *mut c_char,
        source_bytes: c_int,
        target_bytes: c_int,
    ) -> c_int;
}

/// Which of the library's two searches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Search {
    Fast,
    /// Hash chains at this level (2 to 12).
    High(i32),
}

/// One of the library's streams: working memory, or the tables of a dictionary.
struct Stream {
    raw: NonNull<c_void>,
    search: Search,
}

// SAFETY: a stream is plain memory of its owner; the library keeps no thread-bound state in it.
unsafe impl Send for Stream {}

impl Stream {
    fn new(search: Search) -> Stream {
        let raw = match search {
            // SAFETY: allocates, no precondition.
            Search::Fast => unsafe { LZ4_createStream() },
            // SAFETY: allocates, no precondition.
            Search::High(_) => unsafe { LZ4_createStreamHC() },
        };
        let raw = NonNull::new(raw).expect("memory for an LZ4 stream (16 or 256 KiB)");
        Stream { raw, search }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        match self.search {
            // SAFETY: `raw` came from LZ4_createStream and is freed once.
            Search::Fast => unsafe { LZ4_freeStream(self.raw.as_ptr()) },
            // SAFETY: `raw` came from LZ4_createStreamHC and is freed once.
            Search::High(_) => unsafe { LZ4_freeStreamHC(self.raw.as_ptr()) },
        };
    }
}

/// The search tables of a dictionary, with the bytes they point into.
pub(super) struct Tables {
    stream: Stream,
    /// Never read here: kept because the tables point into it.
    _bytes: std::sync::Arc<[u8]>,
}

// SAFETY: after `Tables::new` the stream is only read: attached dictionaries are `const` to the library.
unsafe impl Sync for Tables {}

impl Tables {
    /// Indexes the last 64 KiB of `bytes`, every position of them.
    pub(super) fn new(search: Search, bytes: std::sync::Arc<[u8]>) -> Tables {
        let stream = Stream::new(search);
        let length = c_int::try_from(bytes.len()).expect("dictionaries are at most 64 KiB");
        let (raw, start) = (stream.raw.as_ptr(), bytes.as_ptr().cast());
        match search {
            // SAFETY: a live stream of this kind, and `length` readable bytes that outlive it.
            Search::Fast => unsafe { LZ4_loadDictSlow(raw, start, length) },
            Search::High(level) => {
                // SAFETY: a live stream of this kind.
                unsafe { LZ4_resetStreamHC_fast(raw, level) };
                // SAFETY: as above, and `length` readable bytes that outlive the stream.
                unsafe { LZ4_loadDictHC(raw, start, length) }
            }
        };
        Tables {
            stream,
            _bytes: bytes,
        }
    }
}

/// Working memory of one thread for one search.
pub(super) struct WorkingStream(Stream);

impl WorkingStream {
    pub(super) fn new(search: Search) -> WorkingStream {
        WorkingStream(Stream::new(search))
    }

    /// Compresses `source` against `tables` into `target` and returns the bytes written. `target` must be
    /// as long as the library's bound for `source`, so that this cannot fail: a failed call would leave
    /// the working memory unusable.
    pub(super) fn compress(&mut self, tables: &Tables, source: &[u8], target: &mut [u8]) -> usize {
        assert!(tables.stream.search == self.0.search);
        assert!(target.len() >= bound(source.len()));
        let source_bytes = c_int::try_from(source.len()).expect("at most 512 KiB");
        let target_bytes = c_int::try_from(target.len()).expect("the bound of 512 KiB");
        let (raw, dictionary) = (self.0.raw.as_ptr(), tables.stream.raw.as_ptr());
        let (from, to) = (source.as_ptr().cast(), target.as_mut_ptr().cast());
        let written = match self.0.search {
            Search::Fast => {
                // SAFETY: a live stream that no failed call has touched.
                unsafe { LZ4_resetStream_fast(raw) };
                // SAFETY: both are live streams of this kind; the dictionary is only read.
                unsafe { LZ4_attach_dictionary(raw, dictionary) };
                // SAFETY: source and target are readable and writable for the lengths given.
                unsafe { LZ4_compress_fast_continue(raw, from, to, source_bytes, target_bytes, 1) }
            }
            Search::High(level) => {
                // SAFETY: a live stream that no failed call has touched.
                unsafe { LZ4_resetStreamHC_fast(raw, level) };
                // SAFETY: both are live streams of this kind; the dictionary is only read.
                unsafe { LZ4_attach_HC_dictionary(raw, dictionary) };
                // SAFETY: source and target are readable and writable for the lengths given.
                unsafe { LZ4_compress_HC_continue(raw, from, to, source_bytes, target_bytes) }
            }
        };
        assert!(written > 0, "the target holds the bound");
        written as usize
    }
}

/// Appends to `value` the `plain_bytes` (at most 512 KiB) of a block that was made with `dictionary`. False, and
/// nothing appended: the block is damaged. The library checks each read and write against the lengths it is given,
/// whatever the bytes.
pub(super) fn decompress(
    block: &[u8],
    dictionary: &[u8],
    plain_bytes: usize,
    value: &mut Vec<u8>,
) -> bool {
    let lengths = [block.len(), dictionary.len(), plain_bytes].map(c_int::try_from);
    let [Ok(block_bytes), Ok(dictionary_bytes), Ok(target_bytes)] = lengths else {
        return false;
    };
    let before = value.len();
    value.reserve(plain_bytes);
    let target = value.spare_capacity_mut()[..plain_bytes].as_mut_ptr();
    // SAFETY: block and dictionary are readable, and the slice of spare room writable, for the lengths given.
    let written = unsafe {
        LZ4_decompress_safe_usingDict(
            block.as_ptr().cast(),
            target.cast(),
            block_bytes,
            target_bytes,
            dictionary.as_ptr().cast(),
            dictionary_bytes,
        )
    };
    if written != target_bytes {
        return false;
    }
    // SAFETY: the room was reserved, and the library says that it wrote all of it.
    unsafe { value.set_len(before + plain_bytes) };
    true
}

/// The most bytes `source_bytes` can take when compressed (LZ4's own formula).
pub(super) fn bound(source_bytes: usize) -> usize {
    source_bytes + source_bytes / 255 + 16
}

/// Puts zstd's header and entropy tables, made for `level` from `samples` (`lengths` long each), before
/// `content`, and cuts its beginning so that all takes at most `bytes_max`. None: the samples give no tables.
/// Takes about 1 MiB for some milliseconds.
pub(super) fn with_tables(
    content: &[u8],
    samples: &[u8],
    lengths: &[usize],
    level: i32,
    bytes_max: usize,
) -> Option<Vec<u8>> {
    assert_eq!(lengths.iter().sum::<usize>(), samples.len());
    let content = &content[content.len().saturating_sub(bytes_max)..];
    let mut dictionary = vec![0u8; bytes_max];
    let parameters = zstd_sys::ZDICT_params_t {
        compressionLevel: level,
        notificationLevel: 0,
        dictID: 0,
    };
    // SAFETY: the target is writable for `bytes_max`, content and samples are readable for the lengths given,
    // and the lengths add up to the samples, as asserted.
    let written = unsafe {
        zstd_sys::ZDICT_finalizeDictionary(
            dictionary.as_mut_ptr().cast(),
            dictionary.len(),
            content.as_ptr().cast(),
            content.len(),
            samples.as_ptr().cast(),
            lengths.as_ptr(),
            u32::try_from(lengths.len()).expect("some thousand samples"),
            parameters,
        )
    };
    // An error is a length no buffer can have.
    (written <= bytes_max).then(|| {
        dictionary.truncate(written);
        dictionary
    })
}
