//! Peers in C and C++, each compiled at the start and run as a separate process; the sources are in `peers/`.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use super::{Arm, Ask, Loaded, Reply};

/// The language, library and setting of a peer.
struct Kind {
    /// The prefix of the names of its arms.
    prefix: &'static str,
    /// The prefix of the names in the program, which does not know its setting.
    spoken: &'static str,
    /// The setting, in the environment of the process.
    environment: &'static [(&'static str, &'static str)],
    compiler: &'static str,
    flags: &'static [&'static str],
    source: (&'static str, &'static str),
}

const HEADER: (&str, &str) = ("peer.h", include_str!("../../peers/peer.h"));
const OPENMP: Kind = Kind {
    prefix: "omp-",
    spoken: "omp-",
    environment: &[],
    compiler: "gcc",
    flags: &["-fopenmp"],
    source: ("openmp.c", include_str!("../../peers/openmp.c")),
};
/// A name belongs to the first kind that fits.
const KINDS: [Kind; 6] = [
    Kind { prefix: "omp-passive-", environment: &[("OMP_WAIT_POLICY", "passive")], ..OPENMP },
    // LLVM's runtime has the entry points of gcc's. Of two libraries that have them the first one is called.
    Kind { prefix: "omp-llvm-", flags: &["-fopenmp", "-liomp5"], ..OPENMP },
    Kind { prefix: "omp-clang-", compiler: "clang", ..OPENMP },
    Kind { prefix: "omp-bound-", environment: &[("OMP_PROC_BIND", "true")], ..OPENMP },
    OPENMP,
    Kind {
        prefix: "tbb-",
        spoken: "tbb-",
        environment: &[],
        compiler: "g++",
        flags: &["-ltbb"],
        source: ("tbb.cpp", include_str!("../../peers/tbb.cpp")),
    },
];

/// Environment variable: a folder of compiled peers, for a machine without compilers. Missing peers are compiled into the folder.
const COMPILED: &str = "WINDROW_BENCH_PEERS";

/// The loops of these peers. The serial ones show how far apart the compilers are.
pub(super) const NAMES: [&str; 7] =
    ["omp-serial", "omp-static", "omp-guided", "omp-passive-static", "omp-llvm-static", "tbb-serial", "tbb-auto"];

/// A peer's process, or why it could not be started.
type Started = Result<Rc<RefCell<Program>>, String>;

/// Peers in other languages. Each is compiled and started when one of its arms is first needed.
#[derive(Debug, Default)]
pub struct Programs {
    /// By prefix.
    started: Vec<(&'static str, Started)>,
}

impl Programs {
    /// An arm of such a peer.
    pub(super) fn arm(&mut self, name: &str, threads: usize) -> Result<Box<dyn Arm>, String> {
        let kind = KINDS.iter().find(|kind| name.starts_with(kind.prefix)).expect("the arm of a program");
        let program = match self.started.iter().find(|(prefix, _)| *prefix == kind.prefix) {
            Some((_, program)) => program.clone(),
            None => {
                let program = Program::start(kind, threads).map(|program| Rc::new(RefCell::new(program)));
                self.started.push((kind.prefix, program.clone()));
                program
            }
        };
        let asked = name.replacen(kind.prefix, kind.spoken, 1);
        Ok(Box::new(There { name: name.to_owned(), asked, program: program?, cell: None }))
    }

    /// The versions that the peers report, or why they are missing.
    pub fn versions(&self) -> Vec<String> {
        let version = |(_, program): &(_, Started)| match program {
            Ok(program) => program.borrow().version.clone(),
            Err(error) => error.clone(),
        };
        self.started.iter().map(version).collect()
    }
}

/// A peer's process. It ends when its standard input ends.
#[derive(Debug)]
struct Program {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    version: String,
    /// The cell that it has loaded.
    cell: Option<Rc<Loaded>>,
}

impl Program {
    fn start(kind: &Kind, threads: usize) -> Result<Self, String> {
        let made = tempfile::tempdir().map_err(|error| format!("cannot create a folder to compile in: {error}"))?;
        let kept = std::env::var_os(COMPILED).map(|kept| Path::new(&kept).join(kind.prefix));
        let folder = kept.as_deref().unwrap_or(made.path());
        let program = folder.join("program");
        if !program.exists() {
            compile(kind, folder)?;
        }
        let mut child = Command::new(program)
            .arg(threads.to_string())
            .envs(kind.environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", kind.source.0))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(format!("{} has no pipes", kind.source.0));
        };
        let (answers, version) = (BufReader::new(answers), String::new());
        let mut program = Self { child, requests, answers, version, cell: None };
        program.version = program.ask("version\n", &[]);
        for (name, value) in kind.environment {
            program.version.push_str(&format!(", {name}={value}"));
        }
        Ok(program)
    }

