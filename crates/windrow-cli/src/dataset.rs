//! `windrow verify`, `windrow decode` and `windrow stat`: the output of `windrow encode`.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use windrow_tokenizers::dataset::{Dataset, DatasetError, Statistics};
use windrow_tokenizers::run::{Failed, FailureKind};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
use windrow_tokenizers::{counted, decimal, grouped, shown, shown_lines, to_json};

use crate::exit::Code;
use crate::report;

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 usage error or no such output, 65 a file is damaged or was encoded with another tokenizer, 74 reading failed.";

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The prefix given to `windrow encode -o`, or the path to the manifest.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Also check that this tokenizer encoded the output: a name, or the path to a tokenizer.json.
    #[arg(long, value_name = "NAME|PATH")]
    tokenizer: Option<String>,

    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Decode {
    /// The prefix given to `windrow encode -o`, or the path to the manifest.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The documents, numbered from 0: 7, 7..9 (9 excluded), 7.. or ..9 [default: all].
    #[arg(value_name = "RANGE", default_value = "..", hide_default_value = true)]
    range: Documents,

    /// The number of the document: as RANGE.
    #[arg(long, value_name = "N", hide = true, conflicts_with = "range")]
    doc: Option<Documents>,

    /// The part of an output that --split divided; without it, documents are numbered through all parts.
    #[arg(long, value_name = "NAME")]
    part: Option<String>,

    /// The tokenizer that encoded the output, if it is not where the manifest says.
    #[arg(long, value_name = "NAME|PATH")]
    tokenizer: Option<String>,

    /// Print the ids instead of the text, one line per document.
    #[arg(long)]
    ids: bool,

    /// Print one line of JSON per document, with its number and its text or ids.
    #[arg(long)]
    json: bool,
}

/// A range of document numbers.
#[derive(Clone, Debug)]
struct Documents(Range<u64>);

impl FromStr for Documents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| {
            digits.parse::<u64>().map_err(|_| "expected a number or a range, such as 7, 7..9, 7.. or ..9".to_owned())
        };
        let or = |digits: &str, open: u64| if digits.is_empty() { Ok(open) } else { number(digits) };
        let range = match text.split_once("..") {
            Some((first, end)) => or(first, 0)?..or(end, u64::MAX)?,
            None => number(text)?..number(text)?.saturating_add(1),
        };
        if range.is_empty() { Err("the range is empty".to_owned()) } else { Ok(Self(range)) }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// The prefix given to `windrow encode -o`, or the path to the manifest.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Count only this part of an output that --split divided.
    #[arg(long, value_name = "NAME")]
    part: Option<String>,

    /// The number of frequent ids to list.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// The tokenizer that encoded the output, if it is not where the manifest says. It provides the texts of the ids.
    #[arg(long, value_name = "NAME|PATH")]
    tokenizer: Option<String>,

    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// Prints the result, or reports the error.
fn end(result: Result<String, Failed>, json: bool) -> Code {
    let (text, code) = match result {
        Ok(text) => (text, Code::Done),
        Err(failed) => {
            report::error(&failed);
            let code = failed.kind.into();
            if !json {
                return code;
            }
            (to_json(&serde_json::json!({ "schema": SCHEMA, "error": failed.message })), code)
        }
    };
    report::printed(report::print(&text), code)
}

/// The version of the objects that `--json` prints.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Verified<'a> {
    schema: u32,
    files: usize,
    bytes: u64,
    documents: u64,
    tokens: u64,
    tokenizer: &'a str,
    tokenizer_blake3: &'a str,
    outputs_blake3: Option<&'a str>,
    faults: Vec<String>,
}

