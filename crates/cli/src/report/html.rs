//! Text that is safe inside HTML and SVG.

use std::fmt::Write;

/// `text` with every character that means something to HTML written as an entity. Serves element contents and
/// quoted attribute values.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Control characters other than white space are not allowed in a page.
            c if c.is_control() && !c.is_whitespace() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// At most `most` characters: the middle is left out, because names of one family differ at their ends.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let tail = most / 2;
    let head: String = text.chars().take(most - tail - 1).collect();
    let end: String = text.chars().skip(length - tail).collect();
    head + "\u{2026}" + &end
}

/// Appends formatted markup. Writing to a `String` cannot fail.
macro_rules! put {
    ($page:expr, $($part:tt)*) => {{ let _ = std::fmt::Write::write_fmt($page, format_args!($($part)*)); }};
}
pub(super) use put;

/// A definition list from pairs of plain texts.
pub(super) fn definitions(pairs: &[(&str, String)]) -> String {
    let mut list = String::from("<dl>");
    for (term, meaning) in pairs {
        let _ = write!(list, "<div><dt>{}</dt><dd>{}</dd></div>", escape(term), escape(meaning));
    }
    list + "</dl>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_becomes_markup() {
        assert_eq!(escape("<b a='1' c=\"&\">\u{1}"), "&lt;b a=&#39;1&#39; c=&quot;&amp;&quot;&gt;\u{fffd}");
        assert_eq!(shortened("temperature", 5), "te\u{2026}re");
        assert_eq!(shortened("T", 5), "T");
    }
}
