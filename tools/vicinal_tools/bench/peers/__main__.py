"""python -m vicinal_tools.bench.peers SCENARIO ... [--systems vicinal,mosquitto,nats] [--rounds 3] [--seconds S]"""

import click

from .scenarios import SCENARIOS, Lost, median, rounds
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
            scenario = scenario._replace(seconds=seconds)
        click.echo(f"{name}: {scenario.what}")
        try:
            found = rounds(scenario, chosen, count)
        except Lost as lost:
            click.echo(f"  FAILED: {lost}")
            continue
        for system, runs in found.items():
            click.echo(
                f"  {system:10} {median(runs, lambda one: one.rate):10,.0f} deliveries/s"
                f"  broker {median(runs, lambda one: one.broker_us):7.2f} us"
                f"  system {median(runs, lambda one: one.system_us):7.2f} us a delivery"
                f"  {median(runs, lambda one: one.memory) / 1e6:6.1f} MB"
                f"  ({runs[0].events:,} events in {runs[0].seconds:.2f} s)"
            )


if __name__ == "__main__":
    main()
