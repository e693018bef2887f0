//! `windrow completions`: files that packages of the command install with it.

use std::path::Path;
use std::{fs, io};

use clap::{Command, CommandFactory};

use crate::args::{Arguments, Completions};
use crate::exit::Code;
use crate::report;

/// Columns of a man page: a terminal's 80, less the indent of a section.
const WIDTH: usize = 72;

/// Runs the command and reports the result.
pub(crate) fn run(options: Completions) -> Code {
    let mut command = Arguments::command();
    if let Some(folder) = options.man {
        command = command.disable_help_subcommand(true);
        command.build();
        return match write_pages(command, &folder) {
            Ok(()) => Code::Done,
            Err(error) => {
                let folder = windrow_tokenizers::shown(&folder);
                report::error(format_args!("{folder}: {error}\nhint: pass a writable folder"));
                Code::CannotCreate
            }
        };
    }
    let mut script = Vec::new();
    if let Some(shell) = options.shell {
        clap_complete::generate(shell, &mut command, "windrow", &mut script);
    }
    report::printed(report::print(String::from_utf8_lossy(&script).trim_end()), Code::Done)
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_pages(inner.clone(), folder)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    fs::write(folder.join(format!("{name}.1")), page(&name, command))
}

/// A man page with the text of `--help`: its headings are those of sections, and its lines stay as they are.
fn page(name: &str, command: Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH {} 1 \"\" \"windrow {version}\"\n.SH NAME\n", escaped(name));
    page += &format!("{} \\- {}\n.SH DESCRIPTION\n.nf\n", escaped(name), escaped(&about));
    let help = command.term_width(WIDTH).render_long_help().to_string();
    let mut after_heading = true;
    for line in help.trim_end().lines() {
        let (heading, rest) = match line.strip_prefix("Usage: ") {
            Some(usage) => (Some("Usage"), usage),
            None => (line.strip_suffix(':').filter(|heading| !heading.starts_with(' ')), line),
        };
        if let Some(heading) = heading {
            page += &format!(".fi\n.SH {}\n.nf\n", escaped(&heading.to_uppercase()));
            after_heading = true;
            if heading != "Usage" {
                continue;
            }
        } else if line.is_empty() && after_heading {
            continue;
        }
        page += &format!("{}\n", escaped(rest));
        after_heading = false;
    }
    page + ".fi\n"
}

/// A line of text for the formatter of man pages, which takes backslashes, and points at the start of a line, for its own. It would turn
/// hyphens and apostrophes into other characters.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn pages_have_the_sections_of_the_help() {
        let arg = Arg::new("it").long("long-one").help("Take 'it'\n.so as C:\\").help_heading("Some things");
        let mut command = Command::new("a-b").about("Do it").after_help("Last words.").arg(arg);
        command.build();
        let page = page("a-b", command);
        let found: Vec<&str> = page.lines().skip(1).collect();
        let expected = [
            ".SH NAME",
            "a\\-b \\- Do it",
            ".SH DESCRIPTION",
            ".nf",
            "Do it",
            "",
            ".fi",
            ".SH USAGE",
            ".nf",
            "a\\-b [OPTIONS]",
            "",
        ];
        assert_eq!(found[..expected.len()], expected, "{page}");
        assert!(page.contains(".SH SOME THINGS\n.nf\n      \\-\\-long\\-one <it>\n"), "{page}");
        assert!(page.contains("Take \\(aqit\\(aq\n") && page.contains(".so as C:\\e\n"), "{page}");
        assert!(page.ends_with("\nLast words.\n.fi\n"), "{page}");
        assert_eq!(escaped(".so"), "\\&.so");
    }
}
