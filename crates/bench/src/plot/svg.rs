//! Writes SVG elements, and the colours of both themes.

use std::fmt::Write as _;

/// Colours of the series in the light theme. The first is that of Lineshaft. All of them can be told
/// apart with the common kinds of colour blindness, and each series also has a shape.
const LIGHT: [&str; 7] =
    ["#0969da", "#bc4c00", "#1a7f37", "#8250df", "#9a6700", "#bf3989", "#57606a"];
/// The same colours in the dark theme.
const DARK: [&str; 7] =
    ["#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#e3b341", "#f778ba", "#8b949e"];

/// The width of all plots, in pixels.
pub(super) const WIDTH: f64 = 860.0;
/// The distance from the border of a plot to its content.
pub(super) const MARGIN: f64 = 20.0;

/// The size of a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Text {
    Title,
    Heading,
    Label,
    Small,
}

impl Text {
    fn class(self) -> &'static str {
        match self {
            Text::Title => "t",
            Text::Heading => "h",
            Text::Label => "l",
            Text::Small => "m",
        }
    }

    fn size(self) -> f64 {
        match self {
            Text::Title => 16.0,
            Text::Heading => 13.0,
            Text::Label => 12.0,
            Text::Small => 11.0,
        }
    }

    /// The width of a text in pixels, with some reserve, because each system has another font.
    pub(super) fn width(self, text: &str) -> f64 {
        let units: f64 = text
            .chars()
            .map(|letter| match letter {
                'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' => 0.3,
                ' ' | 'f' | 't' | 'r' | '(' | ')' | '/' | '-' | '`' => 0.38,
                'm' | 'w' | 'M' | 'W' | '%' => 0.92,
                'A'..='Z' => 0.7,
                _ => 0.6,
            })
            .sum();
        units * self.size()
    }
}

/// The side of a text that is at its position.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// An SVG document.
#[derive(Debug)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    pub(super) fn new() -> Self {
        Self { body: String::new() }
    }

    pub(super) fn text(&mut self, at: (f64, f64), size: Text, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y, class, text) = (at.0, at.1, size.class(), escaped(text));
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\"{anchor}>{text}</text>"
        );
    }

    /// A line of the grid, or a thicker one.
    pub(super) fn rule(&mut self, from: (f64, f64), to: (f64, f64), is_axis: bool) {
        let class = if is_axis { "a" } else { "g" };
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ =
            writeln!(self.body, "<path class=\"{class}\" d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\"/>");
    }

    /// The line of a series through these points.
    pub(super) fn line(&mut self, series: usize, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
        }
        let _ = writeln!(self.body, "<path class=\"s s{}\" d=\"{path}\"/>", series % LIGHT.len());
    }

    /// The mark of a series; 1 is the usual size. The title is shown while the mouse is over the mark.
    pub(super) fn mark(&mut self, series: usize, (x, y): (f64, f64), size: f64, title: &str) {
        let shape = match series % 4 {
            0 => "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
            1 => "M-4 -4h8v8h-8z",
            2 => "M0 -5.2L5 3.8H-5z",
            _ => "M0 -5.4L5.4 0L0 5.4L-5.4 0z",
        };
        let title = match title {
            "" => String::new(),
            title => format!("<title>{}</title>", escaped(title)),
        };
        let _ = writeln!(
            self.body,
            "<path class=\"d d{}\" transform=\"translate({x:.1} {y:.1}) scale({size})\" d=\"{shape}\">{title}</path>",
            series % LIGHT.len()
        );
    }

    /// The names of the series, with their marks, from left to right. Returns the position below
    /// them.
    pub(super) fn legend(&mut self, names: &[String], top: f64) -> f64 {
        const LINE: f64 = 20.0;
        const MARK: f64 = 14.0;
        const GAP: f64 = 22.0;
        let (mut x, mut y) = (MARGIN, top);
        for (series, name) in names.iter().enumerate() {
            let width = MARK + Text::Label.width(name);
            if x > MARGIN && x + width > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + LINE);
            }
            self.mark(series, (x + 5.0, y - 4.0), 1.0, "");
            self.text((x + MARK, y), Text::Label, Anchor::Start, name);
            x += width + GAP;
        }
        y + LINE
    }

    /// The whole document, as the content of a file. The description is for readers who cannot see
    /// the plot.
    pub(super) fn document(self, height: f64, description: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
             width=\"{WIDTH:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n\
             <style>\n{}</style>\n\
             <rect class=\"b\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n{}</svg>\n",
            escaped(description),
            style(),
            self.body
        )
    }
}

fn style() -> String {
    let mut style = String::from(
        "text{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",\"DejaVu Sans\",\
         Arial,sans-serif}\n\
         .t{font-size:16px;font-weight:600}.h{font-size:13px;font-weight:600}\n\
         .l{font-size:12px}.m{font-size:11px}\n\
         .g,.a,.s{fill:none}.s{stroke-width:2;stroke-linejoin:round}.d{stroke-width:1.5}\n",
    );
    let theme = |ground, ink, muted, grid, axis, colours: [&str; 7]| {
        let mut theme = format!(
            ".b{{fill:{ground}}}.d{{stroke:{ground}}}.t,.h,.l{{fill:{ink}}}.m{{fill:{muted}}}\
             .g{{stroke:{grid}}}.a{{stroke:{axis}}}\n"
        );
        for (series, colour) in colours.into_iter().enumerate() {
            let _ = write!(theme, ".s{series}{{stroke:{colour}}}.d{series}{{fill:{colour}}}");
        }
        theme
    };
    style += &theme("#ffffff", "#1f2328", "#59636e", "#e4e8ec", "#818b98", LIGHT);
    style += "\n@media (prefers-color-scheme:dark){\n";
    style += &theme("#0d1117", "#f0f6fc", "#9198a1", "#21262d", "#656c76", DARK);
    style += "\n}\n";
    style
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_break_the_document() {
        let mut svg = Svg::new();
        svg.text((1.0, 2.0), Text::Label, Anchor::Start, "a < b & \"c\"");
        let text = svg.document(10.0, "x > y");
        assert!(text.contains(">a &lt; b &amp; &quot;c&quot;</text>"), "{text}");
        assert!(text.contains("aria-label=\"x &gt; y\""));
    }

    #[test]
    fn a_long_legend_has_several_lines() {
        let names = vec!["a server with a rather long name".to_owned(); 6];
        let one = Svg::new().legend(&names[..2], 50.0);
        assert!(Svg::new().legend(&names, 50.0) > one);
    }
}
