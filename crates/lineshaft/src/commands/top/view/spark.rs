//! Small curves made of block characters.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A curve of the last values, at most `width` wide. If there are more values than columns, a column
/// shows the largest of several. Unknown values are spaces.
pub(super) fn spark(values: &[Option<f32>], width: usize) -> String {
    let width = width.min(values.len());
    let column = |place: usize| {
        let (from, to) = (place * values.len() / width, (place + 1) * values.len() / width);
        let known = values[from..to].iter().flatten();
        known.copied().reduce(f32::max)
    };
    let columns: Vec<Option<f32>> = (0..width).map(column).collect();
    let most = columns.iter().flatten().copied().fold(0.0, f32::max);
    let bar = |value: &Option<f32>| match value {
        None => ' ',
        Some(value) if *value <= 0.0 || most <= 0.0 => BARS[0],
        Some(value) => BARS[((value / most * 7.0).ceil() as usize).min(7)],
    };
    columns.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_fills_the_line() {
        let values = [None, Some(0.0), Some(1.0), Some(50.0), Some(100.0)];
        assert_eq!(spark(&values, 5), " ▁▂▅█");
        assert_eq!(spark(&[Some(0.0), Some(9.0), Some(1.0), Some(0.0)], 2), "█▂", "peaks stay");
        assert_eq!(spark(&[Some(1.0), Some(2.0)], 4), "▅█");
        assert_eq!(spark(&[], 4), "");
    }
}
