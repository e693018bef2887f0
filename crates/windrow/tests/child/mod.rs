//! Tests of what a program leaves at its end: each runs itself again in a child process, with variables.

use std::process::{Command, Output};

/// Runs the test of this name in a child with these variables.
pub(crate) fn child(name: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads", "1"]).env("CHILD", "1");
    command.env_remove("WINDROW_EXPLAIN").env_remove("WINDROW_TRACE").env_remove("WINDROW_TRACE_CLAIMS");
    command.envs(variables.iter().copied()).output().unwrap()
}

/// True if this process is such a child.
pub(crate) fn is_child() -> bool {
    std::env::var_os("CHILD").is_some()
}

/// The line of a source that ends with a comment.
pub(crate) fn line_of(source: &str, comment: &str) -> usize {
    let end = format!("// {comment}");
    1 + source.lines().position(|line| line.ends_with(&end)).expect("a line ends with this comment")
}