pub(crate) fn verify(options: &Verify) -> Code {
    let prepared = || -> Result<Dataset, Failed> {
        let dataset = Dataset::open(&options.output)?;
        if let Some(name) = &options.tokenizer {
            dataset.check_tokenizer(&Tokenizer::load(name, &LoadOptions::default())?)?;
        }
        Ok(dataset)
    };
    let dataset = match prepared() {
        Ok(dataset) => dataset,
        Err(failed) => return end(Err(failed), options.json),
    };
    let verified = dataset.verify();
    verified.faults.iter().for_each(report::error);
    let code = verified.faults.first().map_or(Code::Done, Code::from);
    let manifest = dataset.manifest();
    if options.json {
        let report = Verified {
            schema: SCHEMA,
            files: verified.files,
            bytes: verified.bytes,
            documents: manifest.documents.written,
            tokens: manifest.tokens,
            tokenizer: &manifest.tokenizer.name,
            tokenizer_blake3: &manifest.tokenizer.blake3,
            outputs_blake3: manifest.outputs_blake3.as_deref(),
            faults: verified.faults.iter().map(DatasetError::to_string).collect(),
        };
        return report::printed(report::print(to_json(&report)), code);
    }
    if code != Code::Done {
        return code;
    }
    let text = format!(
        "{}, {}: unchanged since encoding; {}, {} of {} (blake3 {})",
        counted(verified.files as u64, "file"),
        decimal(verified.bytes),
        counted(manifest.documents.written, "document"),
        counted(manifest.tokens, "token"),
        shown(&manifest.tokenizer.name),
        shown(&manifest.tokenizer.blake3)
    );
    report::printed(report::print(&text), code)
}

/// An output, or a part of it.
fn opened(output: &Path, part: Option<&str>) -> Result<Dataset, Failed> {
    let dataset = Dataset::open(output)?;
    Ok(match part {
        Some(part) => dataset.part(part)?,
        None => dataset,
    })
}

/// The tokenizer with this name, or with the name in the manifest.
fn tokenizer_of(dataset: &Dataset, name: Option<&str>) -> Result<Tokenizer, Failed> {
    let tokenizer = Tokenizer::load(name.unwrap_or(&dataset.manifest().tokenizer.name), &LoadOptions::default())?;
    dataset.check_tokenizer(&tokenizer)?;
    Ok(tokenizer)
}

#[derive(Serialize)]
struct Decoded<'a> {
    document: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<&'a [u32]>,
}

