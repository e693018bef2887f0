//! The fault of a first record: often the whole input is misnamed.

use super::fault::{Fault, FaultKind, without_hint};
use crate::diagnose::{ARRAY, CSV, FIRST, Foreign, STRINGS, TEXT, binary, foreign};
use crate::input::Format;

/// Adds cause and remedy to the fault of an input's first record, if the input's first bytes show them.
#[cold]
pub(crate) fn explain_first(fault: &mut Fault, format: Format, begin: &[u8]) {
    let begin = &begin[..begin.len().min(FIRST)];
    let found = match (format, fault.kind) {
        (Format::Jsonl, FaultKind::Syntax | FaultKind::NotUtf8) => {
            foreign(begin).or_else(|| table_or_text(fault, begin))
        }
        (Format::Jsonl, FaultKind::NotObject) => foreign(begin).or_else(|| other_lines(begin)),
        (_, FaultKind::NotUtf8) => binary(begin),
        _ => None,
    };
    if let Some(Foreign { what, hint }) = found {
        let (reason, _) = without_hint(&fault.reason);
        let reason = reason.split(" (").next().unwrap_or_default();
        fault.reason = format!("{reason} (it looks like {what}; hint: {hint})");
    }
}

/// The kind of a file whose first line is JSON, but not an object.
fn other_lines(line: &[u8]) -> Option<Foreign> {
    match line.trim_ascii_start().first()? {
        b'[' => Some(ARRAY),
        b'"' => Some(STRINGS),
        _ => None,
    }
}

/// The kind of a file whose first line is not JSON.
fn table_or_text(fault: &Fault, line: &[u8]) -> Option<Foreign> {
    let is_json = line.trim_ascii_start().first().is_none_or(|byte| b"{[\0\x1e\xef".contains(byte));
    if is_json || fault.kind == FaultKind::NotUtf8 {
        return None;
    }
    let is_table = line.iter().any(|byte| matches!(byte, b',' | b'\t' | b';')) && !line.contains(&b' ');
    Some(if is_table { CSV } else { TEXT })
}
