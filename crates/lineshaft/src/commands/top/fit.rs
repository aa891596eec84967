//! Fits text into the terminal. A cut text ends with a mark. Wide characters, such as Chinese ones,
//! take two columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The mark at the end of a cut text, one column wide.
const MORE: char = '…';

/// Returns the text. If the text is wider than `width`, cuts it and adds a mark at the end.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let Some(mut room) = width.checked_sub(1) else { return String::new() };
    let fits = |character: &char| {
        let rest = room.checked_sub(character.width().unwrap_or(0));
        room = rest.unwrap_or(0);
        rest.is_some()
    };
    text.chars().take_while(fits).chain([MORE]).collect()
}

/// The text in exactly this many columns.
pub(super) fn pad(text: &str, width: usize, is_right: bool) -> String {
    let text = cut(text, width);
    let space = " ".repeat(width.saturating_sub(text.width()));
    if is_right { space + &text } else { text + &space }
}

/// Breaks a text into lines of at most `width`, between words if possible.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end().width();
        if used > 0 && used + bare > width {
            lines.push(String::new());
            used = 0;
        }
        for character in word.chars() {
            let columns = character.width().unwrap_or(0);
            // A space at the end of a line needs no room.
            if used + columns > width && character != ' ' {
                lines.push(String::new());
                used = 0;
            }
            if used + columns <= width {
                lines.last_mut().expect("it begins with a line").push(character);
                used += columns;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_with_a_mark() {
        assert_eq!(cut("mail", 4), "mail");
        assert_eq!(cut("mails", 4), "mai…");
        assert_eq!(cut("mails", 0), "");
        assert_eq!(cut("邮件", 4), "邮件");
        assert_eq!(cut("邮件队列", 6), "邮件…", "half a character is not shown");
        assert_eq!(pad("邮件队列", 6, false), "邮件… ");
        assert_eq!(pad("7", 3, true), "  7");
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrap("to be or not", 6), ["to be ", "or not"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh ", "ij"]);
        assert_eq!(wrap("邮件队列", 5), ["邮件", "队列"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
