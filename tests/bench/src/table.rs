//! Formats aligned tables.

use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Formats rows in aligned columns.
pub(crate) fn table<const N: usize>(aligns: [Align; N], rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), align) in row.iter().zip(widths).zip(aligns) {
            let _ = match align {
                Align::Left => write!(line, "{cell:<width$}  "),
                Align::Right => write!(line, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Formats a number of bytes, such as `25.1 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}