    /// Sends a line and its data, and waits for the answer.
    fn ask(&mut self, line: &str, data: &[u8]) -> String {
        let sent = self.requests.write_all(line.as_bytes()).and_then(|()| self.requests.write_all(data));
        let mut answer = String::new();
        let read = sent.and_then(|()| self.requests.flush()).and_then(|()| self.answers.read_line(&mut answer));
        assert!(read.is_ok_and(|read| read > 0), "{} gave no answer to {line}", self.version);
        answer.trim_end().to_owned()
    }

    fn load(&mut self, cell: &Rc<Loaded>) {
        if self.cell.as_ref().is_some_and(|held| Rc::ptr_eq(held, cell)) {
            return;
        }
        let bytes: Vec<u8> =
            cell.items.iter().flat_map(|item| [item.seed, item.turns]).flat_map(u64::to_ne_bytes).collect();
        assert_eq!(self.ask(&format!("cell {}\n", cell.items.len()), &bytes), "ok");
        self.cell = Some(cell.clone());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles a peer into `program` in this folder.
fn compile(kind: &Kind, folder: &Path) -> Result<(), String> {
    let (name, _) = kind.source;
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot create a folder to compile in: {error}"))?;
    for (name, text) in [HEADER, kind.source] {
        std::fs::write(folder.join(name), text).map_err(|error| format!("{name} cannot be written: {error}"))?;
    }
    let mut command = Command::new(kind.compiler);
    command.args(["-O2", "-Wall", name, "-o", "program"]).args(kind.flags).current_dir(folder);
    let output = command.output().map_err(|error| format!("{name} needs {}: {error}", kind.compiler))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let first = errors.lines().find(|line| line.contains("error")).unwrap_or("").trim();
        return Err(format!("{name} does not compile: {first}"));
    }
    Ok(())
}

/// An arm in a separate process.
struct There {
    name: String,
    /// The arm's name in the program.
    asked: String,
    program: Rc<RefCell<Program>>,
    cell: Option<Rc<Loaded>>,
}

impl Arm for There {
    fn name(&self) -> &str {
        &self.name
    }

    fn load(&mut self, cell: &Rc<Loaded>) {
        self.cell = Some(cell.clone());
    }

    fn run(&mut self, ask: Ask) -> Reply {
        let cell = self.cell.as_ref().expect("a cell was loaded");
        let mut program = self.program.borrow_mut();
        program.load(cell);
        let Ask { warm_up, calls, each, gap, rest } = ask;
        let (each, gap, rest) = (u8::from(each), gap.as_nanos(), rest.as_nanos());
        let answer = program.ask(&format!("run {} {warm_up} {calls} {each} {gap} {rest}\n", self.asked), &[]);
        let mut numbers = answer.split(' ').map(|number| number.parse::<u64>().expect("answers are numbers"));
        let mut next = || numbers.next().expect("an answer has three numbers or more");
        let (cpu, cpu_at_rest, checksum) = (next() as f64, next() as f64, next());
        assert_eq!(checksum, cell.checksum(), "{} gives a different answer from serial", self.name);
        Reply { nanos: numbers.map(|nanos| nanos as f64).collect(), cpu, cpu_at_rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_cannot_be_built_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let absent = Kind { prefix: "x-", compiler: "no-such-compiler", flags: &[], source: ("x.c", ""), ..OPENMP };
        assert!(compile(&absent, folder.path()).unwrap_err().starts_with("x.c needs no-such-compiler"));
        let broken = Kind { compiler: "gcc", source: ("x.c", "int main( {"), ..absent };
        let error = compile(&broken, folder.path()).unwrap_err();
        assert!(error.contains("x.c needs gcc") || error.contains("x.c does not compile: x.c:1"), "{error}");
    }
}
