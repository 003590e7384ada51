"""Measures a language model on HolisticBias and writes a report.

    accelerate launch hb_metrics/measure.py --model openai-community/gpt2 --dataset_config v1.0 --output_dir runs/gpt2

The report appears after the first measurement and is complete at the end. To resume an interrupted run, repeat the same
command, with any number of processes.
"""

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread, Timer

from hb_dataset.command_line import printable, safe_terminal
from hb_metrics.command.arguments import parse_arguments
from hb_metrics.command.gates import GATE_STATUS, GateError

LOST_PROCESS = (
    "another process of this run has ended. Its output may state the reason. Finished work is kept. To resume, run the "
    "same command again"
)


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    if not sys.stderr.isatty():  # progress bars would fill a log with lines
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # also for transformers
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    with safe_terminal(), _ended_by_signals(argv):
        try:
            settings = parse_arguments(argv, (__doc__ or "").split("\n", 1)[0])
            # These imports take seconds, so the options are checked first.
            if settings.run.show is not None:
                from hb_metrics.command.run_prompts import prompts_to_show, show_prompts

                show_prompts(settings, prompts_to_show(settings))
            else:
                from hb_metrics.command.measuring import measure

                measure(settings)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            raise SystemExit(f"measure.py: {error}") from error
        except GateError as error:
            print(printable(f"{Path(sys.argv[0]).name}: {error}"), file=sys.stderr)
            raise SystemExit(GATE_STATUS) from error
        except RuntimeError as error:
            from hb_metrics.models.processes import is_lost_process

            if is_lost_process(error):
                raise SystemExit(f"measure.py: {LOST_PROCESS}") from error
            raise


@contextmanager
def _ended_by_signals(argv: Sequence[str]) -> Iterator[None]:
    """Ends the process at once on Ctrl-C or SIGTERM (which schedulers send), and prints the command to resume.

    A `KeyboardInterrupt` could wait minutes for threads or other processes. Nothing is lost, because files are written
    whole or not at all.
    """
    is_subcommand = sys.argv[0].startswith("holistic-bias")  # set by hb_cli
    again = shlex.join([*(sys.argv[0].split() if is_subcommand else ("python", "-m", "hb_metrics.measure")), *argv])
    text = f"\nInterrupted. Finished work is kept. To resume, run the same command again:\n  {again}\n"
    message = text.encode() if os.environ.get("RANK", "0") == "0" else b""
    # If a signal is already ignored, such as Ctrl-C for a background job, it remains ignored.
    signals = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]

    def watch() -> None:
        while received := os.read(reader, 1):
            if received[0] in signals:
                code = 1 if received[0] == signal.SIGINT else 128 + received[0]
                Timer(1, os._exit, [code]).start()  # in case the write blocks because nobody reads the output
                with suppress(OSError):  # the output may be closed
                    os.write(2, message)
                    sys.stdout.flush()
                os._exit(code)

    # A signal handler would run only after the main thread has returned to Python code. A signal's number is written to
    # this pipe at once, and the thread `watch` reads the number.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    handlers = {number: signal.signal(number, lambda *_: None) for number in signals}
    wakeup = signal.set_wakeup_fd(writer)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writer)
        watcher.join()
        os.close(reader)


if __name__ == "__main__":
    main()
