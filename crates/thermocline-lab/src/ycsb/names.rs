//! What YCSB calls the operations and their outcomes.

use crate::subject::Answer;
use crate::workload::Kind;

/// Operations in reports, with the kinds of ours they stand for.
pub const OPERATIONS: [(&str, &[Kind]); 6] = [
    ("READ", &[Kind::Read]),
    ("UPDATE", &[Kind::Update, Kind::Write]),
    ("INSERT", &[Kind::Insert, Kind::Add]),
    ("SCAN", &[Kind::Scan]),
    ("READ-MODIFY-WRITE", &[Kind::ReadModifyWrite]),
    ("DELETE", &[Kind::Delete]),
];

/// The report's name of a kind.
pub fn operation(kind: Kind) -> &'static str {
    OPERATIONS
        .iter()
        .find(|(_, kinds)| kinds.contains(&kind))
        .map_or("OTHER", |(name, _)| name)
}

/// The status a binding would have returned. A miss is NOT_FOUND, not an error; a write that a full cache would
/// not take is SERVICE_UNAVAILABLE.
pub fn status(kind: Kind, answer: Answer) -> &'static str {
    match answer {
        Answer::Hit | Answer::Stored => "OK",
        Answer::Miss => "NOT_FOUND",
        Answer::NotStored if kind == Kind::Add => "UNEXPECTED_STATE",
        Answer::NotStored => "NOT_FOUND",
        Answer::Refused => "SERVICE_UNAVAILABLE",
        Answer::Wrong => "UNEXPECTED_STATE",
        Answer::Failed if kind == Kind::Scan => "NOT_IMPLEMENTED",
        Answer::Failed | Answer::Unanswered => "ERROR",
    }
}

/// Every answer there is.
pub const ANSWERS: [Answer; 8] = [
    Answer::Unanswered,
    Answer::Hit,
    Answer::Miss,
    Answer::Stored,
    Answer::Refused,
    Answer::NotStored,
    Answer::Wrong,
    Answer::Failed,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_and_misses_are_no_errors() {
        for kind in Kind::ALL {
            assert_ne!(operation(kind), "OTHER", "{kind:?}");
            assert_eq!(status(kind, Answer::Miss), "NOT_FOUND");
            assert_eq!(status(kind, Answer::Hit), "OK");
        }
        assert_eq!(status(Kind::Scan, Answer::Failed), "NOT_IMPLEMENTED");
        assert_eq!(status(Kind::Read, Answer::Failed), "ERROR");
    }
}
