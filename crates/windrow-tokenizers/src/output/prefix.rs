//! Checks of prefixes: the names of files begin with them.

use std::fs::{self, FileType};
use std::path::Path;

use super::error::{OutputError, OutputErrorKind};
use super::names::{exists, folder_of, is_folder};
use crate::shown;

/// The remedy for an output that was meant as a stream.
const SEVERAL: &str = "an output consists of several files whose names begin with its prefix, such as out/corpus; \
                       for one stream, use --format jsonl -o FILE and then cat FILE.jsonl";

/// Refuses a prefix with which no file, or no `folder`, can be made.
pub(super) fn check(prefix: &Path, folder: bool) -> Result<(), OutputError> {
    let refuse = |message: String, hint: &str| {
        Err(OutputError::new(OutputErrorKind::Usage, message).at(prefix).hint(hint.to_owned()))
    };
    if let Some((scheme, _)) = prefix.to_str().and_then(|prefix| prefix.split_once("://"))
        && ["s3", "gs", "http", "https", "file"].contains(&scheme)
    {
        // A shard would be complete in the store before the others are, and a store cannot rename.
        let message = format!("{}: an output cannot be written to a URL", shown(prefix));
        let hint =
            "write to a local path and, once the manifest exists, copy the files with aws s3 cp or gcloud storage cp";
        return refuse(message, hint);
    }
    let bytes = prefix.as_os_str().as_encoded_bytes();
    let why = match bytes.last() {
        None => "is empty",
        Some(&last) if std::path::is_separator(last.into()) => "ends in a separator",
        Some(_) if prefix.file_name().is_none() || bytes.ends_with(b"/.") => "has no file name",
        _ => "",
    };
    if !why.is_empty() {
        let message = format!("the output prefix \"{}\" {why}", shown(prefix));
        return refuse(message, "pass a path that ends in a name, for example -o out/corpus");
    }
    if prefix.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"-")) {
        // Other commands would take the names of the files for options.
        return refuse(format!("the file name in the output prefix \"{}\" begins with a dash", shown(prefix)), SEVERAL);
    }
    for above in prefix.ancestors().skip(1) {
        if let Some(kind) = kind_of(above).filter(|kind| !kind.is_dir()) {
            let message = format!("cannot create {}: {} is {}", shown(prefix), shown(above), not_a_folder(kind));
            return refuse(message, SEVERAL);
        }
    }
    if is_among_devices(prefix) {
        return refuse(format!("the output prefix \"{}\" is in a device directory", shown(prefix)), SEVERAL);
    }
    match kind_of(prefix) {
        Some(kind) if !kind.is_dir() && !kind.is_file() => {
            refuse(format!("the output prefix \"{}\" is {}", shown(prefix), not_a_folder(kind)), SEVERAL)
        }
        _ if folder && exists(prefix) && !is_folder(prefix) => {
            let message = format!("{} is not a directory, but the mds format writes one", shown(prefix));
            refuse(
                message,
                "choose another prefix with -o; if this is a symbolic link, pass the directory that it points to",
            )
        }
        _ => Ok(()),
    }
}

/// The type of the file to which a path leads.
fn kind_of(path: &Path) -> Option<FileType> {
    Some(fs::metadata(path).ok()?.file_type())
}

fn not_a_folder(kind: FileType) -> &'static str {
    if kind.is_file() { "not a directory" } else { "a device, a pipe or a socket" }
}

/// True if the path names a device, or the stream of an open file, whatever file that is. `/dev/shm`, which is in memory, counts as an ordinary
/// folder.
pub fn is_among_devices(path: &Path) -> bool {
    let Ok(folder) = fs::canonicalize(folder_of(path)) else { return false };
    let is_of_process = folder.starts_with("/proc") && folder.ends_with("fd");
    cfg!(unix) && (is_of_process || (folder.starts_with("/dev") && !folder.starts_with("/dev/shm")))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_cannot_begin_names_is_refused_with_the_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("{}/{name}", directory.path().display());
        fs::write(at("file"), "precious").unwrap();
        fs::create_dir(at("folder")).unwrap();
        symlink(at("folder"), at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("/dev/null", at("null")).unwrap();
        let says = |prefix: &str, folder| match check(Path::new(prefix), folder) {
            Ok(()) => String::new(),
            Err(error) => {
                assert_eq!(error.kind(), OutputErrorKind::Usage);
                error.to_string()
            }
        };
        for (prefix, expected) in [
            ("", "is empty"),
            ("folder/", "ends in a separator"),
            ("..", "has no file name"),
            (".", "has no file name"),
            ("folder/..", "has no file name"),
            ("folder/.", "has no file name"),
            ("-", "begins with a dash"),
            ("--format", "begins with a dash"),
            ("./-x", "begins with a dash"),
            ("/dev/stdout", "is in a device directory"),
            ("/dev/out", "is in a device directory"),
            ("/dev/fd/1", "is in a device directory"),
            ("/dev/null/x", "/dev/null is a device"),
            (&at("null"), "null\" is a device"),
            (&at("null/x"), "null is a device"),
            (&at("file/x"), "file is not a directory"),
            (&at("file/x/y"), "file is not a directory"),
        ] {
            for folder in [false, true] {
                let said = says(prefix, folder);
                assert!(said.contains(expected) && said.contains("\nhint: "), "{prefix}: {said}");
            }
        }
        let fine = ["new", "folder", "file", "link", "dangling", "link/new", "a-", "missing/new"];
        for prefix in fine.map(at).iter().chain([&"/dev/shm/windrow-test".to_owned()]) {
            assert_eq!(says(prefix, false), "");
        }
        for prefix in ["file", "link", "dangling"] {
            assert!(says(&at(prefix), true).contains("is not a directory, but the mds format writes one"), "{prefix}");
        }
        assert_eq!(says(&at("folder"), true), "");
    }
}
