//! The tag compare: which of a bucket's 8 slots carry a tag.
