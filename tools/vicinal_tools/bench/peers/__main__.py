"""python -m vicinal_tools.bench.peers SCENARIO ... [--systems vicinal,mosquitto,nats] [--rounds 3] [--seconds S]"""

import click

from .figures import folder
from .scenarios import SCENARIOS, Outcome, percentile, rounds
from .systems import SYSTEMS, missing


@click.command()
@click.argument("scenarios", nargs=-1, type=click.Choice(list(SCENARIOS)))
@click.option("--systems", default=",".join(SYSTEMS), show_default=True, help="Which brokers, with commas.")
@click.option("--rounds", "count", default=3, show_default=True, help="The median of so many is shown.")
@click.option("--seconds", type=float, help="How long a run publishes.")
def main(scenarios: tuple[str, ...], systems: str, count: int, seconds: float | None) -> None:
    """Run SCENARIOS (all, if none is named) and show what each broker did."""
    chosen = tuple(systems.split(","))
    for one in chosen:
        if one not in SYSTEMS:
            raise click.BadParameter(f"{one!r}: want some of {', '.join(SYSTEMS)}")
    if lacking := missing(chosen):
        raise click.ClickException(f"as root: apt-get install -y --no-install-recommends {' '.join(lacking)}")
    for name in scenarios or SCENARIOS:
        scenario = SCENARIOS[name]
        if seconds is not None:
            most = int(scenario.pace * seconds) or scenario.most
            scenario = scenario._replace(seconds=60.0 if scenario.pace else seconds, most=most)
        click.echo(f"{name}: {scenario.what}")
        found = rounds(scenario, ("vicinal",) if scenario.is_ours else chosen, count, folder())
        for system, outcome in found.items():
            _show(system, outcome)


def _show(system: str, outcome: Outcome) -> None:
    for lost in outcome.lost:
        click.echo(f"  FAILED: {lost}")
    if not outcome.runs:
        return
    line = (
        f"  {system:10} {outcome.median(lambda one: one.rate):10,.0f} deliveries/s"
        f"  broker {outcome.median(lambda one: one.broker_us):7.2f} us"
        f"  system {outcome.median(lambda one: one.system_us):7.2f} us a delivery"
        f"  {outcome.median(lambda one: one.memory) / 1e6:6.1f} MB"
    )
    if outcome.runs[0].late:
        half, most = (outcome.median(lambda one, p=p: percentile(one.late, p)) for p in (50, 99))  # type: ignore[misc]
        line += f"  p50 {half * 1e3:.3f} ms  p99 {most * 1e3:.3f} ms"
    click.echo(f"{line}  ({outcome.runs[0].events:,} events in {outcome.runs[0].seconds:.2f} s)")


if __name__ == "__main__":
    main()
