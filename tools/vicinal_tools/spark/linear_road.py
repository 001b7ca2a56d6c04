"""vicinal spark linear-road: the benchmark of stream systems, as events through a broker and Spark."""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from ..complain import BadInput
from ..overlay import Failed
from ._hardware import describe
from ._options import session_options, start

if TYPE_CHECKING:
    from vicinal_cloud.spark.linear_road.run import Progress, Result

__all__ = ["command"]

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("linear-road")
@click.option("--input", "input_", required=True, type=_FILE, help="Rows of 15 integers, plain or gzipped.")
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Gets type0.csv to type3.csv."
)
@click.option("--tollhistory", type=_FILE, help="Rows of vid,day,xway,toll; without it type 3 has no answers.")
@click.option("--paced", is_flag=True, help="Feed by the input's time, and measure emit - time of every answer.")
@click.option("--json", "as_json", is_flag=True, help="What was measured as one JSON object, for programs.")
@session_options
def command(
    input_: Path,
    out: Path,
    tollhistory: Path | None,
    paced: bool,
    as_json: bool,
    master: str | None,
    memory: str | None,
    jars: str | None,
) -> None:
    """Run Linear Road: toll notifications, accident alerts, account balances, daily expenditures.

    The input goes as events into a broker, through Spark, and the answers into files without header:

    \b
        type0.csv  0, vid, time, emit, lav, toll
        type1.csv  1, time, emit, xway, accident's segment, dir, vid
        type2.csv  2, time, emit, resulttime, qid, balance
        type3.csv  3, time, emit, qid, toll

    A run that was killed goes on when it is started again. `vicinal spark linear-road-input` makes inputs.
    """
    from vicinal.errors import VicinalError

    try:
        from vicinal_cloud.spark.linear_road.errors import LinearRoadError
        from vicinal_cloud.spark.linear_road.history import TollHistory
        from vicinal_cloud.spark.linear_road.reading import read
        from vicinal_cloud.spark.linear_road.rows import LeftOut
        from vicinal_cloud.spark.linear_road.run import SETTINGS, clean, prepare, run
        from vicinal_cloud.spark.source import register
    except ImportError as error:
        raise Failed(f"{error}: pip install 'vicinal[spark,broker]'") from error
    from ._broker import broker

    try:
        next(read(input_, LeftOut()), None)  # what is no input is said before anything is started
        history = None if tollhistory is None else TollHistory.load(tollhistory)
        state = prepare(input_, out)
    except LinearRoadError as error:
        raise BadInput(str(error)) from error
    with _status() as tell:
        tell("starting Spark")
        spark = start("linear-road", master, memory, SETTINGS, jars)
        try:
            register(spark)
            with broker(state) as address:
                result = run(spark, input_, out, address, history, paced, _telling(tell), over_network=bool(master))
        except LinearRoadError as error:
            raise BadInput(str(error)) from error
        except VicinalError as error:
            raise Failed(str(error)) from error
        finally:
            spark.stop()
    clean(out)
    _say(result, paced, as_json)


def _status() -> "AbstractContextManager[Callable[[str], None]]":
    return _Status()


class _Status:
    """One line that changes, on a terminal; a line now and then elsewhere, so that a log of it can be read."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._line = self._console.status("")
        self._said = 0

    def __enter__(self) -> "Callable[[str], None]":
        if self._console.is_terminal:
            self._line.start()
        return self._tell

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    def _tell(self, text: str) -> None:
        if self._console.is_terminal:
            self._line.update(text)
        elif self._said % 10 == 0:
            click.echo(text, err=True)
        self._said += 1


def _telling(tell: "Callable[[str], None]") -> "Callable[[Progress], None]":
    def say(progress: "Progress") -> None:
        minutes, seconds = divmod(progress.time, 60)
        hours, minutes = divmod(minutes, 60)
        at = f"{hours}:{minutes:02}:{seconds:02} of the input"
        tell(f"{progress.fed:,} rows fed, {at}; {sum(progress.answered):,} answers" if progress.fed else "warming up")

    return say


def _say(result: "Result", paced: bool, as_json: bool) -> None:
    from vicinal_cloud.spark.linear_road.answers import BOUNDS, FILES

    rate = result.fed / result.seconds if result.seconds else 0.0
    late = [kind for kind, bound in enumerate(BOUNDS) if paced and result.delays.most(kind) > bound]
    for line in result.left_out.say():
        click.echo(line, err=True)
    if as_json:
        found = {
            "rows": result.rows,
            "seconds": round(result.seconds, 3),
            "rows_per_second": round(rate),
            "answers": result.answered,
            "unanswered": result.unanswered,
            "left_out": dict(result.left_out.counts),
            "machine": describe(),
        }
        if paced:
            found["delays_s"] = [
                {
                    "p50": result.delays.quantile(kind, 0.5),
                    "p99": result.delays.quantile(kind, 0.99),
                    "most": result.delays.most(kind),
                }
                for kind in range(len(FILES))
            ]
        click.echo(json.dumps(found))
    else:
        click.echo(f"{result.fed:,} rows in {result.seconds:,.1f} s, {rate:,.0f} a second, on {describe()}")
        for kind, (name, bound) in enumerate(zip(FILES, BOUNDS)):
            text = f"{name}: {result.answered[kind]:,} answers"
            if paced and result.answered[kind]:
                delays = result.delays
                half, most = delays.quantile(kind, 0.5), delays.most(kind)
                text += f"; emit - time {half:.1f} s in the middle, {most:.1f} s at most, of {bound} s allowed"
            click.echo(text)
        for reason, count in sorted(result.unanswered.items()):
            click.echo(f"{count:,} without an answer: {reason}")
    sys.stdout.flush()
    if late:
        raise Failed(f"too late: type {', '.join(map(str, late))}")
