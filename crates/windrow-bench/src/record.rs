//! Records, which documents may quote.
//!
//! A record is a CSV file `bench/record/<machine>/<date>-<name>.csv` that begins with the command, the commit and the compiler as
//! comments.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first line of a program's output, or a dash.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().ok();
    let text = output.filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).lines().next().unwrap_or("").trim().to_owned();
    if text.is_empty() { "-".to_owned() } else { text }
}

/// The peers that are crates.
const PEERS: [&str; 19] = [
    "rayon",
    "rayon-core",
    "chili",
    "commonware-parallel",
    "paralight",
    "orx-parallel",
    "spindle",
    "hurdles",
    "tokio",
    "faer",
    "matrixmultiply",
    "congee",
    "crossbeam-channel",
    "crossbeam-skiplist",
    "dashmap",
    "parking_lot",
    "scc",
    "batch-aint-one",
    "rusqlite",
];

/// The versions of the peers that are crates, from the lock file.
pub fn versions() -> Vec<String> {
    let lock = include_str!("../../../Cargo.lock");
    let version = |name: &str| {
        let (_, package) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        Some(format!("{name} {}", package.split('"').next()?))
    };
    PEERS.into_iter().filter_map(version).collect()
}

/// The CPU's name and the number of CPUs that the process may use.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|it| it.1.trim().to_owned()));
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{} x{cpus}", model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()))
}

/// A machine's name in the form of a folder name.
fn slug(machine: &str) -> String {
    let words: Vec<&str> =
        machine.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

/// This environment variable names a folder for records, in place of `bench/record`: a comparison of two builds reads them there.
pub const FOLDER: &str = "WINDROW_RECORD_FOLDER";

/// This environment variable allows records of uncommitted code.
pub const ALLOW_DIRTY: &str = "WINDROW_RECORD_DIRTY";

/// The commit, and whether anything except records differs from it.
fn commit() -> String {
    let changes = said("git", &["status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)bench"]);
    let dirty = if changes == "-" { "" } else { "-dirty" };
    format!("{}{dirty}", said("git", &["describe", "--always"]))
}

fn allowed_of(commit: &str, dirty_too: bool) -> Result<(), String> {
    if dirty_too || !commit.ends_with("-dirty") {
        return Ok(());
    }
    Err(format!(
        "uncommitted code is not recorded ({commit})\n  hint: commit first, or set {ALLOW_DIRTY}=1 to record it anyway"
    ))
}

/// The option of all programs that write records.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Recording {
    /// Write records below bench/record.
    #[arg(long)]
    record: bool,
}

impl Recording {
    /// True if records are written.
    pub fn is_wanted(self) -> bool {
        self.record
    }

    /// Refuses a record before the program measures. Always `Ok` if none is wanted.
    ///
    /// # Errors
    /// When tracked files outside `bench` differ from the commit: no checkout could repeat the record.
    pub fn allowed(self) -> Result<(), String> {
        if self.record { allowed_of(&commit(), std::env::var_os(ALLOW_DIRTY).is_some()) } else { Ok(()) }
    }

    /// [`allowed`](Self::allowed) for a program that measures only a part if it has `option`: `whole` is false then.
    ///
    /// # Errors
    /// The errors of [`allowed`](Self::allowed), and a wanted record of a part.
    pub fn allowed_whole(self, whole: bool, option: &str) -> Result<(), String> {
        match self.record && !whole {
            true => Err(format!("a record must hold all cells\n  hint: use --record without {option}")),
            false => self.allowed(),
        }
    }

    /// Writes a table below bench/record and prints its path, if records are wanted. `columns` is its first line.
    ///
    /// # Errors
    /// When the record is not [allowed](Self::allowed), or the folder or the file cannot be written.
    pub fn write(self, name: &str, notes: &[String], columns: &str, lines: &[String]) -> Result<(), String> {
        if self.record {
            self.allowed()?;
            let path = write_text(Path::new("bench/record"), name, &command(), notes, columns, lines);
            println!("{}", path.map_err(|error| format!("cannot write the record: {error}"))?.display());
        }
        Ok(())
    }
}

fn write_text(
    root: &Path,
    name: &str,
    command: &str,
    notes: &[String],
    columns: &str,
    lines: &[String],
) -> io::Result<PathBuf> {
    let machine = machine();
    let elsewhere = std::env::var_os(FOLDER).map(PathBuf::from);
    let folder = elsewhere.as_deref().unwrap_or(root).join(slug(&machine));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}-{name}.csv", said("date", &["-u", "+%F"])));
    let mut file = io::BufWriter::new(std::fs::File::create(&path)?);
    writeln!(file, "# command: {command}")?;
    writeln!(file, "# machine: {machine}")?;
    writeln!(file, "# commit: {}", commit())?;
    writeln!(file, "# compiler: {}", said("rustc", &["--version"]))?;
    for note in notes {
        writeln!(file, "# {note}")?;
    }
    writeln!(file, "{columns}")?;
    for line in lines {
        writeln!(file, "{line}")?;
    }
    file.flush()?;
    Ok(path)
}

/// The command that started this process, for the root of the repository.
fn command() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_stem().unwrap_or_default().display();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let features = if cfg!(feature = "ablation") { "--features ablation " } else { "" };
    let command = format!("cargo run --release -p windrow-bench {features}--bin {program} -- {}", arguments.join(" "));
    command.trim_end_matches(" -- ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_how_it_was_made_and_holds_every_repetition() {
        let root = tempfile::tempdir().unwrap();
        let lines = ["a,0,7".to_owned(), "a,1,7".to_owned()];
        let columns = "arm,repetition,nanoseconds";
        let path = write_text(root.path(), "test", "cmd --x", &["note".into()], columns, &lines).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.starts_with("# command: cmd --x\n# machine: "));
        assert!(text.ends_with("# note\narm,repetition,nanoseconds\na,0,7\na,1,7\n"));
    }

    #[test]
    fn uncommitted_code_has_no_record_unless_forced() {
        assert!(
            Recording { record: false }.allowed().is_ok()
                && allowed_of("abc", false).is_ok()
                && allowed_of("abc-dirty", true).is_ok()
        );
        assert!(allowed_of("abc-dirty", false).unwrap_err().contains("hint: commit first"));
    }

    #[test]
    fn the_peers_have_versions() {
        assert_eq!(versions().len(), PEERS.len(), "{:?}", versions());
    }

    #[test]
    fn machine_names_become_folder_names() {
        assert_eq!(slug("AMD EPYC (TM) 9B14 x2"), "amd-epyc-tm-9b14-x2");
    }
}
