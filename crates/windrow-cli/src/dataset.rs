//! `windrow verify`, `windrow decode` and `windrow stat`: what `windrow encode` has written.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use windrow_tokenizers::dataset::{Dataset, DatasetError, Statistics};
use windrow_tokenizers::run::{Failed, FailureKind};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
use windrow_tokenizers::{decimal, shown, to_json};

use crate::exit::Code;
use crate::report;

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 failed, 2 usage or no such output, 65 a file is damaged or of another tokenizer, 74 reading failed.";

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// What `windrow encode -o` got, or the path of the manifest.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Also check that this tokenizer has encoded it: a name, or the path of a tokenizer.json.
    #[arg(long, value_name = "NAME|PATH")]
    tokenizer: Option<String>,

    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Decode {
    /// What `windrow encode -o` got, or the path of the manifest.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// The number of the document, from 0.
    #[arg(long, value_name = "N")]
    doc: u64,

    /// The part of an output that --split has divided; otherwise documents count through all parts.
    #[arg(long, value_name = "NAME")]
    part: Option<String>,

    /// The tokenizer that has encoded it, if it is not where the manifest says.
    #[arg(long, value_name = "NAME|PATH")]
    tokenizer: Option<String>,

    /// Print the ids, and no text.
    #[arg(long)]
    ids: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// What `windrow encode -o` got, or the path of the manifest.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Count only this part of an output that --split has divided.
    #[arg(long, value_name = "NAME")]
    part: Option<String>,

    /// The number of frequent ids to list.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// Prints the result, or reports why there is none.
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
    print(&text, code)
}

fn print(text: &str, code: Code) -> Code {
    printed(report::print(text), code)
}

fn printed(printed: io::Result<()>, code: Code) -> Code {
    match printed {
        Ok(()) => code,
        Err(error) => {
            report::error(format_args!("cannot write to stdout: {error}\nhint: check where it leads to"));
            Code::Io
        }
    }
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
        return print(&to_json(&report), code);
    }
    if code != Code::Done {
        return code;
    }
    let text = format!(
        "{} files, {}: as written; {} documents, {} tokens of {} (blake3 {})",
        verified.files,
        decimal(verified.bytes),
        manifest.documents.written,
        manifest.tokens,
        shown(&manifest.tokenizer.name),
        shown(&manifest.tokenizer.blake3)
    );
    print(&text, code)
}

/// An output, or a part of it.
fn opened(output: &Path, part: Option<&str>) -> Result<Dataset, Failed> {
    let dataset = Dataset::open(output)?;
    Ok(match part {
        Some(part) => dataset.part(part)?,
        None => dataset,
    })
}

pub(crate) fn decode(options: &Decode) -> Code {
    let text = || -> Result<String, Failed> {
        let dataset = opened(&options.output, options.part.as_deref())?;
        let Some(ids) = dataset.document(options.doc)? else {
            let documents = dataset.documents();
            let message =
                format!("there is no document {}: {documents} were written\nhint: they count from 0", options.doc);
            return Err(Failed::usage(message));
        };
        if options.ids {
            return Ok(ids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
        }
        let name = options.tokenizer.as_deref().unwrap_or(&dataset.manifest().tokenizer.name);
        let tokenizer = Tokenizer::load(name, &LoadOptions::default())?;
        dataset.check_tokenizer(&tokenizer)?;
        tokenizer.decode(&ids, false).map_err(|error| Failed { message: error.to_string(), kind: FailureKind::Other })
    };
    match text() {
        Ok(text) => printed(report::print_foreign(&text), Code::Done),
        failed => end(failed, false),
    }
}

#[derive(Serialize)]
struct Counted {
    schema: u32,
    documents: u64,
    tokens: u64,
    longest: u64,
    different_ids: u64,
    /// How many documents have 0, 1, 2 to 3, 4 to 7 ids and so on.
    lengths: Vec<u64>,
    most_frequent: Vec<Frequent>,
}

#[derive(Serialize)]
struct Frequent {
    id: u32,
    count: u64,
}

pub(crate) fn stat(options: &Stat) -> Code {
    let text = || -> Result<String, Failed> {
        let statistics = opened(&options.output, options.part.as_deref())?.statistics()?;
        if !options.json {
            return Ok(describe(&statistics, options.top));
        }
        let frequent = statistics.most_frequent(options.top).into_iter();
        let counted = Counted {
            schema: SCHEMA,
            documents: statistics.documents,
            tokens: statistics.tokens,
            longest: statistics.longest,
            different_ids: statistics.different(),
            lengths: statistics.lengths,
            most_frequent: frequent.map(|(id, count)| Frequent { id, count }).collect(),
        };
        Ok(to_json(&counted))
    };
    end(text(), options.json)
}

/// Columns of the longest bar.
const BAR: u64 = 40;

fn describe(statistics: &Statistics, top: usize) -> String {
    let Statistics { documents, tokens, longest, .. } = statistics;
    let mut lines = vec![
        format!(
            "{documents} documents, {tokens} tokens, {} different ids; the longest document has {longest}",
            statistics.different()
        ),
        "tokens in a document".to_owned(),
    ];
    let most = statistics.lengths.iter().copied().max().unwrap_or(0).max(1);
    for (class, &count) in statistics.lengths.iter().enumerate() {
        let range = match class {
            0 | 1 => class.to_string(),
            _ => format!("{} to {}", 1u64 << (class - 1), (1u128 << class) - 1),
        };
        let bar = "#".repeat((u128::from(count) * u128::from(BAR)).div_ceil(most.into()) as usize);
        lines.push(format!("{range:>24} {count:>12} {bar}").trim_end().to_owned());
    }
    lines.push("most frequent ids".to_owned());
    lines.extend(statistics.most_frequent(top).iter().map(|(id, count)| format!("{id:>24} {count:>12}")));
    lines.join("\n")
}
