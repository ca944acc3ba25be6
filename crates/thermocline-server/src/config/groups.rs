//! Groups of keys as people write them: `user:=10%,page:`.

use thermocline::Group;

/// Prefixes divided by commas, each with the share of the cache it is promised, if any. A prefix that holds a comma, or
/// ends like a share with or without its %, cannot be written.
pub fn parse_groups(text: &str) -> Result<Vec<Group>, String> {
    let parts = text.split(',').map(str::trim);
    parts
        .filter(|part| !part.is_empty() && *part != "none")
        .map(|part| match part.rsplit_once('=') {
            Some((prefix, share)) if share.ends_with('%') => {
                let percent = share.trim_end_matches('%').trim().parse::<f64>();
                let percent = percent
                    .ok()
                    .filter(|percent| (0.0..=50.0).contains(percent));
                let percent = percent
                    .ok_or_else(|| format!("{part:?}: a share is 0% to 50%, for example 10%"))?;
                Ok(Group {
                    share: percent / 100.0,
                    ..Group::new(prefix)
                })
            }
            Some((_, share)) if share.trim().parse::<f64>().is_ok() => Err(format!(
                "{part:?}: did you mean {part}%? A share ends with %"
            )),
            _ => Ok(Group::new(part)),
        })
        .collect()
}

/// As `parse_groups` reads it.
pub fn show_groups(groups: &[Group]) -> String {
    let show = |group: &Group| {
        let prefix = String::from_utf8_lossy(&group.prefix);
        match group.share {
            0.0 => prefix.into_owned(),
            share => format!("{prefix}={}%", share * 100.0),
        }
    };
    let parts: Vec<String> = groups.iter().map(show).collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_as_written_and_shown_as_read() {
        let groups = parse_groups(" user:=12.5%, page:,a=b ,").unwrap();
        let seen: Vec<(&[u8], f64)> = groups
            .iter()
            .map(|group| (&group.prefix[..], group.share))
            .collect();
        assert_eq!(
            seen,
            [(&b"user:"[..], 0.125), (b"page:", 0.0), (b"a=b", 0.0)]
        );
        assert_eq!(show_groups(&groups), "user:=12.5%,page:,a=b");
        assert_eq!(parse_groups("none"), Ok(Vec::new()));
        for wrong in ["a=60%", "a=x%", "a=-1%", "a=10", "a:= 0.5"] {
            let error = parse_groups(wrong).expect_err(wrong);
            assert!(error.contains(wrong), "{error}");
        }
    }
}
