//! Tables for people: aligned columns that fit a terminal.

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Padded on the right.
    Left,
    /// Padded on the left.
    Right,
}

/// `1 file`, `4 files`: the noun is that of one.
pub fn count(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let ending = match noun {
        _ if count == 1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// Renders rows under a header. The last column may be long and is not padded.
pub fn render(header: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let widths: Vec<usize> = header
        .iter()
        .enumerate()
        .map(|(column, (title, _))| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| width(cell))
                .chain([width(title)])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, cell) in cells.enumerate() {
            let padding = " ".repeat(widths.get(column).copied().unwrap_or(0).saturating_sub(width(cell)));
            let right = header.get(column).is_some_and(|(_, align)| *align == Align::Right);
            if column > 0 {
                text.push_str("  ");
            }
            text.push_str(&if right { padding.clone() + cell } else { cell.to_owned() + &padding });
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut header.iter().map(|(title, _)| *title));
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

/// As [`render`], in lines of at most `width`: what does not fit is cut, the last column first, then the widest. Numbers
/// stay whole.
pub fn render_within(header: &[(&str, Align)], rows: &[Vec<String>], width: usize) -> String {
    let mut columns = header.len();
    let mut widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain(header.get(column).map(|(title, _)| title.chars().count())).max().unwrap_or(0)
        })
        .collect();
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
    if total(&widths) > width
        && let Some(last) =
            widths.last().copied().filter(|_| header.last().is_some_and(|(_, align)| *align == Align::Left))
    {
        let others = total(&widths) - last;
        if others + LEAST_CELL <= width {
            widths[columns - 1] = width - others;
        } else {
            columns -= 1;
            widths.truncate(columns);
        }
    }
    while total(&widths) > width {
        let texts = (0..columns).filter(|&column| header[column].1 == Align::Left && widths[column] > LEAST_CELL);
        match texts.max_by_key(|&column| widths[column]) {
            Some(widest) => widths[widest] -= 1,
            None => break,
        }
    }
    let cut = |(cell, &width): (&String, &usize)| match cell.char_indices().nth(width) {
        Some(_) => cell.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        None => cell.clone(),
    };
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().zip(&widths).map(cut).collect()).collect();
    render(&header[..columns], &rows)
}

/// A column of text that has fewer characters says nothing.
const LEAST_CELL: usize = 10;

/// Bytes in the unit a person would use, powers of 1000.
pub fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB", "TB"] {
        if value < 999.5 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} PB")
}

/// Raw over stored bytes, or a dash.
pub fn ratio(raw: u64, stored: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let value = raw as f64 / stored as f64;
    if stored == 0 { "-".to_owned() } else { format!("{value:.2}") }
}

/// Extents as people write them.
pub fn shape(extents: &[u64]) -> String {
    if extents.is_empty() {
        return "scalar".to_owned();
    }
    extents.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let text = render(
            &[("name", Align::Left), ("size", Align::Right)],
            &[vec!["temperature".into(), "1".into()], vec!["u".into(), "1000".into()]],
        );
        assert_eq!(text, "name         size\ntemperature     1\nu            1000\n");
        let header = [("name", Align::Left), ("size", Align::Right), ("why", Align::Left)];
        let rows = [vec!["temperature_of_air".into(), "1000".into(), "smooth, best of many that were tried".into()]];
        for width in [20, 24, 30, 40, 50, 62] {
            let text = render_within(&header, &rows, width);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width && text.contains("1000"), "{width}: {text}");
            assert_eq!(text.contains("why"), width >= 36, "{width}: {text}");
        }
        assert_eq!(render_within(&header, &rows, 80), render(&header, &rows));
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_234_567), "1.2 MB");
        assert_eq!(ratio(10, 0), "-");
    }
}
