"""The command ``windrow``, also as ``python -m windrow``."""

import signal
import sys

from windrow import _windrow


def main() -> int:
    """Runs the command with the words of ``sys.argv``, and returns the exit code."""
    if not hasattr(_windrow, "run_command"):
        sys.exit("error: this build of the package has no command\nhint: cargo install windrow-cli")
    # The command handles Ctrl-C itself; the handler of Python would only run when it has ended.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _windrow.run_command(["windrow", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
