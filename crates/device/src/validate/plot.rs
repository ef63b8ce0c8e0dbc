//! The two distributions in a terminal.

use std::fmt::Write;

use super::Validation;

const COLUMNS: usize = 72;
const ROWS: usize = 16;

impl Validation {
    /// Both cumulative distributions in braille dots, and the figures below them.
    pub fn render(&self) -> String {
        let most = self.quantile(&self.measured_cdf, 0.995).max(self.quantile(&self.modelled_cdf, 0.995)).max(1e-9);
        let mut text = format!("{}: service times of {} requests\n", self.drive, self.requests);
        let measured = Canvas::of(&self.measured_cdf, most);
        let modelled = Canvas::of(&self.modelled_cdf, most);
        for (title, canvas) in [("measured", measured), ("modelled", modelled)] {
            let _ = writeln!(text, "\n{title}");
            for row in 0..ROWS / 2 {
                let share = 100 - 200 * row / ROWS;
                let _ = writeln!(text, "{share:>4} % ┤{}", canvas.line(row));
            }
            let _ = writeln!(text, "   0 % └{}", "─".repeat(COLUMNS));
            let (half, label) = (most / 2.0, "service time, ms");
            let _ = writeln!(text, "        0{half:>35.1}{:>36}", format!("{label}  {most:.1}"));
        }
        let _ = writeln!(text, "\n  quantile   measured   modelled   distance, ms");
        for share in [0.1, 0.25, 0.5, 0.75, 0.9, 0.95] {
            let (a, b) = (self.quantile(&self.measured_cdf, share), self.quantile(&self.modelled_cdf, share));
            let _ = writeln!(text, "  {:>6.0} %  {a:>9.3}  {b:>9.3}  {:>9.3}", share * 100.0, b - a);
        }
        for tail in &self.tail {
            let (a, b) = (tail.measured_ms, tail.modelled_ms);
            let percent = format!("{:.3}", tail.share * 100.0);
            let percent = percent.trim_end_matches('0').trim_end_matches('.');
            let _ = writeln!(text, "  {percent:>6} %  {a:>9.3}  {b:>9.3}  {:>9.3}", b - a);
        }
        let _ = writeln!(
            text,
            "\n  {:<8} {:>8} {:>10} {:>10} {:>10}",
            "", "requests", "measured", "modelled", "demerit, ms"
        );
        for class in &self.classes {
            let _ = writeln!(
                text,
                "  {:<8} {:>8} {:>10.3} {:>10.3} {:>10.3}",
                class.class, class.requests, class.mean_ms, class.model_mean_ms, class.demerit_ms
            );
        }
        let _ = writeln!(
            text,
            "  {:<8} {:>8} {:>10.3} {:>10.3} {:>10.3}  ({:.1} % of the measured mean)",
            "all",
            self.requests,
            self.mean_ms,
            self.model_mean_ms,
            self.demerit_ms,
            self.demerit_share * 100.0
        );
        text
    }

    fn quantile(&self, cdf: &[f64], share: f64) -> f64 {
        let index = ((share * cdf.len() as f64) as usize).min(cdf.len().saturating_sub(1));
        cdf.get(index).copied().unwrap_or(0.0)
    }
}

/// A field of braille cells, two dots wide and four high each.
struct Canvas {
    cells: Vec<u8>,
}

impl Canvas {
    /// The curve of a distribution over 0 to `most`.
    fn of(cdf: &[f64], most: f64) -> Canvas {
        let (width, height) = (COLUMNS * 2, ROWS / 2 * 4);
        let mut canvas = Canvas { cells: vec![0; COLUMNS * ROWS / 2] };
        let mut previous = 0;
        for x in 0..width {
            let until = (x as f64 + 1.0) / width as f64 * most;
            let below = cdf.partition_point(|&time| time <= until);
            let level = (below * (height - 1) + cdf.len() / 2) / cdf.len().max(1);
            for y in previous.min(level)..=level {
                canvas.dot(x, height - 1 - y);
            }
            previous = level;
        }
        canvas
    }

    fn dot(&mut self, x: usize, y: usize) {
        // The bits of a braille pattern, by row and column.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        self.cells[y / 4 * COLUMNS + x / 2] |= BITS[y % 4][x % 2];
    }

    fn line(&self, row: usize) -> String {
        let cells = &self.cells[row * COLUMNS..(row + 1) * COLUMNS];
        let text: String = cells.iter().map(|&bits| char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ')).collect();
        text.trim_end_matches('\u{2800}').to_owned()
    }
}
