//! Case-insensitive search in lines of text.

/// Whether a line contains the search text, ignoring case.
pub fn finds(line: &str, search: &str) -> bool {
    !matches_from(line, search, true).is_empty() || search.is_empty()
}

/// The byte ranges of the non-overlapping matches in a line, ignoring case.
pub fn matches_in(line: &str, search: &str) -> Vec<(usize, usize)> {
    matches_from(line, search, false)
}

pub(super) fn matches_from(line: &str, search: &str, only_one: bool) -> Vec<(usize, usize)> {
    let mut matches = Vec::new();
    if search.is_empty() {
        return matches;
    }
    if line.is_ascii() && search.is_ascii() {
        let (line, search) = (line.as_bytes(), search.as_bytes());
        let Some(first) = search.first() else {
            return matches;
        };
        let begins =
            memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), line);
        let mut past = 0;
        for from in begins {
            let to = from + search.len();
            let here = line.get(from..to).unwrap_or_default();
            if from >= past && here.eq_ignore_ascii_case(search) {
                matches.push((from, to));
                past = to;
                if only_one {
                    break;
                }
            }
        }
        return matches;
    }
    let small: Vec<char> = search.chars().flat_map(char::to_lowercase).collect();
    let mut past = 0;
    for (from, _) in line.char_indices() {
        let rest = line.get(from..).unwrap_or_default();
        if from >= past
            && let Some(long) = match_of(rest, &small)
        {
            past = from + long;
            matches.push((from, past));
            if only_one {
                break;
            }
        }
    }
    matches
}

/// The length in bytes of a prefix of `text` that matches these lowercase letters.
pub(super) fn match_of(text: &str, small: &[char]) -> Option<usize> {
    let mut left = small;
    let mut long = 0;
    for letter in text.chars() {
        long += letter.len_utf8();
        for one in letter.to_lowercase() {
            match left.split_first() {
                Some((first, after)) if *first == one => left = after,
                Some(_) => return None,
                None => break,
            }
        }
        if left.is_empty() {
            return Some(long);
        }
    }
    None
}