pub(crate) fn decode(options: &Decode) -> Code {
    let Documents(range) = options.doc.as_ref().unwrap_or(&options.range).clone();
    let mut stdout = BufWriter::new(io::stdout().lock());
    let is_plain = options.json || options.ids || !io::stdout().is_terminal();
    let (mut failed, mut written) = (None, Ok(()));
    let decoded = || -> Result<(), Failed> {
        let dataset = opened(&options.output, options.part.as_deref())?;
        let documents = dataset.documents();
        if range.start > 0 && range.start >= documents {
            let message = format!(
                "there is no document {}: {documents} {} written\nhint: documents are numbered from 0",
                range.start,
                if documents == 1 { "was" } else { "were" }
            );
            return Err(Failed::usage(message));
        }
        let tokenizer = (!options.ids).then(|| tokenizer_of(&dataset, options.tokenizer.as_deref())).transpose()?;
        let line = |document: u64, ids: &[u32]| -> Result<String, Failed> {
            let text = tokenizer.as_ref().map(|tokenizer| tokenizer.decode(ids, false)).transpose();
            let text = text.map_err(|error| Failed { message: error.to_string(), kind: FailureKind::Other })?;
            Ok(match text {
                text if options.json => to_json(&Decoded { document, ids: text.is_none().then_some(ids), text }),
                Some(text) => text,
                None => ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
            })
        };
        dataset.visit(range, |document, ids| {
            match line(document, ids) {
                // A terminal would obey control characters in the text of a user.
                Ok(line) if is_plain => written = writeln!(stdout, "{line}"),
                Ok(line) => written = writeln!(stdout, "{}", shown_lines(&line)),
                Err(error) => failed = Some(error),
            }
            if written.is_err() || failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(())
    };
    let decoded = decoded();
    let written = written.and_then(|()| stdout.flush());
    if let Some(failed) = failed.or(decoded.err()) {
        return end(Err(failed), false);
    }
    let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    report::printed(if written.as_ref().is_err_and(is_closed) { Ok(()) } else { written }, Code::Done)
}

#[derive(Serialize)]
struct Counted {
    schema: u32,
    documents: u64,
    tokens: u64,
    longest: u64,
    different_ids: u64,
    /// Number of documents with 0, 1, 2 to 3, 4 to 7 ids and so on.
    lengths: Vec<u64>,
    most_frequent: Vec<Frequent>,
}

#[derive(Serialize)]
struct Frequent {
    id: u32,
    count: u64,
    /// Null if the tokenizer is missing.
    text: Option<String>,
}

pub(crate) fn stat(options: &Stat) -> Code {
    let text = || -> Result<String, Failed> {
        let dataset = opened(&options.output, options.part.as_deref())?;
        let statistics = dataset.statistics()?;
        let tokenizer = match (tokenizer_of(&dataset, options.tokenizer.as_deref()), &options.tokenizer) {
            (Err(failed), Some(_)) => return Err(failed),
            // The tokenizer need not be on the machine that counts.
            (tokenizer, _) => tokenizer.ok(),
        };
        let frequent = statistics.most_frequent(options.top).into_iter();
        let frequent = frequent.map(|(id, count)| Frequent { id, count, text: text_of(tokenizer.as_ref(), id) });
        let most_frequent: Vec<Frequent> = frequent.collect();
        if !options.json {
            return Ok(describe(&statistics, &most_frequent));
        }
        let counted = Counted {
            schema: SCHEMA,
            documents: statistics.documents,
            tokens: statistics.tokens,
            longest: statistics.longest,
            different_ids: statistics.different(),
            lengths: statistics.lengths,
            most_frequent,
        };
        Ok(to_json(&counted))
    };
    end(text(), options.json)
}

/// Columns of the longest bar.
const BAR: u64 = 40;

/// The text of an id, or the token as its vocabulary spells it if it is only a part of a character.
fn text_of(tokenizer: Option<&Tokenizer>, id: u32) -> Option<String> {
    let text = tokenizer?.decode(&[id], false).ok().filter(|text| !text.is_empty() && !text.contains('\u{fffd}'));
    text.or_else(|| tokenizer?.id_to_token(id))
}

fn describe(statistics: &Statistics, most_frequent: &[Frequent]) -> String {
    let Statistics { documents, tokens, longest, .. } = statistics;
    let mut lines = vec![
        format!(
            "{}, {}, {}; the longest document has {}",
            counted(*documents, "document"),
            counted(*tokens, "token"),
            counted(statistics.different(), "different id"),
            counted(*longest, "token")
        ),
        "tokens per document".to_owned(),
    ];
    let most = statistics.lengths.iter().copied().max().unwrap_or(0).max(1);
    for (class, &count) in statistics.lengths.iter().enumerate().skip_while(|(_, count)| **count == 0) {
        let range = match class {
            0 | 1 => class.to_string(),
            _ => format!("{} to {}", grouped(1 << (class - 1)), grouped(u64::MAX >> (64 - class))),
        };
        let bar = "#".repeat((u128::from(count) * u128::from(BAR)).div_ceil(most.into()) as usize);
        lines.push(format!("{range:>26} {:>14} {bar}", grouped(count)).trim_end().to_owned());
    }
    lines.push("most frequent ids".to_owned());
    lines.extend(most_frequent.iter().map(|Frequent { id, count, text }| {
        let text = text.as_ref().map_or_else(String::new, |text| format!(" {text:?}"));
        format!("{id:>26} {:>14}{text}", grouped(*count))
    }));
    lines.join("\n")
}
