//! What is asked for, and nothing of who answers: keys, value sizes, popularity, the mix of reads and writes.
//! Everything here is pure: the same flags and seed give the same stream on any machine.

pub mod compressible;
pub mod key;
pub mod mix_workload;
pub mod ohc;
pub mod op;
pub mod popularity;
pub mod random;
pub mod records;
pub mod size;
pub mod stream;
pub mod ycsb;
pub mod zipf;

pub use key::{key_into, stamp, Stamp, KEY_BYTES_MIN, STAMP_BYTES};
pub use mix_workload::MixWorkload;
pub use op::{Batch, Kind, Op, Source, Workload, UNSCHEDULED};
pub use popularity::{Popularity, Ranks};
pub use random::{mix, Random};
pub use size::ValueSize;
pub use stream::{Mix, Stream};
