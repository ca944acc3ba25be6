//! Every size of the event loop, with its reason.

/// One read takes so much. 64 KiB holds the deepest usual pipeline and stays in the second-level cache.
pub const READ_BYTES: usize = 64 << 10;
/// Replies waiting in the shared buffer are written out at this size, in the middle of a pipeline if need be.
pub const OUTPUT_HIGH_BYTES: usize = 256 << 10;
/// One connection sends at most so much in a turn; then others have theirs. A socket whose peer reads on takes bytes
/// without end, and a value of 24 MiB is 10 ms of copying.
pub const SEND_TURN_BYTES: usize = 512 << 10;
/// Values of at most this size are copied into the reply; larger ones are written from where they lie.
/// Copying wins up to 1 KiB, gathering from 16 KiB; in between neither was measured to win.
pub const COPY_BYTES_MAX: usize = 8 << 10;
/// Payloads above this are streamed into the cache as they arrive; smaller ones wait until they are whole.
pub const STREAM_BYTES_MIN: u64 = 64 << 10;
/// A value longer than this is not made of another in one go: it is copied in pieces of this size, a piece a turn.
pub const REWRITE_BYTES_MIN: usize = 256 << 10;
/// The longest payload that waits in a connection until it is whole, bytes: storing it is one copy, under 2 ms.
pub const WHOLE_BYTES_MAX: u64 = 8 << 20;
/// Reads looked up together. The engine prefetches in groups of 16; more only delays the first reply.
pub const BATCH_KEYS: usize = 32;
/// Pieces of one gathering write; the kernel takes up to 1024.
pub const IOVEC_MAX: usize = 64;
/// Unsent rests of values up to this size are copied so that the segment they lie in can be freed.
pub const HELD_REST_COPY_BYTES: usize = 64 << 10;
/// The engine's segments are at most this large.
pub const SEGMENT_BYTES_MAX: u64 = 2 << 20;
/// A line that is no many-key get may be longer than its key by so much: flags, numbers, opaque.
pub const LINE_EXTRA_BYTES: usize = 4 << 10;
/// Seconds a connection may stand still while it holds part of a buffer account that is half full.
pub const STALLED_SECONDS: u64 = 10;
/// What a large value must bring in `STALLED_SECONDS` while such values keep much of memory, bytes: 6 KiB a second, slower
/// than any network that a cache is asked over. Less is as good as standing still: the room is others'.
pub const UPLOAD_BYTES_MIN: u64 = 64 << 10;
/// Seconds a reader may take over what it holds, once slow readers hold more than an eighth of memory.
pub const SLOW_SECONDS: u32 = 2;
/// What the writes of one turn of an event loop may wait for room, all together; then they are refused at once. A
/// thread preempted in the middle of its work comes back after 10 to 30 ms, and a refused `set` costs the value; a
/// client in the same loop waits no longer than this for others' writes.
pub const TURN_WAITS: std::time::Duration = std::time::Duration::from_millis(100);
/// How long accepting pauses when the process is out of file descriptors.
pub const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
/// File descriptors that clients cannot have: listeners, epoll, wakers, logs, admin connections, pressure's files; those
/// of the event loops come on top (`descriptors::spare`).
pub const SPARE_DESCRIPTORS: u64 = 128;

/// Bytes one worker owns for buffers at its fullest: charged to the budget at the start.
pub const WORKER_BYTES: u64 = (READ_BYTES + 2 * OUTPUT_HIGH_BYTES + (64 << 10)) as u64;

const _: () = assert!(SEND_TURN_BYTES >= OUTPUT_HIGH_BYTES);
const _: () = assert!(BATCH_KEYS * COPY_BYTES_MAX <= OUTPUT_HIGH_BYTES);
const _: () = assert!(STREAM_BYTES_MIN as usize <= READ_BYTES);
