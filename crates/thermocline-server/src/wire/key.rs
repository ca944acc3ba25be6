//! Keys on lines of their own: a key may hold any byte, a line may not.

/// Percent-encodes all but letters, digits and a few marks, as memcached's metadump does.
pub fn percent_encode(out: &mut Vec<u8>, key: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
}

/// The key as it is, if it can be a word of a line; else percent-encoded. (A key that came in base64 may hold line
/// ends, and would forge lines.)
pub fn push_word(out: &mut Vec<u8>, key: &[u8]) {
    match key
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
    {
        true => percent_encode(out, key),
        false => out.extend_from_slice(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_so_that_lines_stay_lines() {
        let mut out = Vec::new();
        percent_encode(&mut out, b"a b\n%\xff-z");
        assert_eq!(out, b"a%20b%0A%25%FF-z");
        let mut out = Vec::new();
        push_word(&mut out, b"user:1/%\xff");
        push_word(&mut out, b" a:\r\n");
        assert_eq!(out, b"user:1/%\xff%20a%3A%0D%0A");
    }
}
